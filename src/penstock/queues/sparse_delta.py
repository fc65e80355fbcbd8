"""The middle of a paged queue whose messages have those of other levels between them in the log."""

from typing import Final

from mypy_extensions import i64

from penstock.base.cause import Cause
from penstock.queues.delta import PIECE_BYTES, Delta, Piece
from penstock.queues.places import Places
from penstock.storage.layout.index import QueueIndex

PLACES_BYTES_MAX: Final = 4096
"""Of the places of one piece; then there is another one. So little is taken up by what has gone."""


PLACES_BYTES: Final = 256
"""What places cost that are in a row."""


class SparsePiece(Piece):
    """Messages at `places`, first..last, and at none between them. places_bytes: charged."""

    __slots__ = ("places", "places_bytes")

    def __init__(self, index: QueueIndex, position: i64, host: Cause) -> None:
        super().__init__(index, position, host)
        self.places = Places(position)
        self.places_bytes: i64 = PLACES_BYTES

    def stretches(self) -> list[tuple[int, int]]:
        return self.places.runs(self.count)

    def chosen(self, count: i64) -> list[int] | None:
        return self.places.next_ones(count)


class SparseDelta(Delta):
    """Its pieces are sparse ones; ram_bytes has their places."""

    __slots__ = ()

    def append(self, index: QueueIndex, position: i64, size: i64, origin: Cause) -> None:
        piece = self._end_of(-1, index)
        if piece is None or position <= piece.last:
            piece = self._begin_sparse(index, position, origin)
            self.pieces.append(piece)
        else:
            piece.places.append(position)
            self._measure(piece)
        piece.last = position
        piece.pay_last(origin)
        self._counted(piece, size)

    def prepend(self, index: QueueIndex, position: i64, size: i64, origin: Cause) -> None:
        piece = self._end_of(0, index)
        if piece is None or position >= piece.first:
            piece = self._begin_sparse(index, position, origin)
            self.pieces.appendleft(piece)
        else:
            piece.places.prepend(position)
            self._measure(piece)
        piece.first = position
        piece.pay_first(origin)
        self._counted(piece, size)

    def _end_of(self, at: int, index: QueueIndex) -> SparsePiece | None:
        """The piece at that end, if it may grow by something in `index`."""
        if not self.pieces:
            return None
        piece = self.pieces[at]
        assert isinstance(piece, SparsePiece), "no others are put here"
        if piece.index is not index or len(piece.places.data) >= PLACES_BYTES_MAX:
            return None
        return piece

    def _begin_sparse(self, index: QueueIndex, position: i64, host: Cause) -> SparsePiece:
        host.store(0, PIECE_BYTES + PLACES_BYTES)
        self.ram_bytes += PIECE_BYTES + PLACES_BYTES
        return SparsePiece(index, position, host)

    def _measure(self, piece: SparsePiece) -> None:
        """The places take more memory than before."""
        more: i64 = PLACES_BYTES + len(piece.places.data) - piece.places_bytes
        if more > 0:
            piece.host.store(0, more)
            piece.places_bytes += more
            self.ram_bytes += more

    def first_position(self) -> i64:
        return self.pieces[0].first

    def take_first(self, position: i64, size: i64) -> Cause:
        piece = self.pieces[0]
        origin = super().take_first(position, size)
        if piece.count > 0:
            assert isinstance(piece, SparsePiece), "no others are put here"
            piece.places.take()
            piece.first = piece.places.first
        return origin

    def _end(self, piece: Piece) -> None:
        assert isinstance(piece, SparsePiece), "no others are put here"
        piece.host.unstore(0, piece.places_bytes)
        self.ram_bytes -= piece.places_bytes
        super()._end(piece)
