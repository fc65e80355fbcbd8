"""Chunks of a stream into Arrow batches: whole columns at a time, never a message.

Bodies of a large chunk become an Arrow array over the very bytes that came from the socket. Small
chunks are joined first, because a batch costs Spark the same whatever is in it. Rows are those that
the AMQP path gives (`decode`), to the letter; what is rare there (headers, properties, malformed
values) is taken from it.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.spark.connector.common.decode import (
    HEADERS_TYPE,
    PROPERTIES_TYPE,
    SECONDS_MAX,
    headers_of,
    properties_of,
    timestamp_us,
)
from penstock.spark.connector.common.shape import Shape
from penstock.spark.connector.stream.chunk_layout import Bytes, ChunkView

BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 8_388_608
"""A batch is handed over when it has so many rows, or so much content."""
CONSTANTS_KEPT: Final = 64

_TIMESTAMP: Final = 0x40
_MORE_FLAGS: Final = 0x01
# Flag and size of what may stand before the timestamp: a short string, a table, one octet.
_BEFORE_TIMESTAMP: Final = (
    (0x8000, "short"), (0x4000, "short"), (0x2000, "table"), (0x1000, "octet"), (0x0800, "octet"),
    (0x0400, "short"), (0x0200, "short"), (0x0100, "short"), (0x0080, "short"),
)  # fmt: skip
_TIMESTAMP_TYPE: Final[Any] = pa.timestamp("us", tz="UTC")


class RowRange(NamedTuple):
    """Rows first..stop-1 of a chunk, by their numbers in it."""

    chunk: ChunkView
    first: int
    stop: int

    def rows(self) -> int:
        """How many there are."""
        return self.stop - self.first

    def content_bytes(self) -> int:
        """Of their bodies and headers."""
        chunk, first, stop = self.chunk, self.first, self.stop
        return int(
            chunk.bodies_at[stop] - chunk.bodies_at[first]
            + chunk.headers_at[stop] - chunk.headers_at[first]
        )  # fmt: skip


class BatchMaker:
    """Arrow batches of one shape. Owner: one task; keeps columns that are the same in every
    batch."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._schema = shape.arrow()
        self._kept = shape.kept()
        self._constants: dict[tuple[str, object], Any] = {}

    def batches(self, pieces: Iterable[RowRange]) -> Iterator[Any]:
        """Batches of at least BATCH_ROWS rows or BATCH_BYTES bytes, but for the last."""
        waiting: list[RowRange] = []
        rows = size = 0
        for piece in pieces:
            waiting.append(piece)
            rows += piece.rows()
            size += piece.content_bytes()
            if rows >= BATCH_ROWS or size >= BATCH_BYTES:
                yield self.batch(waiting)
                waiting, rows, size = [], 0, 0
        if waiting:
            yield self.batch(waiting)

    def batch(self, pieces: list[RowRange]) -> Any:
        """One batch of everything in `pieces`, 1 or more of them."""
        kept = self._kept
        count = sum(one.rows() for one in pieces)
        made: dict[str, Any] = {}
        if "body" in kept:
            at, bodies = _joined(
                [_cut(one.chunk.bodies_at, one.chunk.bodies, one.first, one.stop) for one in pieces]
            )
            made["body"] = _binary(at, bodies)
        if "queue" in kept:
            made["queue"] = self._constant(self._shape.queue, pa.string(), count)
        if "redelivered" in kept:
            made["redelivered"] = self._constant(False, pa.bool_(), count)
        if "exchange" in kept or "routing_key" in kept:
            made["exchange"], made["routing_key"] = self._addresses(pieces, count)
        if "enqueue_ts" in kept:
            made["enqueue_ts"] = _taken_at(pieces)
        offsets = _offsets(pieces)
        made["offset"] = pa.array(offsets, pa.int64())
        if "timestamp" in kept or "properties" in kept or "headers" in kept:
            self._read_headers(pieces, offsets, made)
        return pa.RecordBatch.from_arrays([made[name] for name in kept], schema=self._schema)

    def _read_headers(self, pieces: list[RowRange], offsets: Any, made: dict[str, Any]) -> None:
        """Add to `made` what comes from the properties of rows."""
        at, headers = _joined(
            [_cut(one.chunk.headers_at, one.chunk.headers, one.first, one.stop) for one in pieces]
        )
        if "timestamp" in self._kept:
            made["timestamp"] = self._timestamps(at, headers, len(offsets))
        self._add_details(at, headers, made)

    def _constant(self, value: object, kind: Any, count: int) -> Any:
        """`count` times the same, cut from an array that is made once."""
        key = (str(kind), value)
        known = self._constants.get(key)
        if known is None or len(known) < count:
            if len(self._constants) >= CONSTANTS_KEPT:
                self._constants.clear()
            known = pa.repeat(pa.scalar(value, kind), max(count, BATCH_ROWS))
            self._constants[key] = known
        return known.slice(0, count)

    def _addresses(self, pieces: list[RowRange], count: int) -> tuple[Any, Any]:
        """Exchange and routing key of each row, by the number of its address."""
        only = _only_address(pieces)
        if only is not None:
            return (
                self._constant(only[0], pa.string(), count),
                self._constant(only[1], pa.string(), count),
            )
        exchanges = _texts([(one.chunk.exchanges_at, one.chunk.exchanges) for one in pieces])
        keys = _texts([(one.chunk.keys_at, one.chunk.keys) for one in pieces])
        parts, base = [], 0
        for one in pieces:
            parts.append(one.chunk.address_of[one.first : one.stop].astype(np.int32) + base)
            base += len(one.chunk.keys_at) - 1
        numbers = pa.array(np.concatenate(parts))
        return exchanges.take(numbers), keys.take(numbers)

    def _timestamps(self, at: Any, headers: Bytes, count: int) -> Any:
        found = timestamps(at, headers)
        if found is None:
            return self._constant(None, _TIMESTAMP_TYPE, count)
        seconds, is_there = found
        return pa.array(seconds * 1_000_000, pa.int64(), mask=~is_there).cast(_TIMESTAMP_TYPE)

    def _add_details(self, headers_at: Any, headers: Bytes, made: dict[str, Any]) -> None:
        """Properties and headers, row by row, because no two need be alike."""
        kept = self._kept
        if "properties" not in kept and "headers" not in kept:
            return
        raw = headers.tobytes()
        bounds = headers_at.tolist()
        if "properties" in kept:
            rows = [properties_of(raw, start, stop) for start, stop in pairwise(bounds)]
            made["properties"] = pa.array(rows, PROPERTIES_TYPE)
        if "headers" in kept:
            items = [headers_of(raw, start, stop) for start, stop in pairwise(bounds)]
            made["headers"] = pa.array(items, HEADERS_TYPE)


