"""Deliveries as they came over the wire, into the columns of Spark rows.

The schema is the same for every source mode; names are those Kafka users know where they mean the
same. `timestamp` is the property of that name and null where the publisher gave none: a time of
receipt would differ whenever a row is read again. Properties and headers that are malformed are
null, because one such message must not stop a query for good; the body is there.

One look into a socket finds some hundred rows, and a batch costs Spark the same whatever is in it,
so `Gathered` hands over rows when they are many, or when the range ends.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import fields
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from penstock.base.errors import ConnectionFault
from penstock.protocol.properties import decode_properties
from penstock.protocol.property_lookup import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    HEADERS,
    TIMESTAMP,
    headers_table_span,
    property_span,
)
from penstock.protocol.values import Table, Value, decode_table, read_field
from penstock.spark.connector.common.shape import COLUMNS, PROPERTY_FIELDS, Shape, arrow_types

OFFSET_HEADER: Final = "x-stream-offset"
# A long integer at the end of the table, where brokers put it.
_OFFSET_FIELD: Final = b"\x0fx-stream-offsetl"
_BEFORE_HEADERS: Final = CONTENT_TYPE | CONTENT_ENCODING | HEADERS | 1
_FRAME: Final = struct.Struct(">BHI")
_HEADER: Final = struct.Struct(">BHIHHQH")
_I64: Final = struct.Struct(">q")
SECONDS_MAX: Final = 253_402_300_799
"""The end of the year 9999, which is where Spark's timestamps can still be shown."""
_ADDRESSES_KEPT: Final = 4096
ROWS_PER_ARROW_BATCH: Final = 10_000

PROPERTIES_TYPE: Final[Any] = arrow_types()["properties"]
HEADERS_TYPE: Final[Any] = arrow_types()["headers"]
GATHERED_BYTES: Final = 8_388_608
"""Rows are handed over when they are a whole batch, or when they are so many bytes."""


Columns = dict[str, list[Any]]
"""Rows on their way into Arrow, by the names of `shape`."""


