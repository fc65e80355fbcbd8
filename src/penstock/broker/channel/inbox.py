"""The methods of one channel that wait for their turn, in their order. COMPILED."""

from typing import Final

from mypy_extensions import i64

from penstock.base.limits import PARKED_METHODS, PARKED_METHODS_BYTES
from penstock.flow.gate import Gate
from penstock.protocol.content import Event

CROWD: Final = PARKED_METHODS.default
CROWD_BYTES: Final = PARKED_METHODS_BYTES.default
EVERY: Final = 1 << 40
NO_METHODS: Final[list[Event]] = []
"""What all channels share that have never had a method wait."""


class Inbox:
    """Methods in order, each with the publishes that came before it, taken from a moving head.

        a method is due  <=>  method.after <= taken  and  nothing is parked
    A basic.get whose message has still to be read from the disk is parked, and what came behind it
    waits with it; when that is too much the connection is not read until half of it is done.
    arrived: publishes as the connection sees them; taken: as the channel has dealt with them;
    methods: empty exactly when all were taken, `bytes` are left; is_ending: nothing is parked any
    more, because the channel is about to end; has_waited: the basic.get that is due has waited for
    a store, which it does once; is_kept: the next one is a tx.commit that waits for a hop;
    stopped: the gate of the connection while it is closed for the channel, `name`."""

    __slots__ = (
        "arrived",
        "bytes",
        "has_waited",
        "head",
        "is_ending",
        "is_kept",
        "is_parked",
        "methods",
        "name",
        "stopped",
        "taken",
    )

    def __init__(self) -> None:
        self.methods: list[Event] = NO_METHODS
        self.head: i64 = 0
        self.bytes: i64 = 0
        self.arrived: i64 = 0
        self.taken: i64 = 0
        self.is_parked = False
        self.is_ending = False
        self.is_kept = False
        self.has_waited = False
        self.stopped: Gate | None = None
        self.name = ""

    def add(self, event: Event) -> None:
        """A method arrives behind everything that has arrived so far."""
        event.after = self.arrived
        if self.methods is NO_METHODS:
            self.methods = []
        self.methods.append(event)
        self.bytes += len(event.payload)

    def has_method(self) -> bool:
        return self.head < len(self.methods) and not self.is_parked

    def is_due(self) -> bool:
        """Whether the oldest method's turn has come. Raises: IndexError when there is none."""
        return not self.is_parked and self.methods[self.head].after <= self.taken

    def until_due(self) -> i64:
        """How many more publishes have to be taken before the next method is due; as many as there
        may be where none waits for that."""
        if self.is_parked or self.head >= len(self.methods):
            return EVERY
        return self.methods[self.head].after - self.taken

    def is_crowded(self, parts: i64 = 1) -> bool:
        """Whether as much waits behind what is parked, or kept, as may, or one part in `parts` of
        that: nothing more is read."""
        waiting: i64 = len(self.methods) - self.head
        return waiting * parts >= CROWD or self.bytes * parts >= CROWD_BYTES

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
        self.bytes += len(event.payload)

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
        self.bytes -= len(event.payload)
        if self.stopped is not None and not self.is_crowded(2):
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
        self.bytes = 0
        self._go_on()