def _only_address(pieces: list[RowRange]) -> tuple[str, str] | None:
    """Exchange and routing key, where all rows have the same; None where they differ."""
    found: tuple[bytes, bytes] | None = None
    for one in pieces:
        chunk = one.chunk
        if len(chunk.keys_at) != 2:
            return None
        address = (chunk.exchanges.tobytes(), chunk.keys.tobytes())
        if found is not None and address != found:
            return None
        found = address
    return None if found is None else (_text(found[0]), _text(found[1]))


def _text(raw: bytes) -> str:
    """What is no UTF-8 is replaced, as in `decode`."""
    return raw.decode("utf-8", "replace")


def _offsets(pieces: list[RowRange]) -> Any:
    """The offset of each row. Where retention has left no hole they are one run."""
    first = pieces[0].chunk.first + pieces[0].first
    last = pieces[-1]
    stop = last.chunk.first + last.stop
    if stop - first == sum(one.rows() for one in pieces):
        return np.arange(first, stop)
    return np.concatenate(
        [np.arange(p.chunk.first + p.first, p.chunk.first + p.stop) for p in pieces]
    )


def _taken_at(pieces: list[RowRange]) -> Any:
    """When the broker took each row."""
    times = [
        one.chunk.times[one.first : one.stop].astype(np.int64) + one.chunk.first_us
        for one in pieces
    ]
    return pa.array(np.concatenate(times), pa.int64()).cast(_TIMESTAMP_TYPE)


