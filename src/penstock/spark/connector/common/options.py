"""What a query asks of the broker: every option of source and sink, parsed once, on the driver.

Passwords: `passwordFile` and `passwordEnv` keep them out of plans altogether. `url` and `password`
are redacted by Spark itself (`spark.sql.redaction.options.regex`, `spark.redaction.regex`), and
nothing here ever prints them. Files and environment are read where the connection is opened, so
they must be there on executors, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import (
    CONNECTOR_BUFFERED_BYTES,
    CONNECTOR_IN_FLIGHT,
    CONNECTOR_PREFETCH,
    CONNECTOR_STAGED_BYTES,
    LEASE_MESSAGES,
    LEASE_TIMEOUT_MS,
    TRANSACTION_BYTES,
    TRANSACTION_TTL_MS,
    Limit,
)
from penstock.spark.connector.common.endpoint import Endpoint as Endpoint
from penstock.spark.connector.common.endpoint import parse_endpoint
from penstock.spark.connector.common.offsets import is_made_up
from penstock.spark.connector.common.option_values import (
    AUTO,
    TRIGGER_DELAY_MS_MAX,
    Option,
    Values,
    parse_columns,
    parse_places,
    parse_queues,
)

QUEUE_ROWS_DEFAULT: Final = CONNECTOR_PREFETCH.default // 2
LEASE_ROWS_DEFAULT: Final = 50_000
STREAM_ROWS_DEFAULT: Final = 100_000
"""Rows of a batch at most. Of mode=queue they pass through the driver; others tasks read, and a
lease waits for the broker's disk, whatever is in it."""
ROWS_MOST: Final = 2**40
PARTITIONS_MAX: Final = 1024
LAG_MAX: Final = 2**60
GROUP_BYTES_MAX: Final = 200
APP_BYTES_MOST: Final = 200
BATCH_MOST: Final = 2**62
HOUR_MS: Final = 3_600_000

# How often a row of the sink arrives. at-least-once: a repeated task publishes again. exactly-once:
# a task stages its rows, and the driver commits a batch as one (docs/transactions.md). dedup:
# at-least-once with a key for each row, for exchanges and queues that drop what they have had
# (x-deduplication-header).
AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"
DEDUP: Final = "dedup"

_MODES: Final = (AUTO, "lease", "stream", "queue")
_LEASE: Final = ("lease", AUTO)
_QUEUE: Final = ("queue", AUTO)
_RANGES: Final = ("lease", "stream", AUTO)
_STREAM: Final = ("stream", AUTO)
_CONNECTION: Final = tuple(
    Option(name)
    for name in ("url", "username", "password", "passwordFile", "passwordEnv", "tls.caFile",
                 "tls.certFile", "tls.keyFile", "reconnectTimeout", "queryName")
)  # fmt: skip


def _range(limit: Limit) -> tuple[int, int, int]:
    return limit.lowest, limit.highest, limit.default


