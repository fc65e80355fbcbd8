"""Rows on their way out: which columns mean what in AMQP, and publishes made of Arrow batches.

    body or value   BINARY or STRING, never null
    exchange, routing_key   STRING; null: the option's
    headers         MAP<STRING, STRING>
    properties      STRUCT of properties by their names, as the source makes it
    content_type, message_id, delivery_mode, …   single properties; they win over `properties`

Columns are checked on the driver, before anything is written.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import OperatorError
from penstock.client.publish_template import FRAME_END, PublishTemplate
from penstock.protocol.constants import FRAME_ENVELOPE_BYTES
from penstock.protocol.properties import Properties
from penstock.protocol.values import Table
from penstock.spark.connector.common.options import DEDUP, SinkOptions
from penstock.spark.connector.common.shape import PROPERTY_FIELDS

PERSISTENT: Final = 2
DEDUPLICATION_HEADER: Final = "x-deduplication-header"
JOINED_BYTES: Final = 4_194_304
"""Of bodies that are joined with their frames at a time; one row may have more."""
KINDS_MOST: Final = 1 << 32
TEMPLATES_KEPT: Final = 4096
_BODY_NAMES: Final = ("body", "value")
_PROPERTIES: Final = dict(PROPERTY_FIELDS)
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_KINDS: Final = {"STRING": ("string",), "INT": _INTEGERS, "TIMESTAMP": ("timestamp",)}
_IN_STRUCT: Final = {"STRING": ("varchar", "char"), "INT": (), "TIMESTAMP": ("timestamp_ntz",)}
"""What fields of `properties` may be besides."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """Where in a row things stand: column numbers, -1 for none. properties: name and column."""

    body: int
    exchange: int
    routing_key: int
    headers: int
    struct: int
    properties: tuple[tuple[str, int], ...]

    def sent(self, batch: Any) -> Any:
        """`batch` with nulls in the place of columns that are not sent (ignoreUnknownColumns)."""
        places = (self.body, self.exchange, self.routing_key, self.headers, self.struct)
        wanted = {*places, *(number for _, number in self.properties)}
        if wanted.issuperset(range(batch.num_columns)):
            return batch
        columns = [
            column if number in wanted else pa.nulls(batch.num_rows)
            for number, column in enumerate(batch.columns)
        ]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


@dataclass(frozen=True, slots=True)
class Origin:
    """Which task of which batch rows come from; empty where Spark does not say. attempt: counts the
    task's repetitions."""

    query_id: str
    batch_id: str
    partition: int
    attempt: int = 0


NO_ORIGIN: Final = Origin("", "", 0)


def plan_rows(columns: Mapping[str, str], options: SinkOptions) -> RowPlan:
    """How rows become messages. columns: Spark's simple type by name, in order.

    Raises: OperatorError for a column that means nothing, has the wrong type, or is missing.
    """
    places = {name: number for number, name in enumerate(columns)}
    bodies = [name for name in _BODY_NAMES if name in places]
    if len(bodies) != 1:
        raise OperatorError(
            f"rows for AMQP need one column body (or value), and there "
            f"{'are both' if bodies else 'is none'} among {', '.join(columns)}"
        )
    _check_type(bodies[0], columns, ("binary", "string"))
    for name in ("exchange", "routing_key"):
        _check_type(name, columns, ("string",))
    _check_type("headers", columns, ("map<string,string>",))
    for name, kind in PROPERTY_FIELDS:
        _check_type(name, columns, _KINDS[kind])
    if "properties" in columns and not columns["properties"].startswith("struct<"):
        raise OperatorError(
            f"column properties is {columns['properties']}, and has to be a struct of "
            f"{', '.join(_PROPERTIES)}"
        )
    known = {*bodies, "exchange", "routing_key", "headers", "properties", *_PROPERTIES}
    unknown = [name for name in columns if name not in known]
    if unknown and not options.can_ignore_columns:
        raise OperatorError(
            f"columns {', '.join(unknown)} mean nothing to AMQP. Known: "
            f"{', '.join(sorted(known))}. Drop them, or set option ignoreUnknownColumns=true"
        )
    if "routing_key" not in columns and not options.routing_key and not options.exchange:
        raise OperatorError(
            "nothing says where rows go: give option routingKey (with the default exchange, the "
            "name of a queue), option exchange, or a column routing_key"
        )
    return RowPlan(
        places[bodies[0]],
        places.get("exchange", -1),
        places.get("routing_key", -1),
        places.get("headers", -1),
        places.get("properties", -1),
        tuple((name, places[name]) for name in _PROPERTIES if name in places),
    )


def check_struct(fields: Mapping[str, str]) -> None:
    """What column `properties` has in it, Spark's simple type by name. Raises: OperatorError."""
    named = {f"properties.{name}": kind.partition("(")[0] for name, kind in fields.items()}
    for name, kind in PROPERTY_FIELDS:
        _check_type(f"properties.{name}", named, (*_KINDS[kind], *_IN_STRUCT[kind], "void"))


