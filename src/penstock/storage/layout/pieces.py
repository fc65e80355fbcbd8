"""Bytes on their way into one file: small ones copied together while they are hot, large ones as
they are."""

from typing import Final

from mypy_extensions import i64

from penstock.base.wire import BytesWriter

PIECE_BYTES: Final = 65_536
"""A piece is finished at this size: large enough to be cheap, small enough for a processor's cache
to have it when it is finished."""
KEPT_BYTES: Final = 8192
"""From here on a copy costs more than another piece does."""


class Pieces:
    """fresh: the end, still growing, in a writer that is empty before and after `finish`, so that
    one pieces after the other use it and it grows only once; `parts` has everything else, and after
    `finish` all of it."""

    __slots__ = ("fresh", "parts")

    def __init__(self, writer: BytesWriter) -> None:
        self.fresh = writer
        self.parts: list[bytes] = []

    def add(self, data: bytes) -> None:
        """Put `data` behind the others."""
        size: i64 = len(data)
        if size >= KEPT_BYTES:
            self.finish()
            self.parts.append(data)
            return
        self.fresh.write(data)
        if len(self.fresh) >= PIECE_BYTES:
            self.finish()

    def finish(self) -> None:
        """Have all of it in `parts`."""
        fresh = self.fresh
        if len(fresh) > 0:
            self.parts.append(fresh.getvalue())
            fresh.truncate(0)