SOURCE_OPTIONS: Final = (
    *_CONNECTION,
    Option("queue"),
    Option("queues"),
    Option("queuePattern"),
    Option("superStream", "super_stream", modes=_STREAM),
    Option("mode"),
    Option("group", modes=_RANGES),
    Option("maxLagMessages", "max_lag_rows", ("number", 1, LAG_MAX, 0), modes=_STREAM),
    Option("maxLagBytes", "max_lag_bytes", ("size_bytes", 1, 0), modes=_STREAM),
    Option("leaseTimeout", "lease_timeout_ms", ("time_ms", *_range(LEASE_TIMEOUT_MS)), _LEASE),
    Option("maxOffsetsPerTrigger", aliases=("maxRecordsPerTrigger",)),
    Option("minOffsetsPerTrigger"),
    Option("maxTriggerDelay", "max_delay_ms", ("time_ms", 0, TRIGGER_DELAY_MS_MAX, 900_000)),
    Option("maxBytesPerTrigger", "max_bytes", ("size_bytes", 1, 0)),
    Option("targetBatchDuration", "target_ms", ("time_ms", 1, TRIGGER_DELAY_MS_MAX, 0)),
    Option("minPartitions", "partitions", ("number", 1, PARTITIONS_MAX, 0)),
    Option("prefetch", modes=_QUEUE),
    Option(
        "maxBufferedBytes",
        "buffered_bytes",
        ("size_bytes", CONNECTOR_BUFFERED_BYTES.lowest, CONNECTOR_BUFFERED_BYTES.default),
        modes=_QUEUE,
    ),
    Option("includeProperties", "has_properties", ("flag", False)),
    Option("includeHeaders", "has_headers", ("flag", False)),
    Option("includeFlow", "has_flow", ("flag", False), modes=_STREAM),
    Option("bodyColumn", "body_column", ("text", "body")),
    Option("columns"),
    Option("startingOffsets", modes=_STREAM),
    Option("startingTimestamp", modes=_STREAM),
    Option("startingOffsetsByTimestamp", modes=_STREAM),
    Option("endingOffsets", modes=_STREAM),
    Option("endingTimestamp", modes=_STREAM),
    Option("endingOffsetsByTimestamp", modes=_STREAM),
    Option("filterPushdown", "wants_pushdown", ("flag", False), modes=_STREAM),
    Option("failOnDataLoss", "fails_on_data_loss", ("flag", True), modes=_RANGES),
    Option("readMode", "read_mode", ("choice", ("auto", "chunk", "amqp"), "auto"), modes=_STREAM),
    Option("readTimeout", "read_timeout_ms", ("time_ms", 100, HOUR_MS, 30_000), modes=_RANGES),
)
SINK_OPTIONS: Final = (
    *_CONNECTION,
    Option("exchange", "exchange"),
    Option("routingKey", "routing_key"),
    Option("persistent", "is_persistent", ("flag", True)),
    Option("mandatory", "is_mandatory", ("flag", True)),
    Option("delivery", "delivery", ("choice", (AT_LEAST_ONCE, EXACTLY_ONCE, DEDUP), AT_LEAST_ONCE)),
    Option("appId", "app_id", modes=(EXACTLY_ONCE, DEDUP), aliases=("txnAppId",)),
    Option(
        "batchId",
        "batch",
        ("number", 0, BATCH_MOST, -1),
        modes=(EXACTLY_ONCE,),
        aliases=("txnVersion",),
    ),
    Option(
        "maxStagedBytes",
        "staged_bytes",
        ("size_bytes", TRANSACTION_BYTES.lowest, CONNECTOR_STAGED_BYTES.default),
        modes=(EXACTLY_ONCE,),
    ),
    Option("stagedTimeout", "staged_ms", ("time_ms", *_range(TRANSACTION_TTL_MS)), (EXACTLY_ONCE,)),
    Option("maxInFlight", "in_flight", ("number", *_range(CONNECTOR_IN_FLIGHT))),
    Option("confirmTimeout", "confirm_timeout_ms", ("time_ms", 100, HOUR_MS, 300_000)),
    Option("onBlocked"),
    Option("batchHeaders", "has_batch_headers", ("flag", False)),
    Option("ignoreUnknownColumns", "can_ignore_columns", ("flag", False)),
    # Spark hands these, and queryName, to a sink among the options.
    Option("checkpointLocation"),
    Option("path"),
)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read and how much of it at once. Rows are messages; 0 means no bound of that kind.

    max_rows: 1..; min_rows: 0..max_rows; max_bytes: 0..; prefetch: max_rows..65535 (queues);
    target_ms: 0.., how long a batch is to take. queues: in order, 1 or more; queue: the first;
    pattern, super_stream: what they were found by, "" for none.
    columns: those kept, with `body` for the body whatever its name; none for all.
    mode: as given, or with `is_auto` as found; note: what the user has to know of that, "" for
    nothing.
    partitions: 0 where it was not given; cores: what Spark has for the tasks of the query, 1...
    starts, ends: a place (see `places`) for each of `queues`; starting, ending: that of `queue`.
    """

    endpoint: Endpoint
    queue: str
    mode: str
    is_auto: bool
    max_rows: int
    min_rows: int
    max_delay_ms: int
    max_bytes: int
    partitions: int
    prefetch: int
    buffered_bytes: int
    has_properties: bool
    has_headers: bool
    has_flow: bool
    body_column: str
    starting: str
    ending: str
    queues: tuple[str, ...]
    pattern: str
    starts: tuple[str, ...]
    ends: tuple[str, ...]
    target_ms: int
    wants_pushdown: bool
    fails_on_data_loss: bool
    read_timeout_ms: int
    read_mode: str
    super_stream: str = ""
    group: str = ""
    max_lag_rows: int = 0
    max_lag_bytes: int = 0
    lease_timeout_ms: int = LEASE_TIMEOUT_MS.default
    columns: tuple[str, ...] = ()
    cores: int = 1
    note: str = ""

    @property
    def may_change(self) -> bool:
        """Whether the broker says which queues there are, and may say otherwise the next time."""
        return self.pattern != "" or self.super_stream != ""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where rows go and how they are settled. in_flight: messages, 1..65535; delivery: one of the
    three; app_id: "" for the query's id; batch: 0.., -1 where Spark counts them; staged_bytes,
    staged_ms: what a task's transaction reserves, and how long it lives."""

    endpoint: Endpoint
    can_wait_blocked: bool
    exchange: str
    routing_key: str
    is_persistent: bool
    is_mandatory: bool
    in_flight: int
    confirm_timeout_ms: int
    has_batch_headers: bool
    can_ignore_columns: bool
    delivery: str
    app_id: str
    batch: int
    staged_bytes: int
    staged_ms: int


