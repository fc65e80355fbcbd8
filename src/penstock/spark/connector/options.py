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
)
from penstock.client.url import BrokerUrl, parse_url
from penstock.spark.connector.option_values import TRIGGER_DELAY_MS_MAX, Option, Values

QUEUE_ROWS_DEFAULT: Final = CONNECTOR_PREFETCH.default // 2
STREAM_ROWS_DEFAULT: Final = 100_000
"""Rows of a batch at most. Of a queue they pass through the driver; of a stream tasks read them."""
PARTITIONS_MAX: Final = 1024

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
    Option("queue", "the queue or stream to read; has to be given"),
    Option("mode", "queue (an ordinary queue) or stream (x-queue-type=stream)", "queue"),
    Option(
        "maxOffsetsPerTrigger", "rows of a batch at most", "10000; streams 100000",
        ("maxRecordsPerTrigger",),
    ),
    Option("minOffsetsPerTrigger", "rows that are worth a batch, unless maxTriggerDelay passes"),
    Option("maxTriggerDelay", "how long a row waits for minOffsetsPerTrigger", "15m"),
    Option("maxBytesPerTrigger", "bytes of a batch at most, but always one row"),
    Option("minPartitions", "tasks a batch is divided into", "1"),
    Option("prefetch", "unacknowledged messages at most", "twice maxOffsetsPerTrigger"),
    Option("maxBufferedBytes", "bytes the driver keeps before it stops consuming", "64m"),
    Option("includeProperties", "add the column properties", "false"),
    Option("includeHeaders", "add the column headers", "false"),
    Option("bodyColumn", "name of the column body, such as value", "body"),
    Option("startingOffsets", "streams: earliest, latest or a number; new queries only", "latest; "
           "batch reads: earliest"),
    Option("endingOffsets", "batch reads of streams: latest or a number (exclusive)", "latest"),
    Option("failOnDataLoss", "streams: fail when retention has taken rows not yet read", "true"),
    Option("readTimeout", "streams: how long a task waits for the next row of its range", "30s"),
)  # fmt: skip
SINK_OPTIONS: Final = (
    *_CONNECTION,
    Option("exchange", "where rows without a column exchange go", "the default exchange"),
    Option("routingKey", "key of rows without a column routing_key"),
    Option("persistent", "delivery mode 2 for rows without a column delivery_mode", "true"),
    Option("mandatory", "fail a row that reaches no queue", "true"),
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

    max_rows: 1..; min_rows: 0..max_rows; max_bytes: 0..; prefetch: max_rows..65535 (queues).
    starting, ending: "earliest", "latest" or a number as text, "" where nothing was said.
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
    body_column: str
    starting: str
    ending: str
    fails_on_data_loss: bool
    read_timeout_ms: int


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


def parse_source(given: Mapping[str, str]) -> SourceOptions:
    """Options of `spark.read` and `spark.readStream`.

    Raises: OperatorError naming the option, its value, and what it takes.
    """
    values = Values(given, SOURCE_OPTIONS, "reading from AMQP")
    queue = values.text("queue")
    if not queue:
        raise OperatorError("option queue is missing: the name of the queue or stream to read")
    if len(queue.encode()) > 255:
        raise OperatorError("option queue is longer than the 255 bytes a name may have")
    mode = values.choice("mode", ("queue", "stream"), "queue")
    _check_fits_mode(values, mode)
    highest, usual = (
        (CONNECTOR_PREFETCH.highest, QUEUE_ROWS_DEFAULT)
        if mode == "queue"
        else (2**40, STREAM_ROWS_DEFAULT)
    )
    max_rows = values.number("maxOffsetsPerTrigger", 1, highest, usual)
    min_rows = values.number("minOffsetsPerTrigger", 1, max_rows, 0)
    return SourceOptions(
        endpoint=_endpoint(values),
        queue=queue,
        mode=mode,
        is_mode_given=values.has("mode"),
        max_rows=max_rows,
        min_rows=min_rows,
        max_delay_ms=values.time_ms("maxTriggerDelay", 0, TRIGGER_DELAY_MS_MAX, 900_000),
        max_bytes=values.size_bytes("maxBytesPerTrigger", 1, 0),
        partitions=values.number("minPartitions", 1, PARTITIONS_MAX, 1),
        prefetch=_prefetch(values, mode, max_rows),
        buffered_bytes=values.size_bytes(
            "maxBufferedBytes", CONNECTOR_BUFFERED_BYTES.lowest, CONNECTOR_BUFFERED_BYTES.default
        ),
        has_properties=values.flag("includeProperties", False),
        has_headers=values.flag("includeHeaders", False),
        body_column=values.text("bodyColumn", "body"),
        starting=_offset_option(values, "startingOffsets", ("earliest", "latest")),
        ending=_offset_option(values, "endingOffsets", ("latest",)),
        fails_on_data_loss=values.flag("failOnDataLoss", True),
        read_timeout_ms=values.time_ms("readTimeout", 100, 3_600_000, 30_000),
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
    )


def _check_fits_mode(values: Values, mode: str) -> None:
    """An option of the other mode would be ignored, and somebody relied on it."""
    only_stream = ("startingOffsets", "endingOffsets", "failOnDataLoss", "readTimeout")
    wrong = only_stream if mode == "queue" else ("maxBufferedBytes", "prefetch")
    for name in wrong:
        if values.has(name):
            other = "stream" if mode == "queue" else "queue"
            raise OperatorError(f"option {name} is for mode={other}, and this is mode={mode}")


def _prefetch(values: Values, mode: str, max_rows: int) -> int:
    if mode == "stream":
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


def _offset_option(values: Values, name: str, words: tuple[str, ...]) -> str:
    text = values.text(name).strip().lower()
    if text and text not in words and not (text.isascii() and text.isdigit() and len(text) < 19):
        raise OperatorError(
            f"option {name} is {text!r}; it takes {', '.join(words)} or an offset 0..10^18"
        )
    return text


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
