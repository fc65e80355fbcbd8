"""The coordinator of a simulated cluster: linearizable, slow, and sometimes out of reach.

A request that is under way when the store goes out of reach may be lost, or carried out much later;
who sent it hears of neither.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.replication.config import ClusterConfig, Promise
from penstock.replication.coordinator import Coordinator
from penstock.simulation.machine.dice import Dice

if TYPE_CHECKING:
    from penstock.simulation.cluster.node import SimNode

POLL_MS = 150
REQUEST_TIMEOUT_MS = 400


class SimStore:
    """The keys. is_down: for everybody; cut: nodes it is out of reach for; watching: called with
    every new configuration."""

    def __init__(self, dice: Dice, after: Callable[[float, Callable[[], None]], None]) -> None:
        self.dice = dice
        self.after = after
        self.config: ClusterConfig | None = None
        self.revision = 0
        self.promises: dict[str, Promise] = {}
        self.suspicions: dict[str, int] = {}
        self.is_down = False
        self.cut: set[str] = set()
        self.watching: Callable[[ClusterConfig], None] = _nothing
        self.clients: list[SimCoordinator] = []

    def reaches(self, name: str) -> bool:
        return not self.is_down and name not in self.cut

    def swap(self, expected_revision: int, config: ClusterConfig) -> bool:
        if expected_revision != self.revision:
            return False
        self.config = config
        self.revision += 1
        self.watching(config)
        self.tell()
        return True

    def tell(self) -> None:
        """Something has changed: those who watch read it soon."""
        for client in self.clients:
            client.poll_soon()


class SimCoordinator(Coordinator):
    """What one life of one node has of the store."""

    def __init__(self, store: SimStore, node: "SimNode") -> None:
        self.store = store
        self.node = node
        self.life = node.life
        self._promise: Promise | None = None
        self._suspicion: int | None = None
        self._is_polling = False
        self._polled = 0
        store.clients = [one for one in store.clients if one.is_alive] + [self]
        self._poll_again()

    @property
    def is_alive(self) -> bool:
        return self.node.is_up and self.node.life == self.life

    # -- reading -----------------------------------------------------------------------------------

    def read_config(self) -> None:
        self._poll()

    def poll_soon(self) -> None:
        if not self._is_polling:
            self._is_polling = True
            self.store.after(self.store.dice.between(1, 15), self._poll)

    def _poll_again(self) -> None:
        if self.is_alive:
            self._poll()
            self.store.after(POLL_MS, self._poll_again)

    def _poll(self) -> None:
        self._is_polling = False
        store = self.store
        if not self.is_alive or self.node.is_paused or not store.reaches(self.node.name):
            return
        self._polled += 1
        seen = (self._polled, store.config, store.revision, dict(store.promises))
        suspicions = dict(store.suspicions)
        delay = store.dice.between(1, 6)
        store.after(delay, lambda: self._answer(seen, suspicions))
        self._flush()

    def _answer(
        self,
        seen: tuple[int, ClusterConfig | None, int, dict[str, Promise]],
        suspicions: dict[str, int],
    ) -> None:
        _, config, revision, promises = seen

        def tell() -> None:
            member = self.node.member
            now = self.node.now_ms()
            member.config_seen(config, revision, now)
            for name in sorted(promises):
                member.promise_seen(promises[name], now)
            for name in sorted(member.election.suspicions | suspicions.keys()):
                if suspicions.get(name) == member.epoch:
                    member.suspicion_seen(member.epoch, name, now)
                else:
                    member.suspicion_gone(member.epoch, name, now)

        if self.is_alive and self.store.reaches(self.node.name):
            self.node.deliver("coordinator", tell)

    # -- writing -----------------------------------------------------------------------------------

    def put_promise(self, promise: Promise) -> None:
        self._promise = promise
        self.store.after(self.store.dice.between(1, 4), self._flush)

    def put_suspicion(self, epoch: int) -> None:
        self._suspicion = epoch
        self.store.after(self.store.dice.between(1, 4), self._flush)

    def withdraw_suspicion(self, epoch: int) -> None:
        self._suspicion = 0
        self.store.after(self.store.dice.between(1, 4), self._flush)

    def _flush(self) -> None:
        """Put what waits, if the store is there; every poll tries again."""
        store, name = self.store, self.node.name
        if not self.is_alive or self.node.is_paused or not store.reaches(name):
            return
        if self._promise is not None:
            before = store.promises.get(name)
            if before is None or before.epoch <= self._promise.epoch:
                store.promises[name] = self._promise
            self._promise = None
            store.tell()
        if self._suspicion is not None:
            store.suspicions[name] = self._suspicion
            self._suspicion = None
            store.tell()

    def swap(self, number: int, expected_revision: int, config: ClusterConfig) -> None:
        store = self.store
        pending = [True]

        def arrive() -> None:
            if not store.reaches(self.node.name):
                # Lost, or kept by the network until it mends.
                if store.dice.happens(50):
                    store.after(store.dice.between(100, 3000), arrive)
                return
            is_done = store.swap(expected_revision, config)
            store.after(store.dice.between(1, 5), lambda: answer(is_done))

        def answer(is_done: bool) -> None:
            if pending[0] and self.is_alive and store.reaches(self.node.name):
                pending[0] = False
                self.node.deliver(
                    "swapped",
                    lambda: self.node.member.swapped(number, is_done, self.node.now_ms()),
                )

        def give_up() -> None:
            if pending[0] and self.is_alive:
                pending[0] = False
                self.node.deliver(
                    "swap_failed", lambda: self.node.member.swap_failed(number, self.node.now_ms())
                )

        store.after(store.dice.between(1, 5), arrive)
        store.after(REQUEST_TIMEOUT_MS, give_up)


def _nothing(config: ClusterConfig) -> None:
    """Nobody watches."""