def timestamps(at: Any, headers: Bytes) -> tuple[Any, Any] | None:
    """The property `timestamp` of each row in seconds, and whether there is one; None for none
    at all. What is malformed or behind the year 9999 counts as none.

    at, headers: property flags and values of the rows, back to back.
    """
    starts = at[:-1].astype(np.int64)
    low = headers[starts + 1]
    marked = np.nonzero(low & _TIMESTAMP)[0]
    if len(marked) == 0:
        return None
    count = len(starts)
    seconds = np.zeros(count, np.int64)
    is_there = np.zeros(count, np.bool_)
    plain = marked[(low[marked] & _MORE_FLAGS) == 0]
    if len(plain) < len(marked):
        raw = headers.tobytes()
        for row in marked[(low[marked] & _MORE_FLAGS) != 0].tolist():
            value = timestamp_us(raw, int(at[row]), int(at[row + 1]))
            if value is not None:
                seconds[row] = value // 1_000_000
                is_there[row] = True
    flags = (headers[starts[plain]].astype(np.int64) << 8) | low[plain]
    place = starts[plain] + 2
    stop = at[1:][plain].astype(np.int64)
    is_good = np.ones(len(plain), np.bool_)
    last = len(headers) - 1
    for flag, kind in _BEFORE_TIMESTAMP:
        has = (flags & flag) != 0
        if not has.any():
            continue
        if kind == "octet":
            step: Any = np.ones(len(plain), np.int64)
        elif kind == "short":
            is_good &= ~has | (place < stop)
            step = 1 + headers[np.minimum(place, last)].astype(np.int64)
        else:
            is_good &= ~has | (place + 4 <= stop)
            step = 4 + _big_endian(headers, place, 4, last)
        place = np.where(has, np.minimum(place + step, stop + 1), place)
    is_good &= place + 8 <= stop
    value = _big_endian(headers, place, 8, last)
    # What has its highest bit set comes out negative, and is as far away.
    is_good &= (value >= 0) & (value <= SECONDS_MAX)
    seconds[plain] = np.where(is_good, value, 0)
    is_there[plain] = is_good
    return seconds, is_there


def _big_endian(data: Bytes, place: Any, width: int, last: int) -> Any:
    """Numbers of `width` bytes at `place`, as int64."""
    value = np.zeros(len(place), np.int64)
    for step in range(width):
        value = (value << 8) | data[np.minimum(place + step, last)]
    return value


def _cut(at: Any, data: Bytes, first: int, stop: int) -> tuple[Any, Bytes]:
    """Rows first..stop-1 of a row of bytes."""
    return at[first : stop + 1], data


def _joined(parts: list[tuple[Any, Bytes]]) -> tuple[Any, Bytes]:
    """Rows of bytes one behind the other; a single one as it is, without a copy."""
    if len(parts) == 1:
        return parts[0]
    offsets, data, end = [np.zeros(1, np.int32)], [], 0
    for at, content in parts:
        start, stop = int(at[0]), int(at[-1])
        offsets.append(at[1:] + np.int32(end - start))
        data.append(content[start:stop])
        end += stop - start
    return np.concatenate(offsets), np.concatenate(data)


def _binary(at: Any, data: Bytes, kind: Any = None) -> Any:
    """An Arrow array over these very bytes."""
    buffers = [None, pa.py_buffer(at), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind or pa.binary(), len(at) - 1, buffers)


def _texts(parts: list[tuple[Any, Bytes]]) -> Any:
    """Texts of address tables, one behind the other."""
    at, data = _joined(parts)
    texts = _binary(at, data, pa.string())
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        rows = _binary(at, data).to_pylist()
        return pa.array([_text(row) for row in rows], pa.string())
    return texts
