"""Ranges of a stream as whole chunks, from a real broker: always the rows of the other path."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError
from penstock.client.io_blocking import Channel
from penstock.spark.connector.common.options import SourceOptions, parse_source
from penstock.spark.connector.common.shape import Shape
from penstock.spark.connector.stream import stream_read
from penstock.spark.connector.stream.stream_read import read_rows
from tests.conformance.live import Broker
from tests.patience import undisturbed
from tests.spark.test_connector_contract import cut
from tests.spark.through_amqp import queue_at

pytestmark = pytest.mark.slow
SHAPE = Shape("s", has_properties=True, has_headers=True)


@pytest.fixture
def stream(penstock_url: str) -> Iterator[tuple[Channel, SourceOptions]]:
    """A stream with 40 messages in many chunks."""
    with queue_at(penstock_url, {"x-queue-type": "stream"}) as (channel, name):
        fill(channel, name, 0, 40)
        options = parse_source({"url": penstock_url, "queue": name, "mode": "stream"})
        yield channel, replace(options, read_mode="chunk")


def fill(channel: Channel, name: str, first: int, stop: int) -> None:
    channel.confirm_select()
    for number in range(first, stop):
        channel.publish("", name, b"%d" % number)
        if number % 3 == 0:
            channel.wait_for_confirms()
    channel.wait_for_confirms()


def rows(options: SourceOptions, first: int, stop: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for batch in read_rows(options, first, stop, SHAPE):
        found += batch.to_pylist()
    return found


def test_any_range_is_the_same_by_both_paths(stream: tuple[Channel, SourceOptions]) -> None:
    _, options = stream
    plain = replace(options, read_mode="amqp")
    for first, stop in ((0, 40), (1, 2), (7, 33), (39, 40), (5, 5)):
        found = rows(options, first, stop)
        assert [row["body"] for row in found] == [b"%d" % n for n in range(first, stop)]
        assert found == rows(plain, first, stop)


def test_one_connection_serves_one_range_after_the_other(
    stream: tuple[Channel, SourceOptions],
) -> None:
    _, options = stream
    rows(options, 0, 10)
    (link,) = stream_read._kept.values()
    rows(options, 10, 20)
    assert list(stream_read._kept.values()) == [link]
    # The broker, or somebody between, ends it while nothing is read.
    cut(link._socket.fileno())
    assert len(rows(options, 20, 40)) == 20
    assert list(stream_read._kept.values()) != [link]


def test_a_reader_that_is_not_read_to_its_end_keeps_nothing(
    stream: tuple[Channel, SourceOptions],
) -> None:
    _, options = stream
    rows(options, 0, 10)
    reading = stream_read._pieces(options, 0, 40, stream_read._kept.popitem()[1])
    next(reading)
    reading.close()
    assert not stream_read._kept
    assert len(rows(options, 0, 40)) == 40


def test_a_connection_that_breaks_in_the_middle_loses_and_repeats_nothing(
    stream: tuple[Channel, SourceOptions],
) -> None:
    channel, options = stream
    rows(options, 0, 1)
    link = stream_read._kept.popitem()[1]
    reading = stream_read._pieces(options, 0, 60, link)
    pieces = [next(reading)]
    cut(link._socket.fileno())
    fill(channel, options.queue, 40, 60)
    pieces += reading
    offsets = [p.chunk.first + n for p in pieces for n in range(p.first, p.stop)]
    assert offsets == [*range(60)]


def test_rows_that_do_not_come_are_an_error_and_never_a_shorter_batch(
    stream: tuple[Channel, SourceOptions], penstock: Broker
) -> None:
    options = replace(stream[1], read_timeout_ms=500)

    def story() -> None:
        with pytest.raises(OperatorError, match=r"offset 40 of the range 30\.\.49 did not come"):
            rows(options, 30, 50)

    # Those that are there have to come in time.
    undisturbed(story, 0.2, penstock.pid)


def test_what_retention_has_taken_is_loss_with_numbers(penstock_url: str) -> None:
    arguments = {
        "x-queue-type": "stream",
        "x-max-length-bytes": 20_000,
        "x-stream-max-segment-size-bytes": 5_000,
    }
    with queue_at(penstock_url, arguments) as (channel, name):  # type: ignore[arg-type]  # a table
        channel.confirm_select()
        for _ in range(20):
            channel.publish("", name, bytes(4_000))
            channel.wait_for_confirms()
        answer = channel.request("stream.offsets", {"queue": name})
        first, stop = answer["first"], answer["next"]
        assert isinstance(first, int) and isinstance(stop, int) and first > 4
        options = parse_source({"url": penstock_url, "queue": name, "mode": "stream"})
        with pytest.raises(OperatorError, match=rf"offsets 2\.\.{first - 1} \({first - 2} rows\)"):
            rows(options, 2, stop)
        lax = replace(options, fails_on_data_loss=False)
        assert len(rows(lax, 2, stop)) == stop - first
        # A range that is gone as a whole is noticed at once.
        assert rows(lax, 0, 2) == []


def test_no_such_stream_and_no_stream_are_refused(penstock_url: str) -> None:
    options = parse_source({"url": penstock_url, "queue": "missing", "mode": "stream"})
    with pytest.raises(ChannelClosedError, match="no queue 'missing'"):
        rows(options, 0, 1)
    with queue_at(penstock_url) as (channel, name):
        channel.publish("", name, b"x")
        plain = replace(options, queue=name)
        with pytest.raises(ChannelClosedError, match="rabbit_classic_queue"):
            rows(plain, 0, 1)


def test_a_broker_without_chunks_is_read_message_by_message(rabbitmq_url: str) -> None:
    with queue_at(rabbitmq_url, {"x-queue-type": "stream"}) as (channel, name):
        fill(channel, name, 0, 5)
        options = parse_source({"url": rabbitmq_url, "queue": name, "mode": "stream"})
        assert [row["body"] for row in rows(options, 1, 4)] == [b"1", b"2", b"3"]
        with pytest.raises(OperatorError, match="does not hand out chunks"):
            rows(replace(options, read_mode="chunk"), 1, 4)
