"""The middle of a line that pages: messages of which memory knows no more than where they lie in a
log.

    piece   unsettled positions first..last of one index; all of them within belong to the piece,
            or, where other lines share the log, those of its `places`
            (queues/places)
Ten million messages that came in a row are one piece. Bodies and places are on the disk, so those
who caused the messages pay for nothing here; who they are is remembered for when they come back.
"""

from collections import deque
from typing import Final

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.base.limits import PAGED_PAYERS
from penstock.queues.places import Places
from penstock.queues.queue import FoundRange
from penstock.storage.layout.index import QueueIndex

PIECE_BYTES: Final = 256
"""What a piece costs: object, list of payers, the first of them."""
PAYERS_MAX: Final = PAGED_PAYERS.default
PLACES_BYTES_MAX: Final = 4096
"""Of the places of one piece; then there is another one. So little is taken up by what has gone."""
PLACES_BYTES: Final = 256
"""What places cost that are in a row."""


class Payer:
    """Who pays for the next `count` messages of a piece when they are read."""

    __slots__ = ("count", "origin")

    def __init__(self, origin: Cause, count: i64) -> None:
        self.origin = origin
        self.count: i64 = count


class Piece:
    """Messages in a row. bytes: of headers and bodies; payers: in order; host: pays for the piece
    itself, ram_bytes; places: the only positions within that belong to it, None for all."""

    __slots__ = (
        "bytes",
        "count",
        "first",
        "host",
        "index",
        "last",
        "payers",
        "places",
        "ram_bytes",
    )

    def __init__(self, index: QueueIndex, position: i64, host: Cause, is_sparse: bool) -> None:
        self.index = index
        self.first: i64 = position
        self.last: i64 = position
        self.count: i64 = 0
        self.bytes: i64 = 0
        self.payers: list[Payer] = []
        self.host = host
        self.places = Places(position) if is_sparse else None
        self.ram_bytes: i64 = PIECE_BYTES + PLACES_BYTES if is_sparse else PIECE_BYTES

    def pay_last(self, origin: Cause) -> None:
        """One more message behind the others."""
        payers = self.payers
        if payers:
            payer = payers[-1]
            if payer.origin is origin:
                payer.count += 1
                return
        payers.append(Payer(origin, 1))
        self._bound()

    def pay_first(self, origin: Cause) -> None:
        """One more message before the others."""
        payers = self.payers
        if payers:
            payer = payers[0]
            if payer.origin is origin:
                payer.count += 1
                return
        payers.insert(0, Payer(origin, 1))
        self._bound()

    def _bound(self) -> None:
        """There are too many payers: the first pays for the second."""
        payers = self.payers
        if len(payers) > PAYERS_MAX:
            payers[0].count += payers[1].count
            del payers[1]

    def chosen(self, count: i64) -> list[int] | None:
        """The first `count` positions, None where they are simply the next ones that count."""
        return None if self.places is None else self.places.next_ones(count)

    def payer(self) -> Cause:
        """Who pays for the first message, which leaves the piece."""
        payer = self.payers[0]
        payer.count -= 1
        if payer.count == 0:
            del self.payers[0]
        return payer.origin

    def may_grow(self, index: QueueIndex, before: i64, after: i64) -> bool:
        """Whether a message of `index` becomes part of the piece, so that its position or the end
        next to it is `before`, and the other one `after`."""
        if self.index is not index or after <= before:
            return False
        if self.places is None:
            return is_next(index, before, after)
        return len(self.places.data) < PLACES_BYTES_MAX


