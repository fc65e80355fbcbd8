"""Several queues or streams in one query, times and filters: readers against real brokers, no JVM.

What `test_connector_contract` shows of one queue holds for each of several.
"""

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan

from penstock.base.errors import OperatorError
from penstock.client.io_blocking import Channel
from penstock.protocol.properties import Properties
from penstock.spark.connector.source import AmqpDataSource
from tests.conformance.live import Broker
from tests.patience import undisturbed, until
from tests.spark.engine import SCHEMA, STEPS, Died, Engine, live, sunk
from tests.spark.hanging import late_broker
from tests.spark.marks import READERS
from tests.spark.through_amqp import publish, queue_at

pytestmark = READERS

STREAM = {"x-queue-type": "stream"}


@contextlib.contextmanager
def queues_at(
    url: str, count: int, arguments: dict[str, str] | None = None
) -> Iterator[tuple[Channel, list[str]]]:
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(queue_at(url, arguments)) for _ in range(count)]
        yield made[0][0], [name for _, name in made]


def received(engine: Engine, number: int) -> int:
    """How many messages of that queue have come."""
    feed = engine.reader._planners[number]._feed
    with feed.lock:
        count: int = feed.ledger.received
        return count


@pytest.mark.parametrize("step", STEPS)
def test_every_crash_point_of_several_queues(penstock_url: str, tmp_path: Path, step: str) -> None:
    """One has much, one little, one nothing; nothing is lost, and with no batch that was not
    committed nothing comes twice."""
    with queues_at(penstock_url, 3) as (channel, names):
        given = {
            "url": penstock_url, "queues": ",".join(names), "mode": "queue",
            "maxOffsetsPerTrigger": "6", "prefetch": "12",
        }  # fmt: skip
        publish(channel, names[0], 0, 20)
        publish(channel, names[1], 100, 2)
        engine = Engine(tmp_path, given)
        # Consumers begin with the first trigger, which has what came until then.
        engine.step()
        until(lambda: received(engine, 1) == 2, "both have come")
        if engine.end["queues"][names[1]] == 0:
            engine.step()
        assert engine.end["queues"][names[1]] > 0, "the one with little waits for nobody"
        engine.dies_after = step
        with contextlib.suppress(Died):
            engine.drain()
        engine.stop()
        publish(channel, names[2], 200, 3)
        expected = {*range(20), 100, 101, 200, 201, 202}
        live(tmp_path, given, len(expected), 0.8)
        counts = Counter(sunk(tmp_path))
        assert set(counts) == {str(number) for number in expected}, "lost"
        assert sum(counts.values()) - len(expected) <= 6, "more than a batch came twice"
        for name in names:
            assert channel.declare_queue(name, passive=True).message_count == 0


def test_available_now_ends_with_what_was_in_each(broker_url: str, tmp_path: Path) -> None:
    with queues_at(broker_url, 3) as (channel, names):
        publish(channel, names[0], 0, 11)
        publish(channel, names[1], 100, 2)
        engine = Engine(
            tmp_path,
            {"url": broker_url, "queues": ",".join(names), "maxOffsetsPerTrigger": "4"},
        )
        engine.reader.prepareForTriggerAvailableNow()
        publish(channel, names[1], 102, 3)
        batches = 0
        while engine.step():
            batches += 1
        assert batches >= 4, "13 rows, 4 at a time"
        assert sorted(map(int, sunk(tmp_path))) == [*range(11), 100, 101]

        def left() -> list[int]:
            return [channel.declare_queue(name, passive=True).message_count for name in names]

        until(lambda: left() == [0, 3, 0], "what came later is given back")
        engine.stop()


