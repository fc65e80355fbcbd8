"""Super streams: all partitions in one query, new ones while it runs; readers without a JVM.

What `test_connector_contract` shows of one stream holds for each partition.
"""

import contextlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from penstock.base.errors import OperatorError
from penstock.client.errors import ChannelClosedError
from penstock.client.io_blocking import Channel
from penstock.spark.connector.common.reader import RangePartition
from penstock.spark.connector.source import AmqpDataSource
from penstock.spark.connector.stream import stream_source
from tests.patience import until
from tests.spark.engine import SCHEMA, STEPS, Died, Engine, live, sunk
from tests.spark.marks import READERS
from tests.spark.through_amqp import NAMES, PATIENCE_MS, patiently

pytestmark = READERS


def add_partition(channel: Channel, name: str, number: int) -> str:
    """One more, as `penstock streams add-partitions` makes it."""
    stream = f"{name}-{number}"
    channel.declare_queue(stream, durable=True, arguments={"x-queue-type": "stream"})
    channel.bind_queue(stream, name, str(number), arguments={"x-stream-partition-order": number})
    return stream


@contextlib.contextmanager
def super_stream_at(url: str, count: int) -> Iterator[tuple[Channel, str]]:
    with patiently(url) as connection:
        channel = connection.channel()
        name = f"super.{os.getpid()}.{next(NAMES)}"
        channel.declare_exchange(name, "x-super-stream", durable=True)
        for number in range(count):
            add_partition(channel, name, number)
        channel.confirm_select()
        yield channel, name
        answer = connection.channel().request("stream.partitions", {"super_stream": name})
        for stream in answer["names"]:  # type: ignore[union-attr]
            channel.delete_queue(str(stream))
        channel.delete_exchange(name)


def spread(channel: Channel, name: str, first: int, count: int) -> None:
    """Rows of many keys, each row a number."""
    for number in range(first, first + count):
        channel.publish(name, f"key-{number % 23}", b"%d" % number, mandatory=True)
    channel.wait_for_confirms(PATIENCE_MS)


def options(url: str, name: str, **more: str) -> dict[str, str]:
    return {"url": url, "superStream": name, "startingOffsets": "earliest", **more}


def looking_at_once(engine: Engine) -> None:
    """The next trigger looks for partitions, whenever the last one has."""
    engine.reader._looked_ns -= stream_source.PARTITIONS_LOOK_NS


@pytest.mark.parametrize("step", STEPS)
def test_every_crash_point_while_a_partition_is_added(
    penstock_url: str, tmp_path: Path, step: str
) -> None:
    """Every row once, also those of a partition that the batch that dies was the first to find,
    and that retention has taken rows of until it is run again."""
    with super_stream_at(penstock_url, 2) as (channel, name):
        given = options(penstock_url, name, maxOffsetsPerTrigger="12")
        spread(channel, name, 0, 30)
        engine = Engine(tmp_path, given)
        assert set(engine.end["streams"]) == {f"{name}-0", f"{name}-1"}
        engine.drain(rows=30)
        add_partition(channel, name, 2)
        spread(channel, name, 30, 30)
        looking_at_once(engine)
        engine.dies_after = step
        with contextlib.suppress(Died):
            engine.drain()
        engine.stop()
        spread(channel, name, 60, 10)
        engine = live(tmp_path, given, 70, 0.8)
        assert set(engine.end["streams"]) == {f"{name}-{number}" for number in range(3)}
        counts = Counter(map(int, sunk(tmp_path)))
        assert counts == Counter(range(70)), "every row once"


def test_a_batch_that_finds_a_partition_says_where_it_begins(
    penstock_url: str, tmp_path: Path
) -> None:
    """Run again by another process it is the same rows, or fails: it does not begin later."""
    with super_stream_at(penstock_url, 1) as (channel, name):
        spread(channel, name, 0, 5)
        engine = Engine(tmp_path, options(penstock_url, name))
        engine.drain(rows=5)
        extra = add_partition(channel, name, 1)
        spread(channel, name, 5, 20)
        looking_at_once(engine)
        engine.dies_after = "wal"
        with pytest.raises(Died):
            engine.drain()
        engine.stop()
        assert engine._read("offsets", engine.batch)["end"]["from"]["streams"][extra] == 0


def test_one_task_for_each_partition_unless_more_are_asked_for(penstock_url: str) -> None:
    with super_stream_at(penstock_url, 5) as (channel, name):
        spread(channel, name, 0, 200)
        for wanted, tasks in ((None, 5), ("12", 12)):
            given = options(penstock_url, name)
            if wanted:
                given["minPartitions"] = wanted
            reader: Any = AmqpDataSource(given).streamReader(SCHEMA)
            # Fewer cores than partitions: each still has a task of its own.
            reader._options = replace(reader._options, cores=2)
            begin = reader.initialOffset()
            end = reader.latestOffset(begin, reader.getDefaultReadLimit())
            parts = reader.partitions(begin, end)
            reader.stop()
            assert all(isinstance(part, RangePartition) for part in parts)
            assert len({part.queue for part in parts}) == 5
            assert len(parts) == tasks
            batch: Any = AmqpDataSource(given).reader(SCHEMA)
            assert len(batch.partitions()) == tasks