def _batch(columns: Columns, shape: Shape, schema: Any) -> Any:
    """The rows as one Arrow record batch of `schema`."""
    count = len(columns["body"])
    arrays = []
    for name, field in zip(shape.kept(), schema, strict=True):
        if name == "queue":
            arrays.append(pa.repeat(pa.scalar(shape.queue, field.type), count))
        elif name == "enqueue_ts":
            # A delivery does not say when the broker took it.
            arrays.append(pa.nulls(count, field.type))
        else:
            arrays.append(pa.array(columns[name], field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def record_batches(raw: bytes, first: int, shape: Shape) -> Iterator[Any]:
    """The deliveries in `raw`, numbered from `first`, as Arrow batches of bounded length."""
    schema = shape.arrow()
    at = 0
    while at < len(raw):
        columns: Columns = {name: [] for name in COLUMNS}
        at = decode_rows(raw, at, first, shape, columns)
        first += len(columns["body"])
        yield _batch(columns, shape, schema)


def decode_rows(raw: bytes, at: int, first: int, shape: Shape, columns: Columns) -> int:
    """Add up to ROWS_PER_ARROW_BATCH deliveries to `columns`; the offset behind them.

    raw: as `scan` lays it out, so that its sizes need no checking; first: offset of the first row.
    """
    frame, header = _FRAME.unpack_from, _HEADER.unpack_from
    addresses: dict[bytes, tuple[str, str]] = {}
    bodies, exchanges, keys = columns["body"], columns["exchange"], columns["routing_key"]
    redelivered, timestamps = columns["redelivered"], columns["timestamp"]
    has_details = shape.has_properties or shape.has_headers
    stop = len(raw)
    count = ROWS_PER_ARROW_BATCH
    while at < stop and count > 0:
        count -= 1
        _, _, size = frame(raw, at)
        head = at + size + 8
        tag = at + 12 + raw[at + 11]
        redelivered.append(raw[tag + 8] & 1 == 1)
        suffix = raw[tag + 9 : head - 1]
        address = addresses.get(suffix)
        if address is None:
            if len(addresses) >= _ADDRESSES_KEPT:
                addresses.clear()
            address = addresses[suffix] = _address(suffix)
        exchanges.append(address[0])
        keys.append(address[1])
        _, _, size, _, _, left, flags = header(raw, head)
        body = head + size + 8
        timestamps.append(timestamp_us(raw, head + 19, body - 1) if flags & TIMESTAMP else None)
        if has_details:
            _add_details(raw, head + 19, body - 1, shape, columns)
        if left == 0:
            bodies.append(b"")
            at = body
            continue
        _, _, size = frame(raw, body)
        if size == left:
            bodies.append(raw[body + 7 : body + 7 + size])
            at = body + size + 8
        else:
            at = _join_body(raw, body, left, bodies)
    offsets = columns["offset"]
    offsets.extend(range(first, first + len(bodies) - len(offsets)))
    return at


def stream_offset(raw: bytes, at: int, expected: int) -> int:
    """The offset the broker wrote into the delivery at `at`; -1 when there is none.

    expected: what it should be if the stream has no holes; then one comparison is enough.
    """
    _, _, size = _FRAME.unpack_from(raw, at)
    head = at + size + 8
    _, _, size, _, _, _, flags = _HEADER.unpack_from(raw, head)
    if flags & _BEFORE_HEADERS == HEADERS:
        # The table is the first property: its end is one addition away.
        value = head + 17 + int.from_bytes(raw[head + 21 : head + 25], "big")
        if value < head + size and raw[value - 17 : value] == _OFFSET_FIELD:
            found: int = _I64.unpack_from(raw, value)[0]
            if found == expected:
                return found
    # Not where it is expected, or a publisher's bytes that only look like it.
    end = head + 7 + size
    try:
        span = headers_table_span(raw, head + 19, end)
        if span is None:
            return -1
        field = read_field(raw, span[0], span[1], OFFSET_HEADER)
    except ConnectionFault:
        return -1
    return field if isinstance(field, int) else -1


def _address(suffix: bytes) -> tuple[str, str]:
    stop = 1 + suffix[0]
    exchange = suffix[1:stop].decode("utf-8", "replace")
    return exchange, suffix[stop + 1 : stop + 1 + suffix[stop]].decode("utf-8", "replace")


def _join_body(raw: bytes, at: int, left: int, bodies: list[bytes]) -> int:
    parts: list[bytes] = []
    while left > 0:
        _, _, size = _FRAME.unpack_from(raw, at)
        parts.append(raw[at + 7 : at + 7 + size])
        left -= size
        at += size + 8
    bodies.append(b"".join(parts))
    return at


def timestamp_us(raw: bytes, flags_at: int, end: int) -> int | None:
    """The property `timestamp` in microseconds since 1970; None where there is none, for what is
    malformed, and behind the year 9999."""
    try:
        span = property_span(raw, flags_at, TIMESTAMP, end)
    except ConnectionFault:
        return None
    if span is None:
        return None
    seconds = int.from_bytes(raw[span[0] : span[1]], "big")
    return seconds * 1_000_000 if seconds <= SECONDS_MAX else None


def _add_details(raw: bytes, flags_at: int, end: int, shape: Shape, columns: Columns) -> None:
    if shape.has_properties:
        columns["properties"].append(properties_of(raw, flags_at, end))
    if shape.has_headers:
        columns["headers"].append(headers_of(raw, flags_at, end))


def properties_of(raw: bytes, flags_at: int, end: int) -> dict[str, object] | None:
    """The column `properties` of one row; None for what is malformed."""
    try:
        properties = decode_properties(raw, flags_at, end)
    except ConnectionFault:
        return None
    row: dict[str, object] = {
        field.name: getattr(properties, field.name) for field in fields(properties)
    }
    seconds = properties.timestamp
    is_shown = seconds is not None and seconds <= SECONDS_MAX
    row["timestamp"] = seconds * 1_000_000 if seconds is not None and is_shown else None
    return {name: row[name] for name, _ in PROPERTY_FIELDS}


def headers_of(raw: bytes, flags_at: int, end: int) -> list[tuple[str, str | None]] | None:
    """The column `headers` of one row; None for none, and for what is malformed."""
    try:
        span = headers_table_span(raw, flags_at, end)
        table = {} if span is None else decode_table(raw, span[0], span[1])[0]
    except ConnectionFault:
        return None
    return header_items(table)


def header_items(table: Table) -> list[tuple[str, str | None]] | None:
    """Headers as text: scalars as people write them, tables and lists as JSON, void as null. Not
    the offset, which a broker puts among those of each delivery from a stream, and which is a
    column of its own; None for no others."""
    return [
        (name, _header_text(value)) for name, value in table.items() if name != OFFSET_HEADER
    ] or None


def _header_text(value: Value) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, int | float | Decimal):
        return str(int(value)) if isinstance(value, int) else str(value)
    try:
        return json.dumps(value, default=_json_value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        # Numbers that JSON does not have, as text.
        found = json.loads(json.dumps(value, default=_json_value), parse_constant=str)
        return json.dumps(found, ensure_ascii=False)


def _json_value(value: object) -> str:
    return value.hex() if isinstance(value, bytes | bytearray) else str(value)


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
