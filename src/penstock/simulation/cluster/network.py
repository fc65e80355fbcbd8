"""Links between simulated nodes: one connection a pair, in order, breaking, held up, one-way.

What is cut off waits as in a TCP connection, until the cut heals or somebody ends the connection.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.replication.frames import Frame
from penstock.simulation.machine.dice import Dice

if TYPE_CHECKING:
    from penstock.simulation.cluster.node import SimNode

CONNECT_MS = 60
"""Between two attempts to connect a pair."""


SPOILT = -1


class ResyncFrame:
    """Part of a copy: an asked range, or an answer. cells: None when asked; range: SPOILT in the
    answer of who copies nothing to the asker."""

    __slots__ = ("cells", "is_last", "range", "session")

    def __init__(
        self, session: int, range_: int, cells: dict[int, int] | None, is_last: bool = False
    ) -> None:
        self.session = session
        self.range = range_
        self.cells = cells
        self.is_last = is_last


Message = Frame | ResyncFrame


class Connection:
    """One connection of a pair. up: which ends believe in it."""

    def __init__(self, ends: tuple[str, str]) -> None:
        self.up = dict.fromkeys(ends, True)
        self.lines: dict[str, deque[Message]] = {end: deque() for end in ends}
        self.is_moving = dict.fromkeys(ends, False)


class SimNetwork:
    """All links. cut: ordered pairs (from, to) nothing passes; duplicate_percent: frames that come
    twice; delay_ms: highest delay of one frame."""

    def __init__(self, dice: Dice, after: Callable[[float, Callable[[], None]], None]) -> None:
        self.dice = dice
        self.after = after
        self.nodes: dict[str, SimNode] = {}
        self.cut: set[tuple[str, str]] = set()
        self.duplicate_percent = 0
        self.delay_ms = 3
        self.frames = 0
        self._connections: dict[tuple[str, str], Connection] = {}

    def passes(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) not in self.cut

    def run(self) -> None:
        """Connect pairs again and again."""
        names = sorted(self.nodes)
        for at, one in enumerate(names):
            for other in names[at + 1 :]:
                self._try_connecting(one, other)
        self.after(CONNECT_MS, self.run)

    def _try_connecting(self, one: str, other: str) -> None:
        connection = self._connections.get((one, other))
        if connection is not None and all(connection.up.values()):
            return
        if not (self.passes(one, other) and self.passes(other, one)):
            return
        first, second = self.nodes[one], self.nodes[other]
        if not first.is_up or not second.is_up:
            for here, there in ((first, second), (second, first)):
                if here.is_up and not there.is_up:
                    self._tell_down(here, there.name, is_refused=True)
            return
        if first.is_paused or second.is_paused:
            return
        if connection is not None:
            self.end(one, other, one)
            self.end(one, other, other)
        fresh = Connection((one, other))
        self._connections[one, other] = fresh
        self._tell_up(first, other)
        self._tell_up(second, one)

    def _tell_up(self, node: "SimNode", peer: str) -> None:
        node.deliver("link_up", lambda: node.member.link_up(peer, node.now_ms()))

    def _tell_down(self, node: "SimNode", peer: str, *, is_refused: bool) -> None:
        node.deliver("link_down", lambda: node.link_lost(peer, is_refused))

    def send(self, sender: str, receiver: str, message: Message) -> None:
        """Drop it when the sender has no connection."""
        key = (min(sender, receiver), max(sender, receiver))
        connection = self._connections.get(key)
        if connection is None or not connection.up[sender]:
            return
        self.frames += 1
        connection.lines[receiver].append(message)
        if self.dice.happens(self.duplicate_percent):
            self.after(self.dice.below(40), lambda: self._repeat(connection, receiver, message))
        self._move(connection, sender, receiver)

    def _repeat(self, connection: Connection, receiver: str, message: Message) -> None:
        """The same again, behind later ones."""
        if connection.up[receiver]:
            connection.lines[receiver].append(message)

    def _move(self, connection: Connection, sender: str, receiver: str) -> None:
        if connection.is_moving[receiver] or not connection.lines[receiver]:
            return
        connection.is_moving[receiver] = True

        def arrive() -> None:
            connection.is_moving[receiver] = False
            line = connection.lines[receiver]
            if not line or not connection.up[receiver]:
                return
            if self.passes(sender, receiver):
                # What has come together is read together.
                for _ in range(self.dice.between(1, 4)):
                    if line:
                        self.nodes[receiver].take_frame(sender, line.popleft())
            self._move(connection, sender, receiver)

        delay = self.dice.below(self.delay_ms * 1000) / 1000 + 0.1
        if not self.passes(sender, receiver):
            delay = 50.0
        self.after(delay, arrive)

    def end(self, one: str, other: str, who: str) -> None:
        """`who` ends the connection, or dies: the other one hears of it unless it is cut off. Part
        of what was under way still comes."""
        key = (min(one, other), max(one, other))
        connection = self._connections.get(key)
        if connection is None or not connection.up[who]:
            return
        connection.up[who] = False
        connection.lines[who].clear()
        node = self.nodes[who]
        peer = other if who == one else one
        if node.is_up:
            self._tell_down(node, peer, is_refused=False)
        line = connection.lines[peer]
        for _ in range(self.dice.below(len(line) + 1)):
            line.pop()

        def heard() -> None:
            if not connection.up[peer]:
                return
            if not self.passes(who, peer) and self._connections[key] is connection:
                return
            while line and self.passes(who, peer):
                self.nodes[peer].take_frame(who, line.popleft())
            connection.up[peer] = False
            connection.lines[peer].clear()
            self._tell_down(self.nodes[peer], who, is_refused=False)

        self.after(self.dice.between(1, 4), heard)

    def died(self, name: str) -> None:
        """A process has ended: its connections with it."""
        for one, other in sorted(self._connections):
            if name in (one, other):
                self.end(one, other, name)
