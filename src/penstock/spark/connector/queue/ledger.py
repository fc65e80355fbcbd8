"""Books of a queue being read: which messages came, are planned into batches, are acknowledged.

Every message that came gets a position, counted on from where the checkpoint stands:

    acknowledged <= planned <= received

Spark asks for batches (a, b]; everything up to its next `start` has been committed by its sink and
can be acknowledged, and only that. Data up to `planned` is kept until it is acknowledged, because
Spark may ask for a batch twice.

A connection that is lost takes its unacknowledged messages back into the queue. What was planned
keeps its positions and its data here, and will come a second time (at least once); what was not
planned is forgotten and its positions are given out again. Delivery tags of one channel with one
consumer count from 1, so a tag is a position minus `_shift`.
Not handled: sharing between threads; the owner locks.
"""

from collections import deque
from typing import NamedTuple


class Block(NamedTuple):
    """Deliveries that came in together: positions first..first+len(ends)-1 (see `scan`)."""

    first: int
    raw: bytes
    ends: list[int]

    def cut(self, first: int, count: int) -> bytes:
        """The bytes of `count` deliveries from position `first` on, all of them in this block."""
        index = first - self.first
        start = self.ends[index - 1] if index else 0
        return self.raw[start : self.ends[index + count - 1]]


class OffsetLedger:
    """One query's books. Positions: 0.., of messages; the position of a batch's end is that of its
    last message."""

    def __init__(self) -> None:
        self.is_begun = False
        self.acknowledged = 0
        self.planned = 0
        self.received = 0
        self.bytes_held = 0
        self._shift = 0
        self._blocks: deque[Block] = deque()

    def begin(self, position: int) -> None:
        """Count on from `position`, which the checkpoint names as done. Once, before `add`."""
        assert not self.is_begun, "positions are bound to the first start of a query"
        self.is_begun = True
        self.acknowledged = self.planned = self.received = self._shift = position

    def add(self, raw: bytes, ends: list[int]) -> None:
        """Deliveries came, in the order of their tags."""
        assert self.is_begun, "nothing is consumed before there are positions"
        if ends:
            self._blocks.append(Block(self.received + 1, raw, ends))
            self.received += len(ends)
            self.bytes_held += len(raw)

    def settle(self, position: int) -> int:
        """Everything up to `position` is committed: the delivery tag to acknowledge up to.

        0 when nothing is new, or when its connection has been lost since: the broker has taken
        those messages back, and nothing this side says can end that.
        """
        assert position <= self.planned, "Spark commits what was planned for it"
        if position <= self.acknowledged:
            return 0
        self.acknowledged = position
        blocks = self._blocks
        while blocks and blocks[0].first + len(blocks[0].ends) - 1 <= position:
            self.bytes_held -= len(blocks.popleft().raw)
        return max(0, position - self._shift)

    def waiting(self) -> int:
        """Messages that came and are in no batch yet."""
        return self.received - self.planned

    def plan(self, rows: int) -> int:
        """Put the next `rows` messages into a batch; the position of its end."""
        assert 0 <= rows <= self.waiting(), "a batch is made of what came"
        self.planned += rows
        return self.planned

    def rows_in(self, bytes_max: int) -> int:
        """How many of the waiting messages fit `bytes_max`, in the order they came; at least one
        if there is any, because a message that never fits would stop the query for good."""
        count = 0
        left = bytes_max
        for block in self._blocks:
            before = 0
            for index, end in enumerate(block.ends):
                if block.first + index > self.planned:
                    left -= end - before
                    if left < 0 and count > 0:
                        return count
                    count += 1
                before = end
        return count

    def pieces(self, after: int, until: int, count: int) -> list[tuple[int, bytes]]:
        """The batch (after, until] in about `count` parts of equal length, and no empty ones: the
        position of the first delivery, and all of them.

        [] for what is not here any more: a batch planned by an earlier process. Its messages were
        not acknowledged, so the broker delivers them anew.
        """
        first = max(after, self.acknowledged) + 1
        until = min(until, self.received)
        rows = until - first + 1
        if not self.is_begun or rows <= 0:
            return []
        share = -(-rows // count)
        parts: list[tuple[int, bytes]] = []
        for start in range(first, until + 1, share):
            stop = min(start + share - 1, until)
            raw = b"".join(
                block.cut(max(start, block.first), n)
                for block in self._blocks
                if (n := _overlap(block, start, stop)) > 0
            )
            parts.append((start, raw))
        return parts

    def lose_connection(self) -> None:
        """The broker has taken back everything unacknowledged: forget what no batch holds."""
        blocks = self._blocks
        while blocks and blocks[-1].first + len(blocks[-1].ends) - 1 > self.planned:
            last = blocks.pop()
            self.bytes_held -= len(last.raw)
            kept = self.planned - last.first + 1
            if kept > 0:
                raw = last.raw[: last.ends[kept - 1]]
                blocks.append(Block(last.first, raw, last.ends[:kept]))
                self.bytes_held += len(raw)
        self.received = self._shift = self.planned


def _overlap(block: Block, start: int, stop: int) -> int:
    last = block.first + len(block.ends) - 1
    return min(last, stop) - max(block.first, start) + 1


def fit(ledger: OffsetLedger, rows: int, bytes_max: int) -> int:
    """How many of the waiting messages go into a batch of `rows` and `bytes_max` (0: no bound)."""
    rows = max(0, min(rows, ledger.waiting()))
    if bytes_max > 0 and rows > 0:
        rows = min(rows, ledger.rows_in(bytes_max))
    return rows
