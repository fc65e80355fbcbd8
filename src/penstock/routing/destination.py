"""What a binding can point at: the base of exchanges and of all that queues. COMPILED.

Two destinations are the same only if they are the same object: a queue that was deleted and
declared again under its old name is another destination, and no old binding leads to it.

Destinations that match alike are kept with the number of their bindings. Bindings that differ in
their arguments alone lead to one destination under one key, which leaves with the last of them.
Matching copies a ready list; a change throws the list away, and the next match makes it again,
which costs no more than the destinations that this match gives out.
"""

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Destination:
    """A named end of a binding. `name`: AMQP short string, unique among its own kind in a vhost.

    Compared and hashed by identity; subclasses must keep it so, because route results, bindings
    and seen-sets are dictionaries of destinations.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Targets:
    """A counted, ordered set of destinations."""

    __slots__ = ("_counts", "_ready")

    def __init__(self) -> None:
        self._counts: dict[Destination, int] = {}
        self._ready: list[Destination] | None = None

    def hold(self, destination: Destination) -> None:
        """Count one more binding to `destination`."""
        self._counts[destination] = self._counts.get(destination, 0) + 1
        self._ready = None

    def release(self, destination: Destination) -> bool:
        """Count one binding less to `destination`, which has one; True if none is left to any."""
        left = self._counts[destination] - 1
        if left > 0:
            self._counts[destination] = left
        else:
            del self._counts[destination]
            self._ready = None
        return not self._counts

    def give(self, found: list[Destination]) -> None:
        """Append every destination once, in the order in which they came."""
        ready = self._ready
        if ready is None:
            ready = list(self._counts)
            self._ready = ready
        found.extend(ready)

    def give_first(self, found: list[Destination]) -> None:
        """Append the one that came first, if there is any."""
        for destination in self._counts:
            found.append(destination)
            return
