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
    LEASE_MESSAGES,
    LEASE_TIMEOUT_MS,
)
from penstock.client.url import BrokerUrl, parse_url
from penstock.spark.connector.common.delivery import (
    DELIVERY_OPTIONS,
    DeliveryGuarantee,
    parse_delivery,
)
from penstock.spark.connector.common.lease_group import is_made_up
from penstock.spark.connector.common.option_values import (
    TRIGGER_DELAY_MS_MAX,
    Option,
    Values,
    parse_columns,
    parse_queues,
)
from penstock.spark.connector.common.places import parse_places

QUEUE_ROWS_DEFAULT: Final = CONNECTOR_PREFETCH.default // 2
STREAM_ROWS_DEFAULT: Final = 100_000
"""Rows of a batch at most. Of a queue they pass through the driver; of a stream tasks read them."""
PARTITIONS_MAX: Final = 1024
LAG_MAX: Final = 2**60
GROUP_BYTES_MAX: Final = 200

_CONNECTION: Final = (
    Option("url", "amqp:// or amqps://user:password@host:port/vhost", "amqp://localhost"),
    Option("username", "who connects; overrides the url's"),
    Option("password", "overrides the url's; better are passwordFile and passwordEnv"),
    Option("passwordFile", "a file whose first line is the password; on every executor"),
    Option("passwordEnv", "the environment variable that holds it; on every executor"),
    Option("tls.caFile", "PEM file of authorities to trust instead of the system's"),
    Option("tls.certFile", "PEM file with the client's certificate"),
    Option("tls.keyFile", "PEM file with its key"),
    Option("reconnectTimeout", "how long a query outlives its broker before it fails", "60s"),
)
SOURCE_OPTIONS: Final = (
    *_CONNECTION,
    Option("queue", "the queue or stream to read; this or queues has to be given"),
    Option("queues", "several of them, separated by commas; all of one mode"),
    Option("queuePattern", "instead: a regular expression for whole names; those there are when "
           "the query starts. Penstock only"),
    Option("mode", "queue (an ordinary queue, at least once), lease (the same of Penstock, exactly "
           "once), auto (one of these, by the broker) or stream (x-queue-type=stream)", "queue"),
    Option("group", "mode=lease, and streams that are to wait for the query: a name for it, which "
           "has to stay the same, and no other query may use; mode=lease makes one up and keeps it "
           "in the checkpoint"),
    Option("maxLagMessages", "streams, with group: publishers are held while the query is further "
           "behind"),
    Option("maxLagBytes", "streams, with group: the same in bytes"),
    Option("leaseTimeout", "mode=lease: how long the broker keeps messages for a query that gives "
           "no sign of life", "15m"),
    Option(
        "maxOffsetsPerTrigger", "rows of a batch at most", "10000; streams 100000",
        ("maxRecordsPerTrigger",),
    ),
    Option("minOffsetsPerTrigger", "rows that are worth a batch, unless maxTriggerDelay passes"),
    Option("maxTriggerDelay", "how long a row waits for minOffsetsPerTrigger", "15m"),
    Option("maxBytesPerTrigger", "bytes of a batch at most, but always one row"),
    Option("targetBatchDuration", "how long a batch is to take; its size is found between "
           "minOffsetsPerTrigger and maxOffsetsPerTrigger"),
    Option("minPartitions", "tasks a batch is divided into", "1; 200000 rows and more: by cores"),
    Option("prefetch", "unacknowledged messages at most", "twice maxOffsetsPerTrigger"),
    Option("maxBufferedBytes", "bytes the driver keeps before it stops consuming", "64m"),
    Option("includeProperties", "add the column properties", "false"),
    Option("includeHeaders", "add the column headers", "false"),
    Option("includeFlow", "streams: add the column enqueue_ts, when the broker took the row; null "
           "where chunks are not read (readMode)", "false"),
    Option("bodyColumn", "name of the column body, such as value", "body"),
    Option("columns", "only these of the columns, separated by commas; they keep their order",
           "all"),
    Option("startingOffsets", "streams: earliest, latest or a number, or JSON by queue; new "
           "queries only", "latest; batch reads: earliest"),
    Option("startingTimestamp", "streams: instead, with the first row that came at that time"),
    Option("startingOffsetsByTimestamp", "streams: the same as JSON by queue"),
    Option("endingOffsets", "batch reads of streams: latest or a number (exclusive), or JSON by "
           "queue", "latest"),
    Option("endingTimestamp", "batch reads: instead, before the first row that came at that time"),
    Option("endingOffsetsByTimestamp", "batch reads: the same as JSON by queue"),
    Option("filterPushdown", "batch reads: leave rows out early that a filter on offset, queue or "
           "timestamp leaves out; needs spark.sql.python.filterPushdown.enabled=true", "false"),
    Option("failOnDataLoss", "streams: fail when retention has taken rows not yet read", "true"),
    Option("readMode", "streams: chunk (whole chunks, of a Penstock broker), amqp (message by "
           "message) or auto, which is the first that the broker can", "auto"),
    Option("readTimeout", "streams: how long a task waits for the next row of its range", "30s"),
)  # fmt: skip
SINK_OPTIONS: Final = (
    *_CONNECTION,
    Option("exchange", "where rows without a column exchange go", "the default exchange"),
    Option("routingKey", "key of rows without a column routing_key"),
    Option("persistent", "delivery mode 2 for rows without a column delivery_mode", "true"),
    Option("mandatory", "fail a row that reaches no queue", "true"),
    *DELIVERY_OPTIONS,
    Option("maxInFlight", "unconfirmed publishes of a task at most", "1000"),
    Option("confirmTimeout", "how long a task waits for the next confirm; while the broker "
           "blocks the connection it does not run", "5m"),
    Option("onBlocked", "wait or fail while the broker blocks the connection", "wait"),
    Option("batchHeaders", "add x-spark-query-id, x-spark-batch-id, x-spark-partition and "
           "x-spark-row, for consumers that drop duplicates", "false"),
    Option("ignoreUnknownColumns", "leave out columns that mean nothing to AMQP", "false"),
    # Spark hands these to a sink among the options.
    Option("checkpointLocation", "Spark's own"),
    Option("queryName", "Spark's own"),
    Option("path", "Spark's own; not used"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A broker and the way to it. The password is in `url`, which keeps it out of repr."""

    url: BrokerUrl
    password_file: str = ""
    password_env: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    reconnect_timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read and how much of it at once. Rows are messages; 0 means no bound of that kind.

    max_rows: 1..; min_rows: 0..max_rows; max_bytes: 0..; prefetch: max_rows..65535 (queues);
    target_ms: 0.., how long a batch is to take. queues: in order, 1 or more; queue: the first;
    pattern: what they were found by, "" for none.
    columns: those kept, with `body` for the body whatever its name; none for all.
    partitions: 0 where it was not given; cores: what Spark has for the tasks of the query, 1...
    starts, ends: a place (see `places`) for each of `queues`; starting, ending: that of `queue`.
    """

    endpoint: Endpoint
    queue: str
    mode: str
    is_mode_given: bool
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
    group: str = ""
    max_lag_rows: int = 0
    max_lag_bytes: int = 0
    lease_timeout_ms: int = LEASE_TIMEOUT_MS.default
    columns: tuple[str, ...] = ()
    cores: int = 1


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where rows go and how they are settled. in_flight: messages, 1..65535."""

    endpoint: Endpoint
    exchange: str
    routing_key: str
    is_persistent: bool
    is_mandatory: bool
    in_flight: int
    confirm_timeout_ms: int
    can_wait_blocked: bool
    has_batch_headers: bool
    can_ignore_columns: bool
    delivery: DeliveryGuarantee


def parse_source(given: Mapping[str, str], found: tuple[str, ...] = ()) -> SourceOptions:
    """Options of `spark.read` and `spark.readStream`. found: the names that queuePattern matches;
    without them it stands for a queue itself, and places are not looked at.

    Raises: OperatorError naming the option, its value, and what it takes.
    """
    values = Values(given, SOURCE_OPTIONS, "reading from AMQP")
    pattern = values.text("queuePattern")
    queues = parse_queues(values, found)
    mode = values.choice("mode", ("queue", "lease", "auto", "stream"), "queue")
    _check_fits_mode(values, mode)
    highest, usual = {
        "queue": (CONNECTOR_PREFETCH.highest, QUEUE_ROWS_DEFAULT),
        "lease": (LEASE_MESSAGES.default, QUEUE_ROWS_DEFAULT),
        "auto": (CONNECTOR_PREFETCH.highest, QUEUE_ROWS_DEFAULT),
        "stream": (2**40, STREAM_ROWS_DEFAULT),
    }[mode]
    max_rows = values.number("maxOffsetsPerTrigger", 1, highest, usual)
    if max_rows < len(queues):
        raise OperatorError(
            f"option maxOffsetsPerTrigger is {max_rows}, less than the {len(queues)} queues, of "
            "which each needs a row at least"
        )
    min_rows = values.number("minOffsetsPerTrigger", 1, max_rows, 0)
    starts = ends = ("",) * len(queues)
    if found or not pattern:
        starts = parse_places(values, "starting", ("earliest", "latest"), queues)
        ends = parse_places(values, "ending", ("latest",), queues)
    return SourceOptions(
        endpoint=_endpoint(values),
        queue=queues[0],
        mode=mode,
        is_mode_given=values.has("mode"),
        max_rows=max_rows,
        min_rows=min_rows,
        max_delay_ms=values.time_ms("maxTriggerDelay", 0, TRIGGER_DELAY_MS_MAX, 900_000),
        max_bytes=values.size_bytes("maxBytesPerTrigger", 1, 0),
        partitions=values.number("minPartitions", 1, PARTITIONS_MAX, 0),
        prefetch=_prefetch(values, mode, max_rows),
        buffered_bytes=values.size_bytes(
            "maxBufferedBytes", CONNECTOR_BUFFERED_BYTES.lowest, CONNECTOR_BUFFERED_BYTES.default
        ),
        has_properties=values.flag("includeProperties", False),
        has_headers=values.flag("includeHeaders", False),
        has_flow=values.flag("includeFlow", False),
        body_column=values.text("bodyColumn", "body"),
        starting=starts[0],
        ending=ends[0],
        queues=queues,
        pattern=pattern,
        starts=starts,
        ends=ends,
        target_ms=values.time_ms("targetBatchDuration", 1, TRIGGER_DELAY_MS_MAX, 0),
        wants_pushdown=values.flag("filterPushdown", False),
        fails_on_data_loss=values.flag("failOnDataLoss", True),
        read_timeout_ms=values.time_ms("readTimeout", 100, 3_600_000, 30_000),
        read_mode=values.choice("readMode", ("auto", "chunk", "amqp"), "auto"),
        group=_group(values, mode),
        max_lag_rows=values.number("maxLagMessages", 1, LAG_MAX, 0),
        max_lag_bytes=values.size_bytes("maxLagBytes", 1, 0),
        lease_timeout_ms=values.time_ms(
            "leaseTimeout",
            LEASE_TIMEOUT_MS.lowest,
            LEASE_TIMEOUT_MS.highest,
            LEASE_TIMEOUT_MS.default,
        ),
        columns=parse_columns(values),
    )


def named(options: SourceOptions, queue: str) -> SourceOptions:
    """The options of a task that reads `queue`, which they may not name: patterns are matched in
    each process anew."""
    return replace(options, queue=queue)


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
    return SinkOptions(
        endpoint=_endpoint(values),
        exchange=values.text("exchange"),
        routing_key=values.text("routingKey"),
        is_persistent=values.flag("persistent", True),
        is_mandatory=values.flag("mandatory", True),
        in_flight=values.number(
            "maxInFlight", 1, CONNECTOR_IN_FLIGHT.highest, CONNECTOR_IN_FLIGHT.default
        ),
        confirm_timeout_ms=values.time_ms("confirmTimeout", 100, 3_600_000, 300_000),
        can_wait_blocked=values.choice("onBlocked", ("wait", "fail"), "wait") == "wait",
        has_batch_headers=values.flag("batchHeaders", False),
        can_ignore_columns=values.flag("ignoreUnknownColumns", False),
        delivery=parse_delivery(values),
    )


def _check_fits_mode(values: Values, mode: str) -> None:
    """An option of another mode would be ignored, and the user relied on it."""
    ranges = ("failOnDataLoss", "readTimeout")
    places = (
        "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "endingOffsets",
        "endingTimestamp", "endingOffsetsByTimestamp", "readMode", "filterPushdown",
        "includeFlow",
    )  # fmt: skip
    of_modes = {
        "queue": ("maxBufferedBytes", "prefetch"),
        "lease": (*ranges, "group", "leaseTimeout"),
        "auto": (*ranges, "maxBufferedBytes", "prefetch", "group", "leaseTimeout"),
        "stream": (*ranges, *places, "group", "maxLagMessages", "maxLagBytes"),
    }
    for other, names in of_modes.items():
        for name in names:
            # What auto knows is named by the mode that it comes from.
            if other != "auto" and values.has(name) and name not in of_modes[mode]:
                fitting = " or ".join(one for one in of_modes if name in of_modes[one])
                raise OperatorError(f"option {name} is for mode={fitting}, and this is mode={mode}")


def _group(values: Values, mode: str) -> str:
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
                f"query that stays the same, such as {_suggested(values)!r}"
            )
    return group


def _suggested(values: Values) -> str:
    queue = values.text("queue")
    return f"{queue}-query" if queue else "my-query"


def _prefetch(values: Values, mode: str, max_rows: int) -> int:
    if mode not in ("queue", "auto"):
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


def _endpoint(values: Values) -> Endpoint:
    secrets = [n for n in ("password", "passwordFile", "passwordEnv") if values.has(n)]
    if len(secrets) > 1:
        raise OperatorError(f"options {' and '.join(secrets)}: give one of them")
    if values.has("tls.keyFile") and not values.has("tls.certFile"):
        raise OperatorError("option tls.keyFile needs tls.certFile, the certificate it belongs to")
    url = parse_url(values.text("url", "amqp://localhost"))
    if any(name.startswith("tls.") for name in values.names()) and not url.tls:
        raise OperatorError("options tls.* need an amqps:// url; this one is amqp://")
    if values.has("username"):
        url = replace(url, user=values.text("username"))
    if values.has("password"):
        url = replace(url, password=values.text("password"))
    return Endpoint(
        url,
        values.text("passwordFile"),
        values.text("passwordEnv"),
        values.text("tls.caFile"),
        values.text("tls.certFile"),
        values.text("tls.keyFile"),
        values.time_ms("reconnectTimeout", 0, TRIGGER_DELAY_MS_MAX, 60_000),
    )