class RowFrames(NamedTuple):
    """Publishes back to back. data: the frames of all; ends: offset behind each row's, int64."""

    data: bytes
    ends: Any

    def part(self, first: int, stop: int) -> "RowFrames":
        """Rows first..stop-1."""
        start = int(self.ends[first - 1]) if first else 0
        cut = self.ends[first:stop]
        return RowFrames(self.data[start : int(cut[-1])], cut - start)


class MessageMaker:
    """Rows of one task into frames, a column at a time: Arrow joins what stands around bodies with
    them, so that no row is looked at. Rows with the same address and properties, a kind of
    message, share the frames in front of their bodies. rows: made so far."""

    def __init__(
        self,
        plan: RowPlan,
        options: SinkOptions,
        channel: int,
        frame_bytes_max: int,
        origin: Origin,
    ) -> None:
        self._plan = plan
        self._options = options
        self._channel = channel
        self._frame_bytes_max = frame_bytes_max
        self._origin = origin if options.has_batch_headers else None
        self._key = dedup_key(options, origin)
        self._known: dict[object, PublishTemplate] = {}
        self.rows = 0

    def frames(self, batch: Any) -> Iterator[RowFrames]:
        """The frames of all rows, of about JOINED_BYTES at a time.

        batch: an Arrow record batch of the planned columns. Raises: OperatorError for a row that
        cannot be a message, by its number in the partition.
        """
        bodies = batch.column(self._plan.body).cast(pa.binary())
        if bodies.null_count:
            row = self.rows + bodies.is_null().index(True).as_py()
            raise OperatorError(
                f"row {row} of the partition has no body (null), and a message needs one; filter "
                "such rows or use coalesce"
            )
        numbers, templates = self._kinds(_with_times_as_numbers(batch, self._plan))
        sizes = pc.binary_length(bodies).to_numpy(zero_copy_only=False)
        first, done = 0, np.cumsum(sizes, dtype=np.int64)
        while first < len(sizes):
            before = int(done[first - 1]) if first else 0
            stop = max(first + 1, int(np.searchsorted(done, before + JOINED_BYTES, "right")))
            part = slice(first, stop)
            yield self._joined(bodies[part], sizes[part], numbers[part], templates)
            first = stop
        self.rows += len(sizes)

    def _joined(
        self, bodies: Any, sizes: Any, numbers: Any, templates: list[PublishTemplate]
    ) -> RowFrames:
        most = self._frame_bytes_max - FRAME_ENVELOPE_BYTES
        if int(sizes.min()) == 0 or int(sizes.max()) > most:
            # No body frame, or several.
            rows = [
                templates[number].frames(body, self._frame_bytes_max)
                for number, body in zip(numbers.tolist(), bodies.to_pylist(), strict=True)
            ]
            return RowFrames(b"".join(rows), np.cumsum([len(row) for row in rows], dtype=np.int64))
        kinds = pa.array(numbers)
        joined = pc.binary_join_element_wise(
            _taken([one.start for one in templates], kinds),
            _big_endian(sizes, 8),
            _taken([one.header_end for one in templates], kinds),
            _binary(templates[0].body_start),
            _big_endian(sizes, 4),
            bodies,
            _binary(FRAME_END),
            _binary(b""),
        )
        _, ends, data = joined.buffers()
        at = np.frombuffer(ends, np.int32)[joined.offset : joined.offset + len(joined) + 1]
        start, stop = int(at[0]), int(at[-1])
        return RowFrames(data[start:stop].to_pybytes(), at[1:].astype(np.int64) - start)

    def _kinds(self, batch: Any) -> tuple[Any, list[PublishTemplate]]:
        """The kind of each row, and the frames of each kind."""
        plan, count = self._plan, batch.num_rows
        numbers, kinds = np.zeros(count, np.int64), 1
        wanted = (plan.exchange, plan.routing_key, plan.headers, plan.struct)
        for place in (*wanted, *(number for _, number in plan.properties)):
            if place >= 0:
                codes, distinct = _codes(batch.column(place))
                numbers, kinds = numbers * distinct + codes, kinds * distinct
                if kinds > KINDS_MOST:
                    numbers = np.unique(numbers, return_inverse=True)[1]
                    kinds = count
        if self._origin is not None or self._key:
            numbers = np.arange(count)
        _, firsts, numbers = np.unique(numbers, return_index=True, return_inverse=True)
        return numbers, [self._template(batch, row) for row in firsts.tolist()]

    def _template(self, batch: Any, row: int) -> PublishTemplate:
        """What stands around the body of `row`."""
        plan, number = self._plan, self.rows + row

        def value(place: int) -> Any:
            return batch.column(place)[row].as_py() if place >= 0 else None

        values = {**(value(plan.struct) or {}), **{name: value(at) for name, at in plan.properties}}
        headers = value(plan.headers)
        key = (
            value(plan.exchange),
            value(plan.routing_key),
            None if headers is None else tuple(headers),
            tuple(values.items()),
        )
        if self._origin is not None or self._key:
            return self._templated(number, key[0], key[1], headers, values)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= TEMPLATES_KEPT:
                self._known.clear()
            found = self._templated(number, key[0], key[1], headers, values)
            self._known[key] = found
        return found

    def _templated(
        self,
        row: int,
        exchange: str | None,
        key: str | None,
        headers: list[tuple[str, str | None]] | None,
        values: dict[str, Any],
    ) -> PublishTemplate:
        options = self._options
        table: Table | None = None if headers is None else dict(headers)
        if self._origin is not None:
            table = {**(table or {}), **_provenance(self._origin, row)}
        if self._key:
            table = {**(table or {}), DEDUPLICATION_HEADER: f"{self._key}/{row}"}
        found = {name: value for name, value in values.items() if value is not None}
        unknown = [name for name in found if name not in _PROPERTIES]
        if unknown:
            raise OperatorError(f"properties has fields AMQP does not know: {', '.join(unknown)}")
        time_us = found.get("timestamp", 0)
        if time_us < 0:
            raise OperatorError(
                f"row {row} of the partition cannot be a message: its timestamp is "
                f"{-time_us / 1_000_000:g} s before 1970, where AMQP's begin; make it null, or put "
                "it into the body or a header"
            )
        if "timestamp" in found:
            found["timestamp"] = time_us // 1_000_000
        if "delivery_mode" not in found and options.is_persistent:
            found["delivery_mode"] = PERSISTENT
        try:
            template = PublishTemplate(
                self._channel,
                options.exchange if exchange is None else exchange,
                options.routing_key if key is None else key,
                Properties(headers=table, **found),
                options.is_mandatory,
            )
        except ValueError as error:
            raise OperatorError(
                f"row {row} of the partition cannot be a message: {error}"
            ) from error
        size = template.header_frame_bytes()
        if size > self._frame_bytes_max:
            raise OperatorError(
                f"row {row} of the partition cannot be a message: its headers and properties "
                f"take a frame of {size} bytes, and this connection has at most "
                f"{self._frame_bytes_max}; put what is large into the body"
            )
        return template


