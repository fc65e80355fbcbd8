"""What streams and their consumers may be asked for; the texts were given by RabbitMQ 3.10."""

import pytest

from penstock.base.errors import ChannelFault, ConnectionFault
from penstock.base.limits import STREAM_MEMORY_BYTES, STREAM_SEGMENT_BYTES
from penstock.broker.vhost.queue_arguments import (
    check_properties,
    check_queue,
    check_type,
    type_in_words,
)
from penstock.broker.vhost.stream_arguments import (
    AGO,
    AT_OFFSET,
    AT_TIME,
    FIRST,
    LAST,
    NEXT,
    US_MAX,
    check_stream_consumer,
    duration_us,
    filter_of,
    retention_of,
    start_of,
)
from penstock.protocol import methods as m
from penstock.protocol.integers import Timestamp
from penstock.protocol.values import Table, Value
from penstock.streams.log import NO_BOUND

STREAM: Table = {"x-queue-type": "stream"}
PLACE = "for queue 's' in vhost '/'"


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("x-max-age", "7D", ""),
        ("x-max-age", "5x", ": invalid_max_age"),
        ("x-max-age", "0s", ": invalid_max_age"),
        ("x-max-age", 100_000, ": {unacceptable_type,signedint}"),
        ("x-max-length-bytes", 0, ""),
        ("x-max-length-bytes", -1, ": {value_negative,-1}"),
        ("x-stream-max-segment-size-bytes", 3_000_000_000, ""),
        ("x-stream-max-segment-size-bytes", -1, ": {value_negative,-1}"),
        ("x-stream-max-segment-size-bytes", "a", ': "expected integer, got longstr"'),
        ("x-stream-filter-size-bytes", 255, ""),
        ("x-stream-filter-size-bytes", 15, ": expected a number from 16 to 255"),
        ("x-stream-filter-size-bytes", "a", ': "expected integer, got longstr"'),
        ("x-queue-leader-locator", "client-local", ""),
        ("x-unknown", 3, ""),
        ("x-expires", 1000, " of queue type rabbit_stream_queue"),
        ("x-message-ttl", 1, " of queue type rabbit_stream_queue"),
        ("x-max-length", 3, " of queue type rabbit_stream_queue"),
        ("x-dead-letter-exchange", "a", " of queue type rabbit_stream_queue"),
        ("x-overflow", "reject-publish", " of queue type rabbit_stream_queue"),
        ("x-single-active-consumer", True, " of queue type rabbit_stream_queue"),
        ("x-delivery-limit", 3, " of queue type rabbit_stream_queue"),
    ],
)
def test_arguments_of_streams(key: str, value: Value, fault: str) -> None:
    table: Table = {**STREAM, key: value}
    if fault == "":
        check_queue("s", "/", table)
        check_type("s", "/", table)
        return
    with pytest.raises(ChannelFault) as raised:
        check_queue("s", "/", table)
        check_type("s", "/", table)
    assert (raised.value.code, raised.value.text) == (406, f"invalid arg '{key}' {PLACE}{fault}")


def test_a_segment_has_a_highest_size() -> None:
    table: Table = {**STREAM, "x-stream-max-segment-size-bytes": 4_000_000_000}
    with pytest.raises(ChannelFault, match="Exceeded max value for x-stream-max-segment-size"):
        check_type("s", "/", table)


def test_arguments_of_streams_are_no_other_queues() -> None:
    with pytest.raises(ChannelFault, match="of queue type rabbit_classic_queue"):
        check_queue("s", "/", {"x-max-age": "1h"})


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        ((False, False, False), "non-durable"),
        ((True, False, True), "exclusive-owner"),
        ((True, True, False), "auto-delete"),
    ],
)
def test_what_a_stream_cannot_be(properties: tuple[bool, bool, bool], word: str) -> None:
    with pytest.raises(ChannelFault) as raised:
        check_properties("s", "/", *properties, STREAM)
    assert raised.value.text == f"invalid property '{word}' {PLACE}"
    check_properties("s", "/", True, False, False, STREAM)
    assert type_in_words(STREAM) == "stream"


def test_the_client_names_it() -> None:
    with pytest.raises(ChannelFault, match="server-named queue for type rabbit_stream_queue"):
        check_type("", "/", STREAM)


@pytest.mark.parametrize(
    ("value", "kind", "number"),
    [
        ("first", FIRST, 0),
        ("last", LAST, 0),
        ("next", NEXT, 0),
        (17, AT_OFFSET, 17),
        (-1, AT_OFFSET, 0),
        (Timestamp(1_700_000_000), AT_TIME, 1_700_000_000_000_000),
        ("1h", AGO, 3_600_000_000),
        (None, NEXT, 0),
    ],
)
def test_where_a_consumer_begins(value: Value, kind: int, number: int) -> None:
    table: Table = {} if value is None else {"x-stream-offset": value}
    start = start_of("s", "/", table)
    assert (start.kind, start.value) == (kind, number)


