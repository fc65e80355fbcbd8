"""The soft limit of commands that were proposed to a replicated queue and are not yet applied.

    a command that finds `limit` or more pending   ->  the sender is held for "pending"
    fewer than `limit` pending                     ->  it is let go
So with a limit of 32 the 33rd command holds, and 31 pending let go. Every command counts, publishes
and settles alike; a settle is a command without bytes.

RabbitMQ's client keeps a flag `slow` beside the count, and only a publish that turns it on holds
the sender. A settle turns it on as well, without holding anybody, and then no publish ever does:
the hole of 8.2 H1, copied for the emulation profiles. Source: flow-semantics 8.1, 8.2, 16 (W12);
scenarios 77-79, 82.

It is laid over a strategy that keeps the books: a rule looks at them after every change and closes
or opens gates for a reason of its own; reasons keep rules apart, so that one rule's opening cannot
undo another's closing. RabbitMQ does the same with a pseudo-peer among the blockers.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.errors import OperatorError
from penstock.flow.account import Account
from penstock.flow.credit import Strategy
from penstock.flow.hop import Hop, HopNotes


class Both(Strategy):
    """books: the strategy that charges and repays; rules: laid over it, in order."""

    __slots__ = ("books", "rules")

    def __init__(self, name: str, books: Strategy, rules: "list[SoftLimit]") -> None:
        super().__init__(name)
        self.books = books
        self.rules = rules

    def wire(self, hop: Hop) -> None:
        self.books.wire(hop)
        for rule in self.rules:
            rule.wired(hop)

    def charge(self, hop: Hop, origin: Account, messages: i64, bytes_: i64) -> None:
        self.books.charge(hop, origin, messages, bytes_)
        for rule in self.rules:
            rule.charged(hop, messages, bytes_)

    def repay(self, hop: Hop, origin: Account, messages: i64, bytes_: i64) -> None:
        self.books.repay(hop, origin, messages, bytes_)
        for rule in self.rules:
            rule.repaid(hop, messages, bytes_)

    def forget(self, hop: Hop, origin: Account) -> None:
        self.books.forget(hop, origin)
        for rule in self.rules:
            rule.forgotten(hop)


REASON: Final = "pending"
LIMIT: Final = 32
"""quorum_commands_soft_limit since RabbitMQ 3.8.4."""


@mypyc_attr(allow_interpreted_subclasses=True)
class SoftLimit:
    """limit: commands, 1.. . Raises: OperatorError."""

    __slots__ = ("limit",)

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise OperatorError(f"pending limit {limit}: at least 1, or nothing is ever proposed")
        self.limit: i64 = limit

    def wired(self, hop: Hop) -> None:
        """A hop begins its life."""

    def charged(self, hop: Hop, messages: i64, bytes_: i64) -> None:
        """The books of `hop` have this much more in flight."""
        if hop.in_flight > self.limit:
            hop.sender_gate.close(hop.receiver, REASON)

    def repaid(self, hop: Hop, messages: i64, bytes_: i64) -> None:
        """The books of `hop` have this much less in flight."""
        if hop.in_flight < self.limit:
            hop.sender_gate.open(hop.receiver, REASON)

    def forgotten(self, hop: Hop) -> None:
        """The receiver is gone: let go of the sender."""
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
