"""Contents that have come in part: how much of them connections keep, and who is held for it.

What a socket has brought and no message has taken yet is counted from its first byte: bodies of
which frames are missing, and the piece of a frame at the end of a read.

    a connection keeps more than `own_bytes_max`, or than   its socket is not read until others have
    what is still free of `bytes_max`                       finished, for HOLD_NS at most
    somebody is held for HOLD_NS                            connections that keep something and have
                                                            brought nothing for HOLD_NS are closed,
                                                            the largest first, until he has room;
                                                            without any he is closed himself

So one connection can always bring one body, and none can keep the others out for longer. COMPILED.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.config import Config
from penstock.base.errors import ConnectionFault
from penstock.flow.account import Account
from penstock.flow.gate import Gate

HOLDER: Final = "node"
REASON: Final = "unfinished"
HOLD_NS: Final = 10_000_000_000
_RESOURCE_ERROR: Final = 506


class NodeUnfinished:
    """What all connections of a node keep. bytes: of it; holding: those that keep something;
    waiting: those that are held, the first one first."""

    __slots__ = ("bytes", "bytes_max", "holding", "own_bytes_max", "waiting")

    def __init__(self, config: Config) -> None:
        self.bytes: i64 = 0
        # One body always has a place.
        own_bytes_max = max(config.unfinished_bytes, 2 * config.body_bytes_max)
        self.own_bytes_max: i64 = own_bytes_max
        self.bytes_max: i64 = max(config.unfinished_node_bytes, 2 * own_bytes_max)
        self.holding: dict[Unfinished, None] = {}
        self.waiting: dict[Unfinished, None] = {}

    def go_on(self) -> None:
        """Something has gone: whoever has room now is read again."""
        for one in list(self.waiting):
            if one.fits():
                one.let_go()

    def overdue(self, now_ns: i64) -> "list[Unfinished]":
        """Whose connections are to be closed, because somebody has waited too long."""
        if not self.waiting:
            return []
        first = next(iter(self.waiting))
        if now_ns - first.held_ns < HOLD_NS:
            return []
        stalled = [
            one
            for one in self.holding
            if one not in self.waiting and now_ns - one.moved_ns >= HOLD_NS and one.bytes > 0
        ]
        stalled.sort(key=_bytes_of, reverse=True)
        missing: i64 = first.missing_bytes()
        found: list[Unfinished] = []
        for one in stalled:
            if missing <= 0:
                break
            found.append(one)
            missing -= one.bytes
        return found if missing <= 0 else [first]


class Unfinished:
    """What one connection keeps. bytes: of it; moved_ns: when it last grew; held_ns: since when it
    is held, 0 while it is not."""

    __slots__ = ("account", "bytes", "gate", "held_ns", "moved_ns", "node")

    def __init__(self, account: Account, gate: Gate, node: NodeUnfinished) -> None:
        self.account = account
        self.gate = gate
        self.node = node
        self.bytes: i64 = 0
        self.moved_ns: i64 = 0
        self.held_ns: i64 = 0

    def settle(self, bytes_: i64, now_ns: i64) -> bool:
        """It keeps `bytes_` from now on; True if that is more than before."""
        added: i64 = bytes_ - self.bytes
        node = self.node
        self.bytes = bytes_
        node.bytes += added
        self.account.unfinished_bytes += added
        if bytes_ == 0:
            node.holding.pop(self, None)
        elif bytes_ == added:
            node.holding[self] = None
        if added > 0:
            self.moved_ns = now_ns
            if self.held_ns == 0 and not self.fits():
                self.held_ns = now_ns
                node.waiting[self] = None
                self.gate.close(HOLDER, REASON)
            return True
        if node.waiting:
            node.go_on()
        return False

    def fits(self) -> bool:
        """Whether it may grow; one body is no matter of what others have."""
        return self.missing_bytes() <= 0

    def missing_bytes(self) -> i64:
        """How much has to go before it may grow."""
        node = self.node
        over: i64 = self.bytes - node.own_bytes_max
        shared: i64 = self.bytes - (node.bytes_max - node.bytes)
        return over if over > shared else shared

    def let_go(self) -> None:
        """It is read again."""
        if self.held_ns != 0:
            self.held_ns = 0
            self.node.waiting.pop(self, None)
            self.gate.open(HOLDER, REASON)

    def fault(self) -> ConnectionFault:
        """Why its connection is closed."""
        node = self.node
        return ConnectionFault(
            _RESOURCE_ERROR,
            f"{self.bytes} bytes of unfinished messages, where a connection may have "
            f"{node.own_bytes_max} and all together {node.bytes_max}; send one message of a "
            "connection to its end before the next, or raise unfinished_bytes",
        )

    def close(self) -> None:
        """The connection has ended, and what it kept is gone."""
        self.let_go()
        self.settle(0, 0)


def _bytes_of(one: Unfinished) -> int:
    return int(one.bytes)
