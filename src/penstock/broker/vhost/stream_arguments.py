"""What stream queues and their consumers may be asked for, in RabbitMQ's words.

Codes and texts are those of RabbitMQ 3.10, asked by experiment (rabbit_stream_queue). Where it
answers 541 INTERNAL_ERROR to an argument it cannot read, the text of its neighbours is given.
"""

from collections.abc import Mapping
from typing import Final

from penstock.base.errors import ChannelFault, ConnectionFault
from penstock.base.limits import STREAM_MEMORY_BYTES, STREAM_SEGMENT_BYTES
from penstock.broker.vhost.equivalence import type_name
from penstock.protocol import methods as m
from penstock.protocol.integers import Timestamp
from penstock.streams.filtering import FILTER_BYTES, StreamFilter
from penstock.streams.log import NO_BOUND, Retention
from penstock.streams.reader_groups import LagBound

QUEUE_DECLARE: Final = (50, 10)
BASIC_CONSUME: Final = (60, 20)
"""Class and method of AMQP, for the faults of both."""

STREAM: Final = "stream"
OFFSET_KEY: Final = "x-stream-offset"
GROUP_KEY: Final = "x-stream-group"
QUERY_KEY: Final = "x-stream-query"
"""Of a consumer that reads for a reader group: its name, and what people know its readers by."""
QUERY_CHARACTERS_MAX: Final = 200
LAG_MESSAGES_KEY: Final = "x-max-lag-messages"
LAG_BYTES_KEY: Final = "x-max-lag-bytes"
UNTIL_KEY: Final = "x-stream-until"
FORMAT_KEY: Final = "x-penstock-format"
CHUNK_FORMAT: Final = "chunk"
AGE_KEY: Final = "x-max-age"
BYTES_KEY: Final = "x-max-length-bytes"
SEGMENT_KEY: Final = "x-stream-max-segment-size-bytes"
FILTER_KEY: Final = "x-stream-filter"
UNFILTERED_KEY: Final = "x-stream-match-unfiltered"
FILTER_SIZE_KEY: Final = "x-stream-filter-size-bytes"
FILTER_BYTES_MAX: Final = 255
"""RabbitMQ's bounds: 16 to 255."""

NOT_OF_STREAMS: Final = (
    "x-expires",
    "x-message-ttl",
    "x-max-length",
    "x-max-priority",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-delivery-limit",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-quorum-initial-group-size",
    "x-single-active-consumer",
)
NOT_OF_CONSUMERS: Final = ("x-priority",)

SECONDS: Final = {
    "Y": 31_536_000,
    "M": 2_592_000,
    "D": 86_400,
    "h": 3600,
    "m": 60,
    "s": 1,
}
US_PER_S: Final = 1_000_000
MEMORY_SEGMENTS: Final = 8
US_MAX: Final = 1 << 62
"""Longer than anybody lives; compiled code counts in 64 bits."""

FIRST: Final = 0
LAST: Final = 1
NEXT: Final = 2
AT_OFFSET: Final = 3
AT_TIME: Final = 4
AGO: Final = 5