class Delta:
    """pieces: in order of delivery; is_sparse: they have places; count, bytes: of their messages;
    ram_bytes: of the pieces."""

    __slots__ = ("bytes", "count", "is_sparse", "pieces", "ram_bytes")

    def __init__(self, is_sparse: bool) -> None:
        self.pieces: deque[Piece] = deque()
        self.is_sparse = is_sparse
        self.count: i64 = 0
        self.bytes: i64 = 0
        self.ram_bytes: i64 = 0

    def append(self, index: QueueIndex, position: i64, size: i64, origin: Cause) -> None:
        """One more message behind all others. size: bytes of its header and body."""
        piece: Piece | None = self.pieces[-1] if self.pieces else None
        if piece is None or not piece.may_grow(index, piece.last, position):
            piece = self._begin(index, position, origin, self.is_sparse)
            self.pieces.append(piece)
        elif piece.places is not None:
            piece.places.append(position)
            self._measure(piece)
        piece.last = position
        piece.pay_last(origin)
        self._counted(piece, size)

    def prepend(self, index: QueueIndex, position: i64, size: i64, origin: Cause) -> None:
        """One more message before all others. size: bytes of its header and body."""
        piece: Piece | None = self.pieces[0] if self.pieces else None
        if piece is None or not piece.may_grow(index, position, piece.first):
            piece = self._begin(index, position, origin, self.is_sparse)
            self.pieces.appendleft(piece)
        elif piece.places is not None:
            piece.places.prepend(position)
            self._measure(piece)
        piece.first = position
        piece.pay_first(origin)
        self._counted(piece, size)

    def restore(self, found: FoundRange) -> None:
        """A piece that was found on the disk, behind all others."""
        piece = self._begin(found.index, found.first, found.origin, False)
        piece.last = found.last
        piece.payers.append(Payer(found.origin, found.count))
        piece.count = found.count
        piece.bytes = found.bytes
        self.pieces.append(piece)
        self.count += found.count
        self.bytes += found.bytes

    def _begin(self, index: QueueIndex, position: i64, host: Cause, is_sparse: bool) -> Piece:
        piece = Piece(index, position, host, is_sparse)
        host.store(0, piece.ram_bytes)
        self.ram_bytes += piece.ram_bytes
        return piece

    def _counted(self, piece: Piece, size: i64) -> None:
        piece.count += 1
        piece.bytes += size
        self.count += 1
        self.bytes += size

    def _measure(self, piece: Piece) -> None:
        """The places may take more memory than before."""
        places = piece.places
        if places is None:
            return
        more: i64 = PIECE_BYTES + PLACES_BYTES + len(places.data) - piece.ram_bytes
        if more > 0:
            piece.host.store(0, more)
            piece.ram_bytes += more
            self.ram_bytes += more

    def first_position(self) -> i64:
        """The log position of the first message, -1 when the log has none there."""
        piece = self.pieces[0]
        if piece.places is not None:
            return piece.first
        position = next_live(piece.index, piece.first)
        return position if position <= piece.last else -1

    def take_first(self, position: i64, size: i64) -> Cause:
        """The first message, which lies at `position`, is read or given up; who pays for it."""
        piece = self.pieces[0]
        origin = piece.payer()
        piece.first = position + 1
        piece.count -= 1
        self.count -= 1
        # Sizes of what was found on the disk at the start are estimates.
        gone: i64 = piece.bytes if piece.count == 0 or size > piece.bytes else size
        piece.bytes -= gone
        self.bytes -= gone
        if piece.count == 0:
            self._end(self.pieces.popleft())
        elif piece.places is not None:
            piece.places.take()
            piece.first = piece.places.first
        return origin

    def _end(self, piece: Piece) -> None:
        piece.host.unstore(0, piece.ram_bytes)
        self.ram_bytes -= piece.ram_bytes

    def by_payer(self) -> list[tuple[Cause, int, int]]:
        """Cause, number and bytes of the messages, run by run. Within a piece bytes are split by
        number, because only their sum is known."""
        found: list[tuple[Cause, int, int]] = []
        for piece in self.pieces:
            left_bytes, left = int(piece.bytes), int(piece.count)
            for payer in piece.payers:
                count = int(payer.count)
                bytes_ = left_bytes * count // left if left > 0 else 0
                left_bytes -= bytes_
                left -= count
                found.append((payer.origin, count, bytes_))
        return found

    def stretches(self) -> list[tuple[QueueIndex, int, int]]:
        """(index, first, last) of positions that are in pieces; what else lies between is
        settled."""
        found: list[tuple[QueueIndex, int, int]] = []
        for piece in self.pieces:
            if piece.places is None:
                found.append((piece.index, int(piece.first), int(piece.last)))
            else:
                for first, last in piece.places.runs(piece.count):
                    found.append((piece.index, first, last))
        return found

    def clear(self) -> None:
        """Give everything up."""
        for piece in self.pieces:
            self._end(piece)
        self.pieces.clear()
        self.count = 0
        self.bytes = 0


def is_next(index: QueueIndex, before: i64, after: i64) -> bool:
    """Whether no unsettled position of `index` lies between these two, the first below the
    second."""
    if after == before + 1:
        return True
    return after > before and next_live(index, before + 1) >= after


def next_live(index: QueueIndex, position: i64) -> i64:
    """The first unsettled position from `position` on, -1 for none."""
    runs = index.runs
    at: i64 = index.at(position)
    if at < 0:
        at = 0
    count: i64 = len(runs)
    while at < count:
        run = runs[at]
        found: i64 = run.next_live(position)
        if found >= 0 and found <= run.last:
            return found
        at += 1
    return -1
