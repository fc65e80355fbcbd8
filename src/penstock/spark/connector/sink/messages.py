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
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from penstock.base.errors import OperatorError
from penstock.client.publish_template import PublishTemplate
from penstock.protocol.properties import Properties
from penstock.protocol.values import Table
from penstock.spark.connector.common.decode import PROPERTY_FIELDS
from penstock.spark.connector.common.options import DEDUP, SinkOptions

PERSISTENT: Final = 2
DEDUPLICATION_HEADER: Final = "x-deduplication-header"
_BODY_NAMES: Final = ("body", "value")
_PROPERTIES: Final = dict(PROPERTY_FIELDS)
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_KINDS: Final = {"STRING": ("string",), "INT": _INTEGERS, "TIMESTAMP": ("timestamp",)}


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


class MessageMaker:
    """Rows of one task into frames. Neighbours with the same address and properties share the
    frames in front of their bodies."""

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
        self._last: object = None
        self._template: PublishTemplate | None = None
        self.rows = 0

    def frames(self, batch: Any) -> Iterator[bytes]:
        """Each row's frames. batch: an Arrow record batch of the planned columns.

        Raises: OperatorError for a row that cannot be a message, by its number in the partition.
        """
        plan = self._plan
        columns = [column.to_pylist() for column in batch.columns]
        count = batch.num_rows
        nothing = [None] * count
        bodies = columns[plan.body]
        exchanges = columns[plan.exchange] if plan.exchange >= 0 else nothing
        keys = columns[plan.routing_key] if plan.routing_key >= 0 else nothing
        headers = columns[plan.headers] if plan.headers >= 0 else nothing
        structs = columns[plan.struct] if plan.struct >= 0 else nothing
        singles = [(name, columns[number]) for name, number in plan.properties]
        for row in range(count):
            body = bodies[row]
            if body is None:
                raise OperatorError(
                    f"row {self.rows} of the partition has no body (null), and a message needs "
                    "one; filter such rows or use coalesce"
                )
            values = {**(structs[row] or {}), **{name: column[row] for name, column in singles}}
            key = (exchanges[row], keys[row], headers[row], values)
            is_single = self._origin is not None or self._key != ""
            if self._template is None or is_single or key != self._last:
                self._template = self._templated(*key)
                self._last = key
            data = body if isinstance(body, bytes) else body.encode()
            yield self._template.frames(data, self._frame_bytes_max)
            self.rows += 1

    def _templated(
        self,
        exchange: str | None,
        key: str | None,
        headers: list[tuple[str, str | None]] | None,
        values: dict[str, Any],
    ) -> PublishTemplate:
        options = self._options
        table: Table | None = None if headers is None else dict(headers)
        if self._origin is not None:
            table = {**(table or {}), **_provenance(self._origin, self.rows)}
        if self._key:
            table = {**(table or {}), DEDUPLICATION_HEADER: f"{self._key}/{self.rows}"}
        found = {name: value for name, value in values.items() if value is not None}
        unknown = [name for name in found if name not in _PROPERTIES]
        if unknown:
            raise OperatorError(f"properties has fields AMQP does not know: {', '.join(unknown)}")
        if "timestamp" in found:
            found["timestamp"] = _seconds(found["timestamp"])
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
                f"row {self.rows} of the partition cannot be a message: {error}"
            ) from error
        size = template.header_frame_bytes()
        if size > self._frame_bytes_max:
            raise OperatorError(
                f"row {self.rows} of the partition cannot be a message: its headers and properties "
                f"take a frame of {size} bytes, and this connection has at most "
                f"{self._frame_bytes_max}; put what is large into the body"
            )
        return template


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


def _seconds(value: datetime) -> int:
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp()))


def _check_type(name: str, columns: Mapping[str, str], allowed: tuple[str, ...]) -> None:
    if name in columns and columns[name] not in allowed:
        raise OperatorError(
            f"column {name} is {columns[name]}, and has to be {' or '.join(allowed)}; use cast"
        )