class Start:
    """Where a consumer begins. kind: FIRST ..; value: an offset, or us since the epoch, or ago."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: int, value: int = 0) -> None:
        self.kind = kind
        self.value = value


def duration_us(text: object) -> int:
    """us of `7D`; Y, M, D, h, m, s count. 0 for what is no such duration."""
    if not isinstance(text, str) or len(text) < 2 or text[-1] not in SECONDS:
        return 0
    number = text[:-1]
    if not (number.isascii() and number.isdecimal() and len(number) < 10):
        return 0
    return min(US_MAX, int(number) * SECONDS[text[-1]] * US_PER_S)


def check_stream(name: str, vhost: str, table: Mapping[str, object]) -> None:
    """Raise ChannelFault 406 for a name or an argument that a stream does not have; the arguments
    that other queues have too were looked at before."""
    if AGE_KEY in table:
        age = table[AGE_KEY]
        if not isinstance(age, str):
            raise invalid(AGE_KEY, name, vhost, f"{{unacceptable_type,{type_name(age)}}}")
        if duration_us(age) == 0:
            raise invalid(AGE_KEY, name, vhost, "invalid_max_age")
    if SEGMENT_KEY in table:
        size = _integer(SEGMENT_KEY, name, vhost, table[SEGMENT_KEY])
        if size < 0:
            raise invalid(SEGMENT_KEY, name, vhost, f"{{value_negative,{size}}}")
        if size > STREAM_SEGMENT_BYTES.highest:
            raise ChannelFault(406, f"Exceeded max value for {SEGMENT_KEY}", 50, 10)
    size = _integer(FILTER_SIZE_KEY, name, vhost, table.get(FILTER_SIZE_KEY, FILTER_BYTES))
    if not FILTER_BYTES <= size <= FILTER_BYTES_MAX:
        fault = f"expected a number from {FILTER_BYTES} to {FILTER_BYTES_MAX}"
        raise invalid(FILTER_SIZE_KEY, name, vhost, fault)
    for key in (LAG_MESSAGES_KEY, LAG_BYTES_KEY):
        lag = table.get(key, 1)
        if isinstance(lag, bool) or not isinstance(lag, int) or not 0 < lag <= US_MAX:
            raise invalid(key, name, vhost, "expected a number of 1 or more")
    if name == "":
        raise ChannelFault(
            406, "Cannot declare a server-named queue for type rabbit_stream_queue", 50, 10
        )
    for key in NOT_OF_STREAMS:
        if key in table:
            raise foreign(key, name, vhost, STREAM)


def check_stream_consumer(name: str, vhost: str, q: m.BasicConsume, prefetch: int) -> None:
    """Raise ChannelFault 406 or ConnectionFault 540 for a consumer that a stream cannot have.
    prefetch: of the channel, for consumers."""
    for key in NOT_OF_CONSUMERS:
        if key in q.arguments:
            raise foreign(key, name, vhost, STREAM, BASIC_CONSUME)
    if q.no_ack:
        raise not_supported("automatic acknowledgement", name, vhost, 60, 20)
    if prefetch == 0:
        raise ChannelFault(
            406,
            f"consumer prefetch count is not set for 'queue '{name}' in vhost '{vhost}''",
            60,
            20,
        )
    start_of(name, vhost, q.arguments)
    until_of(name, vhost, q.arguments)
    filter_of(name, vhost, q.arguments)


def start_of(name: str, vhost: str, table: Mapping[str, object]) -> Start:
    """Where a consumer with these arguments begins: the next message, unless it says otherwise.

    Raises: ChannelFault 406."""
    value = table.get(OFFSET_KEY, "next")
    if value == "first":
        return Start(FIRST)
    if value == "last":
        return Start(LAST)
    if value == "next":
        return Start(NEXT)
    if isinstance(value, Timestamp):
        return Start(AT_TIME, min(US_MAX, int(value) * US_PER_S))
    if isinstance(value, int) and not isinstance(value, bool):
        # RabbitMQ 3.10.8 begins at the first message for negative numbers, and so does this.
        return Start(AT_OFFSET, max(0, value))
    ago = duration_us(value)
    if ago > 0:
        return Start(AGO, ago)
    shown = f'{{{type_name(value)},<<"{value}">>}}'
    raise _unreadable(OFFSET_KEY, name, vhost, f"{{invalid_stream_offset_arg,{shown}}}")


def wants_chunks(table: Mapping[str, object]) -> bool:
    """Whether a consumer with these arguments takes whole chunks."""
    return table.get(FORMAT_KEY) == CHUNK_FORMAT


def until_of(name: str, vhost: str, table: Mapping[str, object]) -> int:
    """The offset behind the last that a consumer of chunks wants, -1 for no end.

    Raises: ChannelFault 406, also for a format there is not."""
    if FORMAT_KEY in table and not wants_chunks(table):
        raise _unreadable(FORMAT_KEY, name, vhost, f"it takes '{CHUNK_FORMAT}'")
    until = table.get(UNTIL_KEY, -1)
    if UNTIL_KEY in table:
        if not wants_chunks(table):
            raise _unreadable(UNTIL_KEY, name, vhost, f"it needs {FORMAT_KEY}={CHUNK_FORMAT}")
        if isinstance(until, bool) or not isinstance(until, int) or until < 0:
            raise _unreadable(UNTIL_KEY, name, vhost, "it takes an offset of 0 or more")
    assert isinstance(until, int), "it was just looked at"
    return until


def filter_of(name: str, vhost: str, table: Mapping[str, object]) -> StreamFilter | None:
    """What a consumer with these arguments wants; None for everything.

    Raises: ChannelFault 406."""
    wants_unfiltered = table.get(UNFILTERED_KEY, False)
    if not isinstance(wants_unfiltered, bool):
        raise _unreadable(UNFILTERED_KEY, name, vhost, "it takes true or false")
    if FILTER_KEY not in table:
        return None
    if wants_chunks(table):
        raise _unreadable(FILTER_KEY, name, vhost, f"{FORMAT_KEY}={CHUNK_FORMAT} takes all of them")
    said = table[FILTER_KEY]
    texts = [value for value in (said if isinstance(said, list) else [said]) if value != ""]
    values = [value.encode() for value in texts if isinstance(value, str)]
    if not values or len(values) < len(texts):
        raise _unreadable(FILTER_KEY, name, vhost, "it takes a text, or a list of texts")
    return StreamFilter(values, wants_unfiltered)


def filter_bytes_of(arguments: Mapping[str, object]) -> int:
    """Bytes of the filter of a chunk."""
    size = arguments.get(FILTER_SIZE_KEY, FILTER_BYTES)
    return size if isinstance(size, int) else FILTER_BYTES


def _unreadable(key: str, name: str, vhost: str, what: str) -> ChannelFault:
    return invalid(key, name, vhost, what, BASIC_CONSUME)


def retention_of(
    arguments: Mapping[str, object], definition: Mapping[str, object], is_in_memory: bool
) -> Retention:
    """What a stream keeps: of its arguments and the policies that apply, the stricter one. One in
    memory has a bound in any case.

    definition: merged, of the policies, keys without `x-`."""
    segment = _number(
        arguments.get(SEGMENT_KEY, definition.get(SEGMENT_KEY[2:])), STREAM_SEGMENT_BYTES.default
    )
    sizes = [table.get(key) for table, key in ((arguments, BYTES_KEY), (definition, BYTES_KEY[2:]))]
    if is_in_memory:
        sizes.append(STREAM_MEMORY_BYTES.default)
        segment = min(segment, STREAM_MEMORY_BYTES.default // MEMORY_SEGMENTS)
    ages = (duration_us(arguments.get(AGE_KEY)), duration_us(definition.get(AGE_KEY[2:])))
    return Retention(
        segment,
        min((size for size in sizes if isinstance(size, int)), default=NO_BOUND),
        min((age for age in ages if age > 0), default=NO_BOUND),
    )


def lag_bound_of(arguments: Mapping[str, object], definition: Mapping[str, object]) -> LagBound:
    """How far behind the groups of a stream may be, by its arguments and the policies that apply,
    the stricter one; 0 for no bound. definition: as for `retention_of`."""
    bounds = []
    for key in (LAG_MESSAGES_KEY, LAG_BYTES_KEY):
        said = (arguments.get(key), definition.get(key[2:]))
        bounds.append(min((bound for bound in said if isinstance(bound, int)), default=0))
    return LagBound(bounds[0], bounds[1])


def not_supported(
    what: str, name: str, vhost: str, class_id: int, method_id: int
) -> ConnectionFault:
    """A verb that makes no sense for streams: 540, which ends the connection."""
    return ConnectionFault(
        540,
        f"{what} not supported by stream queues queue '{name}' in vhost '{vhost}'",
        class_id,
        method_id,
    )


def _integer(key: str, name: str, vhost: str, value: object) -> int:
    if isinstance(value, bool | Timestamp) or not isinstance(value, int):
        raise invalid(key, name, vhost, f'"expected integer, got {type_name(value)}"')
    return value


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def invalid(
    key: str, name: str, vhost: str, fault: str, method: tuple[int, int] = QUEUE_DECLARE
) -> ChannelFault:
    """The argument `key` makes no sense. method: class and number of what has it."""
    text = f"invalid arg '{key}' for queue '{name}' in vhost '{vhost}': {fault}"
    return ChannelFault(406, text, *method)


def foreign(
    key: str, name: str, vhost: str, kind: str, method: tuple[int, int] = QUEUE_DECLARE
) -> ChannelFault:
    """The argument `key` is none of queues of this kind: classic, quorum or stream."""
    text = f"invalid arg '{key}' for queue '{name}' in vhost '{vhost}' of queue type "
    return ChannelFault(406, f"{text}rabbit_{kind}_queue", *method)