def test_what_a_consumer_wants() -> None:
    assert filter_of("s", "/", {}) is None
    assert filter_of("s", "/", {"x-stream-match-unfiltered": True}) is None
    one = filter_of("s", "/", {"x-stream-filter": "a"})
    assert one is not None and (one.values, one.wants_unfiltered) == ([b"a"], False)
    table: Table = {"x-stream-filter": ["a", "ö"], "x-stream-match-unfiltered": True}
    two = filter_of("s", "/", table)
    assert two is not None and two.values == [b"a", "ö".encode()] and two.wants_unfiltered


@pytest.mark.parametrize("value", [5, True, "", [], ["a", 5], ["a", None], {"a": "b"}])
def test_what_no_consumer_can_want(value: Value) -> None:
    with pytest.raises(ChannelFault, match="it takes a text, or a list of texts"):
        filter_of("s", "/", {"x-stream-filter": value})
    with pytest.raises(ChannelFault, match="it takes true or false"):
        filter_of("s", "/", {"x-stream-match-unfiltered": "yes"})


@pytest.mark.parametrize("value", ["1x", "foo", "", True, {"a": 1}, "1.5h"])
def test_where_no_consumer_begins(value: Value) -> None:
    with pytest.raises(ChannelFault, match="invalid_stream_offset_arg") as raised:
        start_of("s", "/", {"x-stream-offset": value})
    assert raised.value.code == 406
    with pytest.raises(ChannelFault) as raised:
        start_of("s", "/", {"x-stream-offset": "1x"})
    assert raised.value.text == (
        f"invalid arg 'x-stream-offset' {PLACE}: "
        '{invalid_stream_offset_arg,{longstr,<<"1x">>}}'
    )


@pytest.mark.parametrize(
    ("q", "prefetch", "fault"),
    [
        (
            m.BasicConsume("s", no_ack=True),
            1,
            ConnectionFault(540, "automatic acknowledgement not supported by stream queues "
                                 "queue 's' in vhost '/'"),
        ),
        (
            m.BasicConsume("s"),
            0,
            ChannelFault(406, "consumer prefetch count is not set for 'queue 's' in vhost '/''"),
        ),
        (
            m.BasicConsume("s", arguments={"x-priority": 1}),
            1,
            ChannelFault(406, f"invalid arg 'x-priority' {PLACE} of queue type "
                              "rabbit_stream_queue"),
        ),
    ],
)  # fmt: skip
def test_what_no_consumer_of_a_stream_may_ask(
    q: m.BasicConsume, prefetch: int, fault: ChannelFault | ConnectionFault
) -> None:
    with pytest.raises(type(fault)) as raised:
        check_stream_consumer("s", "/", q, prefetch)
    assert (raised.value.code, raised.value.text) == (fault.code, fault.text)


def test_durations() -> None:
    assert [duration_us(f"2{unit}") // 1_000_000 for unit in "smhDMY"] == [
        2,
        120,
        7200,
        172_800,
        5_184_000,
        63_072_000,
    ]
    assert duration_us("999999999Y") == US_MAX, "compiled code counts in 64 bits"
    assert [duration_us(text) for text in ("", "s", "-1s", "1", "99999999999s", 5)] == [0] * 6


def test_what_a_stream_keeps() -> None:
    plain = retention_of({}, {}, False)
    assert (plain.segment_bytes, plain.max_bytes, plain.max_age_us) == (
        STREAM_SEGMENT_BYTES.default,
        NO_BOUND,
        NO_BOUND,
    )
    said = retention_of(
        {
            "x-max-length-bytes": 5000,
            "x-max-age": "1m",
            "x-stream-max-segment-size-bytes": 1000,
        },
        {"max-length-bytes": 6000, "max-age": "2m", "stream-max-segment-size-bytes": 2000},
        False,
    )
    assert (said.segment_bytes, said.max_bytes, said.max_age_us) == (1000, 5000, 60_000_000)
    memory = retention_of({}, {}, True)
    assert memory.max_bytes == STREAM_MEMORY_BYTES.default
    assert memory.segment_bytes == STREAM_MEMORY_BYTES.default // 8
    policy = retention_of(
        {"x-max-age": "1h"},
        {"max-length-bytes": 6000, "max-age": "2m", "stream-max-segment-size-bytes": 2000},
        False,
    )
    assert (policy.segment_bytes, policy.max_bytes, policy.max_age_us) == (2000, 6000, 120_000_000)
    assert retention_of({"x-max-length-bytes": 1 << 40}, {}, True).max_bytes == memory.max_bytes
    assert retention_of({}, {"max-age": "5x"}, False).max_age_us == NO_BOUND
