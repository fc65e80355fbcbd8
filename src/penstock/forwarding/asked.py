"""What a client has sent and nobody has answered yet: publishes to be confirmed, and requests."""

from bisect import bisect_left
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from penstock.protocol.methods import table as m
from penstock.protocol.methods.base import Method
from penstock.replication.seen import Answer, Run


def ids_of(*rows: type[Method]) -> frozenset[int]:
    return frozenset(number_of(row) for row in rows)


def number_of(row: type[Method]) -> int:
    """Both ids of a method in one number, as `Frame.ids`."""
    return int.from_bytes(row.IDS, "big")


ANSWERS: Final[Mapping[int, frozenset[int]]] = MappingProxyType(
    {
        number_of(asked): ids_of(*answers)
        for asked, *answers in (
            (m.ChannelOpen, m.ChannelOpenOk),
            (m.ChannelFlow, m.ChannelFlowOk),
            (m.ChannelClose, m.ChannelCloseOk),
            (m.ExchangeDeclare, m.ExchangeDeclareOk),
            (m.ExchangeDelete, m.ExchangeDeleteOk),
            (m.ExchangeBind, m.ExchangeBindOk),
            (m.ExchangeUnbind, m.ExchangeUnbindOk),
            (m.QueueDeclare, m.QueueDeclareOk),
            (m.QueueBind, m.QueueBindOk),
            (m.QueuePurge, m.QueuePurgeOk),
            (m.QueueDelete, m.QueueDeleteOk),
            (m.QueueUnbind, m.QueueUnbindOk),
            (m.BasicQos, m.BasicQosOk),
            (m.BasicConsume, m.BasicConsumeOk),
            (m.BasicCancel, m.BasicCancelOk),
            (m.BasicGet, m.BasicGetOk, m.BasicGetEmpty),
            (m.BasicRecover, m.BasicRecoverOk),
            (m.ConfirmSelect, m.ConfirmSelectOk),
            (m.TxSelect, m.TxSelectOk),
            (m.TxCommit, m.TxCommitOk),
            (m.TxRollback, m.TxRollbackOk),
        )
    }
)
"""The answers of a request by its ids. A client's requests on one channel are answered in order."""

ENTRY_BYTES: Final = 300
"""Of an entry, besides its frames."""


class Budget:
    """bound: bytes that may be kept of all connections; used: that are."""

    __slots__ = ("bound", "used")

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.used = 0


class Share:
    """What one connection has of it. why_not: why the connection ends with its broker, "" if it
    need not."""

    __slots__ = ("bound", "budget", "used", "why_not")

    def __init__(self, budget: Budget, bound: int) -> None:
        self.budget = budget
        self.bound = bound
        self.used = 0
        self.why_not = ""

    def charge(self, size: int) -> bool:
        """Room for so many bytes. False: there is none."""
        budget = self.budget
        if self.used + size > self.bound or budget.used + size > budget.bound:
            return False
        self.used += size
        budget.used += size
        return True

    def keep(self, size: int) -> bool:
        """Room for what has to be kept."""
        if self.charge(size):
            return True
        self.refuse("there is too much of it to be kept")
        return False

    def repay(self, size: int) -> None:
        self.used -= size
        self.budget.used -= size

    def refuse(self, words: str) -> None:
        """The first reason is said."""
        self.why_not = self.why_not or words

    def close(self) -> None:
        """The client is gone."""
        self.repay(self.used)


class Request:
    """method: as it was asked; data: its frame, which wants an answer; answers: ids; is_silent: the
    client wants none; mark: the work of a transaction before it; size: bytes that are charged."""

    __slots__ = ("answers", "data", "is_silent", "mark", "method", "order", "size")

    def __init__(
        self, order: int, method: Method, data: bytes, answers: frozenset[int], *, is_silent: bool
    ) -> None:
        self.order = order
        self.method = method
        self.data = data
        self.answers = answers
        self.is_silent = is_silent
        self.mark = 0
        self.size = len(data) + ENTRY_BYTES


class Publish:
    """A publish that is not confirmed, or not whole.

    seq: its number among the publishes to be confirmed, from 1, else 0; frames: all that came of
    it, None when there was no room to keep them; missing: bytes of the body that are to come, -1
    before its header; is_dropped: the rest of it goes nowhere.
    """

    __slots__ = ("frames", "is_dropped", "missing", "order", "seq", "size")

    def __init__(self, order: int, seq: int) -> None:
        self.order = order
        self.seq = seq
        self.frames: list[bytes] | None = []
        self.size = 0
        self.missing = -1
        self.is_dropped = False


class Session:
    """How a broker has numbered the publishes of one channel, from 1.

    reference: by which a leader finds them in its log; resent: the client's numbers of those that
    it had first, ascending; base: the client's last number before those that followed; end: the
    client's last number, when the broker was lost.
    """

    __slots__ = ("base", "end", "reference", "resent")

    def __init__(self, reference: bytes, base: int) -> None:
        self.reference = reference
        self.resent: list[int] = []
        self.base = base
        self.end = base

    def seq_of(self, number: int) -> int:
        """The client's number of the one that has the broker's `number`."""
        count = len(self.resent)
        return self.resent[number - 1] if 0 < number <= count else self.base + number - count

    def number_of(self, seq: int) -> int:
        """The broker's number of the client's `seq`, 0 if the broker was not given it."""
        if seq > self.base:
            return seq - self.base + len(self.resent) if seq <= self.end else 0
        at = bisect_left(self.resent, seq)
        return at + 1 if at < len(self.resent) and self.resent[at] == seq else 0

    def unknown(self, oldest: int) -> list[Run]:
        """What the broker was given of the client's numbers from `oldest` on. Not of those before:
        a publisher may send more of these in days than a run has room for."""
        last = len(self.resent) + self.end - self.base
        if oldest > self.base:
            first = oldest - self.base + len(self.resent)
        else:
            first = bisect_left(self.resent, oldest) + 1
        return [Run(self.reference, first, last)] if first <= last else []

    def is_seen(self, seq: int, seen: Answer) -> bool:
        """Whether the log holds the client's `seq` because of this broker."""
        number = self.number_of(seq)
        return number > 0 and seen.has(self.reference, number)