def test_a_batch_read_has_every_key_in_its_order(penstock_url: str) -> None:
    with super_stream_at(penstock_url, 3) as (channel, name):
        spread(channel, name, 0, 150)
        given = options(penstock_url, name, mode="stream")
        reader: Any = AmqpDataSource(given).reader(SCHEMA)
        of_key: dict[str, list[int]] = defaultdict(list)
        places: dict[str, set[str]] = defaultdict(set)
        for part in reader.partitions():
            for batch in reader.read(part):
                for row in batch.to_pylist():
                    of_key[row["routing_key"]].append(int(row["body"]))
                    places[row["routing_key"]].add(row["queue"])
        assert sorted(number for rows in of_key.values() for number in rows) == [*range(150)]
        assert all(rows == sorted(rows) for rows in of_key.values())
        assert all(len(queues) == 1 for queues in places.values()), "a key has one partition"


def test_a_partition_is_found_by_a_running_query_and_by_available_now_not(
    penstock_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_source, "PARTITIONS_LOOK_NS", 0)
    with super_stream_at(penstock_url, 1) as (channel, name):
        spread(channel, name, 0, 10)
        engine = Engine(tmp_path / "ends", options(penstock_url, name))
        engine.reader.prepareForTriggerAvailableNow()
        add_partition(channel, name, 1)
        spread(channel, name, 10, 20)
        while engine.step():
            pass
        engine.stop()
        assert sorted(map(int, sunk(tmp_path / "ends"))) == [*range(10)]
        assert set(engine.end["streams"]) == {f"{name}-0"}
        # startingOffsets is about those there are at the start: a later one is read whole.
        given = options(penstock_url, name) | {"startingOffsets": "latest"}
        engine = Engine(tmp_path / "runs", given)
        assert not engine.step()
        stream = add_partition(channel, name, 2)
        channel.publish("", stream, b"1000")
        channel.wait_for_confirms(PATIENCE_MS)
        until(lambda: engine.step() or sunk(tmp_path / "runs") == ["1000"], "it is found")
        report = engine.reader.reportLatestOffset()
        assert set(report["streams"]) == {f"{name}-{number}" for number in range(3)}
        assert report["lag_rows"] == 0
        engine.stop()


def test_a_group_holds_each_partition_and_new_ones(penstock_url: str, tmp_path: Path) -> None:
    """With option group retention and publishers wait for the query, on every partition."""
    with super_stream_at(penstock_url, 2) as (channel, name):
        given = options(penstock_url, name, group="etl", maxLagMessages="100000")
        spread(channel, name, 0, 20)
        engine = Engine(tmp_path, given)
        engine.drain(rows=20)
        add_partition(channel, name, 2)
        spread(channel, name, 20, 30)
        looking_at_once(engine)
        engine.drain(rows=50)
        engine.stop()
        for number in range(3):
            answer = channel.request("stream.groups", {"queue": f"{name}-{number}"})
            groups: Any = answer["groups"]
            assert [group["group"] for group in groups] == ["etl"] and groups[0]["offset"] > 0


def test_what_is_refused(penstock_url: str, rabbitmq_url: str) -> None:
    def begin(given: dict[str, str]) -> None:
        AmqpDataSource(given).streamReader(SCHEMA).initialOffset()

    with pytest.raises(ChannelClosedError, match="no exchange 'no-such'"):
        begin({"url": penstock_url, "superStream": "no-such"})
    with pytest.raises(OperatorError, match="no stream is bound to that exchange"):
        begin({"url": penstock_url, "superStream": "amq.topic"})
    with pytest.raises(OperatorError, match="does not say over AMQP what is bound"):
        begin({"url": rabbitmq_url, "superStream": "a"})
    for more, said in (
        ({"queue": "q"}, "options queue and superStream: give one of them"),
        ({"mode": "lease"}, "option superStream is for mode=stream or auto"),
        ({"leaseTimeout": "1m"}, "option leaseTimeout is for ordinary queues"),
        ({"maxOffsetsPerTrigger": "0"}, "takes a whole number"),
    ):
        with pytest.raises(OperatorError, match=said):
            begin({"url": penstock_url, "superStream": "amq.topic", **more})


def test_a_super_stream_that_is_deleted_ends_its_query(penstock_url: str, tmp_path: Path) -> None:
    with patiently(penstock_url) as connection:
        channel = connection.channel()
        name = f"super.{os.getpid()}.{next(NAMES)}"
        channel.declare_exchange(name, "x-super-stream", durable=True)
        stream = add_partition(channel, name, 0)
        engine = Engine(tmp_path, options(penstock_url, name))
        assert not engine.step()
        channel.delete_exchange(name)
        looking_at_once(engine)
        with pytest.raises(ChannelClosedError, match=f"no exchange '{name}'"):
            engine.step()
        engine.stop()
        channel.delete_queue(stream)
