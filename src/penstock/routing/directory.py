"""The queues of a vhost by name, as far as routing needs them. COMPILED.

Routing knows queues only as destinations. Floors above put their queues in a `QueueDirectory`, or
stand in with a `QueueLookup` of their own when some names lead elsewhere (direct reply-to).
"""

from mypy_extensions import mypyc_attr

from penstock.routing.destination import Destination
from penstock.routing.exchange import Topology


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueLookup:
    """Finds queues by name. A subclass overrides `find_queue` and calls `announce` after every
    change of what it would answer; between two such calls the answers stay the same."""

    __slots__ = ("_topology",)

    def __init__(self) -> None:
        self._topology: Topology | None = None

    def attach(self, topology: Topology) -> None:
        """Announce changes to `topology` from now on. Called by the router only."""
        self._topology = topology

    def announce(self) -> None:
        """Tell the topology that remembered routes may be wrong."""
        if self._topology is not None:
            self._topology.queues_changed()

    def find_queue(self, name: str) -> Destination | None:
        """The queue called `name`, or None."""
        raise AssertionError("a queue lookup must say how it finds a queue")


class QueueDirectory(QueueLookup):
    """A dictionary of queues that announces its changes by itself."""

    __slots__ = ("_queues",)

    def __init__(self) -> None:
        super().__init__()
        self._queues: dict[str, Destination] = {}

    def add(self, queue: Destination) -> None:
        """Take `queue` in under its name, which must be free."""
        if queue.name in self._queues:
            raise AssertionError(f"there is a queue '{queue.name}' already")
        self._queues[queue.name] = queue
        self.announce()

    def remove(self, queue: Destination) -> None:
        """Take `queue` out. Its bindings are the router's: see `Router.drop_destination`."""
        if self._queues.get(queue.name) is not queue:
            raise AssertionError(f"queue '{queue.name}' is not in this directory")
        del self._queues[queue.name]
        self.announce()

    def find_queue(self, name: str) -> Destination | None:
        """The queue called `name`, or None."""
        return self._queues.get(name)

    def queues(self) -> tuple[Destination, ...]:
        """Every queue, oldest first."""
        return tuple(self._queues.values())
