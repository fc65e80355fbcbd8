"""Where members agree: a few keys that are read and changed linearizably. etcd in earnest."""

from penstock.replication.config import ClusterConfig, Promise


class Coordinator:
    """What a member asks of the store it agrees in. Nominal base.

    Nothing is answered at once: configurations, promises and suspicions that were read or watched
    reach the member through `config_seen`, `promise_seen`, `suspicion_seen` and `suspicion_gone`.
    """

    def read_config(self) -> None:
        """Read the configuration as it is now or later."""
        raise NotImplementedError

    def swap(self, number: int, expected_revision: int, config: ClusterConfig) -> None:
        """Replace the configuration if its revision is still the expected one, 0: if there is none.
        Then `swapped`, or `swap_failed` when nobody knows."""
        raise NotImplementedError

    def put_promise(self, promise: Promise) -> None:
        """Put the member's promise; again if it may not have arrived."""
        raise NotImplementedError

    def put_suspicion(self, epoch: int) -> None:
        """Put that the member does not hear the leader of `epoch`."""
        raise NotImplementedError

    def withdraw_suspicion(self, epoch: int) -> None:
        """Take it back."""
        raise NotImplementedError
