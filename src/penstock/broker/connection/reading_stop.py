"""Why one connection reads nothing at present, where that is because of a publish. COMPILED."""

from penstock.broker.channel.channel import Channel
from penstock.flow.gate import Gate
from penstock.protocol.content import Message


class ReadingStop:
    """A connection's gate, closed for a publish that can neither go on nor be parked.

    channel: whose publish overflows, None if there is none; by: peer and reason for which the gate
    was closed, None while it is not closed here."""

    __slots__ = ("by", "channel", "gate")

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.channel: Channel | None = None
        self.by: tuple[str, str] | None = None

    def behind(
        self, channel: Channel, message: Message, peer: str, reason: str, now_ns: int
    ) -> None:
        """Read nothing behind `message`, which has no place, while `peer` holds it."""
        channel.parking.overflows(message, reason, now_ns)
        self.channel = channel
        self.begin(peer, reason)

    def begin(self, peer: str, reason: str) -> None:
        """Read nothing while `peer` holds what comes next."""
        self.by = (peer, reason)
        self.gate.close(peer, reason)

    def pass_on(self, before: str, was: str, peer: str, reason: str) -> None:
        """From now on it is `peer`, for `reason`, if it was `before`, for `was`."""
        if self.by == (before, was):
            self.begin(peer, reason)
            self.gate.open(before, was)

    def end(self) -> tuple[str, str] | None:
        """Reading goes on, as far as it is stopped here; for what it was stopped."""
        by = self.by
        if by is not None:
            self.by = None
            self.gate.open(by[0], by[1])
        return by
