"""What a client has sent and nobody has answered yet: publishes to be confirmed, and requests."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from penstock.protocol.methods import table as m
from penstock.protocol.methods.base import Method


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

ATTEMPTS_MAX: Final = 8
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
    """method: as it was asked; data: its frame; answers: ids, empty if none is wanted; mark: the
    work of a transaction before it; size: bytes that are charged."""

    __slots__ = ("answers", "data", "mark", "method", "order", "size")

    def __init__(self, order: int, method: Method, data: bytes, answers: frozenset[int]) -> None:
        self.order = order
        self.method = method
        self.data = data
        self.answers = answers
        self.mark = 0
        self.size = len(data) + ENTRY_BYTES


class Publish:
    """A publish that is not confirmed, or not whole.

    seq: its number among the publishes to be confirmed, from 1, else 0; frames: all that came of
    it, None when there was no room to keep them; missing: bytes of the body that are to come, -1
    before its header; is_dropped: the rest of it goes nowhere; attempts: references and numbers
    under which brokers that are gone had it, ATTEMPTS_MAX of them.
    """

    __slots__ = ("attempts", "frames", "is_dropped", "missing", "order", "seq", "size")

    def __init__(self, order: int, seq: int) -> None:
        self.order = order
        self.seq = seq
        self.frames: list[bytes] | None = []
        self.size = 0
        self.missing = -1
        self.is_dropped = False
        self.attempts: tuple[tuple[bytes, int], ...] = ()

    def tried(self, reference: bytes, number: int) -> None:
        """A broker has been given it, and nobody knows what became of that."""
        self.attempts = (*self.attempts[1 - ATTEMPTS_MAX :], (reference, number))