def parse_source(
    given: Mapping[str, str], found: tuple[str, ...] = (), found_mode: str = ""
) -> SourceOptions:
    """Options of `spark.read` and `spark.readStream`. found: the names that queuePattern matches,
    or of the partitions; without them either stands for a queue itself, and places are not looked
    at. found_mode: what
    mode=auto has turned out to be.

    Raises: OperatorError naming the option, its value, and what it takes.
    """
    values = Values(given, SOURCE_OPTIONS, "reading from AMQP")
    pattern = values.text("queuePattern")
    queues = parse_queues(values, found)
    asked = values.choice("mode", _MODES, AUTO)
    values.check_fits("mode", asked)
    is_super = values.has("superStream")
    mode = found_mode or ("stream" if is_super else asked)
    if asked == AUTO != mode:
        values.check_kind("stream", mode == "stream", queues)
    highest, usual = {
        "queue": (CONNECTOR_PREFETCH.highest, QUEUE_ROWS_DEFAULT),
        "lease": (LEASE_MESSAGES.default, LEASE_ROWS_DEFAULT),
        "stream": (ROWS_MOST, STREAM_ROWS_DEFAULT),
        AUTO: (ROWS_MOST, STREAM_ROWS_DEFAULT),
    }[mode]
    max_rows = values.number("maxOffsetsPerTrigger", 1, highest, usual)
    if max_rows < len(queues):
        raise OperatorError(
            f"option maxOffsetsPerTrigger is {max_rows}, less than the {len(queues)} queues, of "
            "which each needs a row at least"
        )
    min_rows = values.number("minOffsetsPerTrigger", 1, max_rows, 0)
    starts = ends = ("",) * len(queues)
    if found or not (pattern or is_super):
        starts = parse_places(values, "starting", ("earliest", "latest"), queues)
        ends = parse_places(values, "ending", ("latest",), queues)
    return SourceOptions(
        endpoint=parse_endpoint(values),
        queue=queues[0],
        mode=mode,
        is_auto=asked == AUTO,
        max_rows=max_rows,
        min_rows=min_rows,
        prefetch=_prefetch(values, mode, max_rows),
        starting=starts[0],
        ending=ends[0],
        queues=queues,
        pattern=pattern,
        starts=starts,
        ends=ends,
        group=_group(values),
        columns=parse_columns(values),
        **values.fields(),
    )


def of_queue(options: SourceOptions, number: int) -> SourceOptions:
    """The options as they are for the queue of that number alone."""
    return replace(
        options,
        queue=options.queues[number],
        starting=options.starts[number],
        ending=options.ends[number],
    )


def parse_sink(given: Mapping[str, str]) -> SinkOptions:
    """Options of `df.write` and `df.writeStream`. Raises: OperatorError as `parse_source`."""
    values = Values(given, SINK_OPTIONS, "writing to AMQP")
    for name in ("exchange", "routingKey"):
        if len(values.text(name).encode()) > 255:
            raise OperatorError(f"option {name} is longer than the 255 bytes a name may have")
    options = SinkOptions(
        parse_endpoint(values),
        values.choice("onBlocked", ("wait", "fail"), "wait") == "wait",
        **values.fields(),
    )
    values.check_fits("delivery", options.delivery)
    if len(options.app_id.encode()) > APP_BYTES_MOST:
        raise OperatorError(f"option appId is longer than the {APP_BYTES_MOST} bytes it may have")
    if options.batch >= 0 and not options.app_id:
        raise OperatorError(
            f"option batchId is {options.batch}, a number of an app: give option appId too, a name "
            "for these writes that stays the same"
        )
    return options


def _group(values: Values) -> str:
    group = values.text("group")
    if len(group.encode()) > GROUP_BYTES_MAX:
        raise OperatorError(f"option group is longer than the {GROUP_BYTES_MAX} bytes it may have")
    if is_made_up(group):
        raise OperatorError(
            f"option group is {group!r}: names that begin so are made up for queries without the "
            "option, and stand in their checkpoints. Leave the option out, or take another name"
        )
    for name in ("maxLagMessages", "maxLagBytes"):
        if values.has(name) and not group:
            # None is made up here: a group without a known name would hold the stream for ever.
            raise OperatorError(
                f"option {name} is a bound of a group: give option group too, a name for this "
                f"query that stays the same, such as {(values.text('queue') or 'my') + '-query'!r}"
            )
    return group


def _prefetch(values: Values, mode: str, max_rows: int) -> int:
    if mode != "queue":
        return 0
    prefetch = values.number(
        "prefetch", 1, CONNECTOR_PREFETCH.highest, min(CONNECTOR_PREFETCH.highest, 2 * max_rows)
    )
    if prefetch < max_rows:
        raise OperatorError(
            f"option prefetch is {prefetch}, less than maxOffsetsPerTrigger ({max_rows}): the "
            "broker would stop delivering before a batch is full. Raise prefetch, or lower "
            "maxOffsetsPerTrigger"
        )
    return prefetch