def test_several_streams_exactly_once_from_places_of_their_own(
    broker_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with queues_at(broker_url, 2, STREAM) as (channel, names):
        publish(channel, names[0], 0, 30)
        publish(channel, names[1], 100, 10)
        given = {
            "url": broker_url, "queues": ",".join(names), "mode": "stream",
            "startingOffsets": f'{{"{names[0]}": 10, "{names[1]}": "earliest"}}',
            "maxOffsetsPerTrigger": "9", "minPartitions": "3",
        }  # fmt: skip
        engine = Engine(tmp_path, given)
        assert engine.end["streams"] == {names[0]: 10, names[1]: 0}
        engine.step()
        # RabbitMQ does not say where a stream ends, and may show a part of it at first.
        if "penstock" in request.node.name:
            assert engine.end["streams"] == {names[0]: 16, names[1]: 3}, "20 to 10, of 9 rows"
        engine.dies_after = "sink"
        with pytest.raises(Died):
            engine.drain(rows=30)
        engine.stop()
        live(tmp_path, given, 30, 0.8)
        rows = sorted(map(int, sunk(tmp_path)))
        assert rows == [*range(10, 30), *range(100, 110)]


def test_a_pattern_finds_queues_and_new_ones_at_the_next_start(
    penstock_url: str, tmp_path: Path
) -> None:
    with queues_at(penstock_url, 3, STREAM) as (channel, names):
        root = names[0].rsplit(".", 1)[0].replace(".", r"\.")
        pattern = rf"{root}\.({'|'.join(name.rsplit('.', 1)[1] for name in names)}|extra)"
        given = {
            "url": penstock_url, "queuePattern": pattern, "mode": "stream",
            "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4",
        }  # fmt: skip
        for number, name in enumerate(names):
            publish(channel, name, 100 * number, 3)
        engine = live(tmp_path, given, 9)
        assert engine.end["streams"] == dict.fromkeys(names, 3)
        extra = names[0].rsplit(".", 1)[0] + ".extra"
        channel.declare_queue(extra, durable=True, arguments=dict(STREAM))
        publish(channel, extra, 900, 5)
        publish(channel, names[1], 103, 1)
        # What is new is read whole, whatever startingOffsets said for the first start.
        expected = [0, 1, 2, 100, 101, 102, 103, 200, 201, 202, *range(900, 905)]
        live(tmp_path, {**given, "startingOffsets": "latest"}, len(expected), 0.8)
        channel.delete_queue(extra)
        assert sorted(map(int, sunk(tmp_path))) == expected
        engine = live(tmp_path, given)
        assert engine.end["streams"] == {names[0]: 3, names[1]: 4, names[2]: 3}
        assert len(sunk(tmp_path)) == len(expected), "what is gone is forgotten"


def test_a_pattern_that_finds_nothing_and_a_broker_that_lists_nothing(
    penstock_url: str, rabbitmq_url: str
) -> None:
    with pytest.raises(OperatorError, match="no queue or stream of that name is there"):
        AmqpDataSource({"url": penstock_url, "queuePattern": "no-such-.*"}).streamReader(
            SCHEMA
        ).initialOffset()
    with pytest.raises(OperatorError, match="does not list its queues"):
        AmqpDataSource({"url": rabbitmq_url, "queuePattern": "a.*"}).streamReader(
            SCHEMA
        ).initialOffset()


def rows_of(reader: Any) -> list[tuple[str, int, str]]:
    """Queue, offset and body of every row of a batch read."""
    return [
        (row["queue"], row["offset"], row["body"].decode())
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def batch_reader(given: dict[str, str]) -> Any:
    return AmqpDataSource(given).reader(SCHEMA)


def publish_twice(channel: Channel, stream: str) -> int:
    """Ten rows, five before and five after the second of 1970 that is returned. AMQP counts in
    seconds, so the next one has to begin."""
    publish(channel, stream, 0, 5)
    moment = int(time.time()) + 1
    while time.time() < moment + 0.05:
        time.sleep(0.02)
    publish(channel, stream, 5, 5)
    return moment


def test_from_one_time_to_another(penstock_url: str) -> None:
    """To the row on Penstock. AMQP counts in seconds, so there is one between the two halves."""
    with queue_at(penstock_url, STREAM) as (channel, stream):
        moment = publish_twice(channel, stream)
        given = {"url": penstock_url, "queue": stream, "mode": "stream"}
        iso = datetime.fromtimestamp(moment, UTC).isoformat()
        late = rows_of(batch_reader({**given, "startingTimestamp": iso}))
        assert [offset for _, offset, _ in late] == [5, 6, 7, 8, 9]
        early = batch_reader({**given, "endingTimestamp": str(moment * 1000)})
        assert [offset for _, offset, _ in rows_of(early)] == [0, 1, 2, 3, 4]
        never = batch_reader({**given, "startingTimestamp": str((moment + 3600) * 1000)})
        assert rows_of(never) == []


def test_a_time_on_rabbitmq_begins_with_its_chunk_and_misses_nothing(rabbitmq_url: str) -> None:
    with queue_at(rabbitmq_url, STREAM) as (channel, stream):
        moment = publish_twice(channel, stream)
        given = {"url": rabbitmq_url, "queue": stream, "mode": "stream"}
        rows = rows_of(batch_reader({**given, "startingTimestamp": str(moment * 1000)}))
        assert [offset for _, offset, _ in rows][-5:] == [5, 6, 7, 8, 9]


def test_rows_that_rabbitmq_sends_late_are_read_all_the_same(rabbitmq_url: str) -> None:
    """It does not say where a stream ends: whoever reads it once must not take late for empty."""
    with queue_at(rabbitmq_url, STREAM) as (channel, stream), late_broker(rabbitmq_url, 0.8) as url:
        publish(channel, stream, 0, 5)
        (part,) = batch_reader({"url": url, "queue": stream, "mode": "stream"}).partitions()
        assert (part.first, part.stop) == (0, 5)


def test_filters_leave_rows_out_before_they_are_read(broker_url: str) -> None:
    with queues_at(broker_url, 2, STREAM) as (channel, names):
        for number in range(10):
            properties = Properties(timestamp=None if number == 3 else 1_700_000_000 + number)
            channel.publish("", names[0], b"%d" % number, properties)
        channel.wait_for_confirms(60_000)
        publish(channel, names[1], 100, 5)
        given = {
            "url": broker_url, "queues": ",".join(names), "mode": "stream",
            "filterPushdown": "true", "minPartitions": "3",
        }  # fmt: skip
        reader = batch_reader(given)
        low, high = GreaterThanOrEqual(("offset",), 2), LessThan(("offset",), 4)
        assert list(reader.pushFilters([low, high])) == [], "Spark need not look at them again"
        assert rows_of(reader) == [
            (names[0], 2, "2"), (names[0], 3, "3"), (names[1], 2, "102"), (names[1], 3, "103"),
        ]  # fmt: skip

        reader = batch_reader(given)
        body = EqualTo(("body",), b"101")
        queue = In(("queue",), (names[1], "other"))
        after = GreaterThan(("offset",), 3)
        assert list(reader.pushFilters([body, queue, after])) == [body]
        assert rows_of(reader) == [(names[1], 4, "104")]

        reader = batch_reader(given)
        moment = datetime.fromtimestamp(1_700_000_007, UTC)
        late = GreaterThanOrEqual(("timestamp",), moment)
        assert list(reader.pushFilters([late])) == [late]
        assert [body for _, _, body in rows_of(reader)] == ["7", "8", "9"], "null passes none"

        reader = batch_reader(given)
        assert list(reader.pushFilters([EqualTo(("offset",), 3), EqualTo(("offset",), 4)])) == []
        assert rows_of(reader) == []


def test_a_batch_takes_as_long_as_it_is_to_take(penstock: Broker, tmp_path: Path) -> None:
    """A sink that takes 1 ms for a row, and is to take 200 ms for a batch: of the rows of nearly
    that time, and of fewer the more a slow machine takes for everything else."""
    folders = (tmp_path / str(number) for number in itertools.count())

    def largest_of_the_last() -> int:
        with queue_at(penstock.url) as (channel, queue):
            publish(channel, queue, 0, 1800)
            given = {
                "url": penstock.url, "queue": queue, "mode": "queue",
                "maxOffsetsPerTrigger": "400", "targetBatchDuration": "200ms",
            }  # fmt: skip
            engine = Engine(next(folders), given)
            sizes: list[int] = []
            before = 0
            while before < 1800:
                engine.step()
                rows = engine.end["position"] - before
                before += rows
                if rows > 0:
                    sizes.append(rows)
                time.sleep(rows / 1000)
            engine.stop()
            # The first ones are 400 rows, and a consumer may be behind.
            return max(sizes[-4:-1])

    assert 10 <= undisturbed(largest_of_the_last, 0.1, penstock.pid) <= 280
