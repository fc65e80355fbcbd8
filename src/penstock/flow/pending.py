"""The soft limit of commands that were proposed to a replicated queue and are not yet applied.

    a command that finds `limit` or more pending   ->  the sender is held for "pending"
    fewer than `limit` pending                     ->  it is let go
So with a limit of 32 the 33rd command holds, and 31 pending let go. Every command counts, publishes
and settles alike; a settle is a command without bytes.

RabbitMQ's client keeps a flag `slow` beside the count, and only a publish that turns it on holds
the sender. A settle turns it on as well, without holding anybody, and then no publish ever does:
the hole of 8.2 H1, copied for the emulation profiles. Source: flow-semantics 8.1, 8.2, 16 (W12);
scenarios 77-79, 82.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.errors import OperatorError
from penstock.flow.both import Both, Rule
from penstock.flow.hop import Hop, HopNotes
from penstock.flow.strategy import Strategy

REASON: Final = "pending"
LIMIT: Final = 32
"""quorum_commands_soft_limit since RabbitMQ 3.8.4."""


class SoftLimit(Rule):
    """limit: commands, 1.. . Raises: OperatorError."""

    __slots__ = ("limit",)

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise OperatorError(f"pending limit {limit}: at least 1, or nothing is ever proposed")
        self.limit: i64 = limit

    def charged(self, hop: Hop, messages: i64, bytes_: i64) -> None:
        if hop.in_flight > self.limit:
            hop.sender_gate.close(hop.receiver, REASON)

    def repaid(self, hop: Hop, messages: i64, bytes_: i64) -> None:
        if hop.in_flight < self.limit:
            hop.sender_gate.open(hop.receiver, REASON)

    def forgotten(self, hop: Hop) -> None:
        hop.sender_gate.open(hop.receiver, REASON)

    def is_slow(self, hop: Hop) -> bool:
        """Whether settles have to wait, merged, until fewer commands are pending (scenario 78)."""
        return (hop.receiver, REASON) in hop.sender_gate.reasons


class Slow(HopNotes):
    """The emulated client's flag."""

    __slots__ = ("is_slow",)

    def __init__(self) -> None:
        self.is_slow = False


class EmulatedSoftLimit(SoftLimit):
    """With RabbitMQ's hole."""

    __slots__ = ()

    def wired(self, hop: Hop) -> None:
        hop.notes = Slow()

    def charged(self, hop: Hop, messages: i64, bytes_: i64) -> None:
        slow = _slow(hop)
        was_slow = slow.is_slow
        slow.is_slow = hop.in_flight > self.limit
        if slow.is_slow and not was_slow and bytes_ > 0:
            hop.sender_gate.close(hop.receiver, REASON)

    def repaid(self, hop: Hop, messages: i64, bytes_: i64) -> None:
        slow = _slow(hop)
        if slow.is_slow and hop.in_flight < self.limit:
            slow.is_slow = False
            hop.sender_gate.open(hop.receiver, REASON)

    def forgotten(self, hop: Hop) -> None:
        _slow(hop).is_slow = False
        super().forgotten(hop)

    def is_slow(self, hop: Hop) -> bool:
        return _slow(hop).is_slow


def _slow(hop: Hop) -> Slow:
    notes = hop.notes
    assert isinstance(notes, Slow), "this rule wired the hop"
    return notes


def pending_strategy(limit: int, is_emulating: bool) -> Both:
    """The soft limit alone, over books that hold nobody; a fresh one for each kind of hop."""
    rule = EmulatedSoftLimit(limit) if is_emulating else SoftLimit(limit)
    return Both(REASON, Strategy("none"), [rule])
