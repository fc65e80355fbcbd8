"""The methods a channel still has to do, each with the publishes that came before it.

    a method is due  <=>  method.after <= taken  and  nothing is parked
A basic.get whose message has still to be read from the disk is parked, and what came behind it
waits with it; when that is too much the connection is not read until half of it is done.
`arrived` counts publishes as the connection sees them, `taken` as the channel has dealt with them.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.limits import PARKED_METHODS
from penstock.flow.gate import Gate
from penstock.protocol.content import Event

CROWD: Final = PARKED_METHODS.default


class Inbox:
    """Methods in order, taken from a moving head; owner: the channel. is_ending: nothing is parked
    any more, because the channel is about to end; stopped: the gate of the connection while it is
    closed for the channel, `name`."""

    __slots__ = (
        "arrived",
        "head",
        "is_ending",
        "is_parked",
        "methods",
        "name",
        "stopped",
        "taken",
    )

    def __init__(self) -> None:
        self.methods: list[Event] = []
        self.head: i64 = 0
        self.arrived: i64 = 0
        self.taken: i64 = 0
        self.is_parked = False
        self.is_ending = False
        self.stopped: Gate | None = None
        self.name = ""

    def add(self, event: Event) -> None:
        """A method arrives behind everything that has arrived so far."""
        event.after = self.arrived
        self.methods.append(event)

    def has_method(self) -> bool:
        return self.head < len(self.methods) and not self.is_parked

    def is_crowded(self) -> bool:
        """Whether as much waits behind what is parked as may: nothing more is read then."""
        return self.is_parked and len(self.methods) - self.head >= CROWD

    def stop(self, gate: Gate, name: str) -> None:
        """Close the connection's gate until there is room for more."""
        if self.stopped is None:
            self.stopped = gate
            self.name = name
            gate.close(name, "read")

    def _go_on(self) -> None:
        gate = self.stopped
        if gate is not None:
            self.stopped = None
            gate.open(self.name, "read")

    def put_first(self, event: Event) -> None:
        """`event`, which was just taken, is tried again when it is not parked any more."""
        self.methods.insert(int(self.head), event)

    def unpark(self) -> None:
        """What was parked may be done."""
        self.is_parked = False

    def end(self) -> None:
        """All that has arrived is done now."""
        self.is_ending = True
        self.is_parked = False

    def first(self) -> Event:
        """The oldest method. Raises: IndexError when there is none."""
        return self.methods[self.head]

    def next(self) -> Event:
        """Take the oldest method; the list is emptied when the last one is taken."""
        event = self.methods[self.head]
        self.head += 1
        if self.stopped is not None and len(self.methods) - self.head <= CROWD // 2:
            self._go_on()
        if self.head == len(self.methods):
            self.clear()
        elif self.head >= 512:
            del self.methods[: self.head]
            self.head = 0
        return event

    def clear(self) -> None:
        """Forget the methods."""
        self.methods.clear()
        self.head = 0
        self._go_on()