def _with_times_as_numbers(batch: Any, plan: RowPlan) -> Any:
    """`batch` with microseconds since 1970 in the place of timestamps: Python's end with the year
    9999, and those of Spark and AMQP do not."""
    for place in (plan.struct, *(number for _, number in plan.properties)):
        if place >= 0:
            column, name = batch.column(place), batch.schema.names[place]
            batch = batch.set_column(place, name, column.cast(_as_number(column.type)))
    return batch


def _as_number(kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_number(field.type)) for field in kind])
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def _codes(column: Any) -> tuple[Any, int]:
    """A number below the second result for each value, the same for equal ones."""
    if pa.types.is_nested(column.type):
        known: dict[object, int] = {}
        texts = [repr(value) for value in column.to_pylist()]
        codes = np.array([known.setdefault(text, len(known)) for text in texts], np.int64)
        return codes, len(known)
    found = column.dictionary_encode(null_encoding="encode")
    return found.indices.to_numpy(zero_copy_only=False), len(found.dictionary)


def _taken(values: list[bytes], kinds: Any) -> Any:
    """values[kind] for each row."""
    return _binary(values[0]) if len(values) == 1 else pa.array(values, pa.binary()).take(kinds)


def _big_endian(numbers: Any, width: int) -> Any:
    """Numbers as AMQP writes them, in `width` bytes each."""
    at = np.arange(0, width * len(numbers) + 1, width, dtype=np.int32)
    data = numbers.astype(f">u{width}")
    buffers = [None, pa.py_buffer(at), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(numbers), buffers)


def _binary(value: bytes) -> Any:
    return pa.scalar(value, pa.binary())


def dedup_key(options: SinkOptions, origin: Origin) -> str:
    """What the deduplication keys of a task's rows begin with, "" without delivery=dedup.

    Raises: OperatorError when nothing says which batch it is."""
    if options.delivery != DEDUP:
        return ""
    if not origin.batch_id:
        raise OperatorError(
            "delivery=dedup is for writeStream: nothing tells batches of df.write apart"
        )
    return f"{options.app_id or origin.query_id}/{origin.batch_id}/{origin.partition}"


def _provenance(origin: Origin, row: int) -> Table:
    table: Table = {"x-spark-partition": origin.partition, "x-spark-row": row}
    if origin.query_id:
        table["x-spark-query-id"] = origin.query_id
    if origin.batch_id:
        table["x-spark-batch-id"] = int(origin.batch_id)
    return table


def _check_type(name: str, columns: Mapping[str, str], allowed: tuple[str, ...]) -> None:
    if name in columns and columns[name] not in allowed:
        raise OperatorError(
            f"column {name} is {columns[name]}, and has to be {' or '.join(allowed)}; use cast"
        )
