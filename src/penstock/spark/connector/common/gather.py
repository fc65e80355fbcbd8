"""Gathers deliveries that were read in pieces, for a batch costs Spark the same whatever is in it.

What one look into a socket finds is some hundred rows. A range is done when its last row is there,
so nobody waits for those that are held back until they are many.
"""

from collections.abc import Iterator
from typing import Any, Final

from penstock.spark.connector.common.decode import ROWS_PER_ARROW_BATCH, Shape, record_batches

GATHERED_BYTES: Final = 8_388_608
"""Rows are handed over when they are a whole batch, or when they are so many bytes."""


class Gathered:
    """Deliveries back to back, without a hole in their numbers. Owner: one task; holds less than a
    batch and one look into a socket."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._parts: list[bytes] = []
        self._first = 0
        self._rows = 0
        self._size = 0

    def add(self, raw: bytes, first: int, count: int) -> Iterator[Any]:
        """`count` more, numbered from `first`; the Arrow batches that are full by it."""
        if first != self._first + self._rows:
            yield from self.rest()
        if not self._parts:
            self._first = first
        self._parts.append(raw)
        self._rows += count
        self._size += len(raw)
        if self._rows >= ROWS_PER_ARROW_BATCH or self._size >= GATHERED_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[Any]:
        """What is left, as Arrow batches."""
        raw, first = b"".join(self._parts), self._first
        self._parts, self._rows, self._size = [], 0, 0
        yield from record_batches(raw, first, self._shape)
