"""Exactly once from an ordinary queue: every crash point, killed brokers and drivers, lost leases.

PENSTOCK_KILLS=60 makes of the short run with kills a long one.
"""

import itertools
import os
import random
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from penstock.base.errors import OperatorError
from penstock.client.errors import ClientError
from penstock.client.io_blocking import Channel, connect
from penstock.protocol.values import Table
from penstock.spark.connector.stream.chunk_link import ChunkLink
from tests.conformance.live import Broker
from tests.patience import undisturbed, until
from tests.spark.engine import STEPS, Engine, die, live, numbers, reading, sunk
from tests.spark.marks import READERS
from tests.spark.mortal import MortalBroker
from tests.spark.through_amqp import PATIENCE_MS, Publisher, patiently, publish, queue_at

pytestmark = READERS

KILLS = int(os.environ.get("PENSTOCK_KILLS", "2"))


def options(url: str, queue: str, **more: str) -> dict[str, str]:
    given = {
        "url": url,
        "queue": queue,
        "mode": "lease",
        "group": "g",
        "maxOffsetsPerTrigger": "4",
        "minPartitions": "2",
    }
    return {**given, **more}


def nameless(url: str, queue: str, **more: str) -> dict[str, str]:
    """A query that names no group."""
    given = options(url, queue, **more)
    del given["group"]
    return given


def left(channel: Channel, queue: str, group: str = "g") -> tuple[object, ...]:
    """What the queue and the group hold: (ready, leased)."""
    state = channel.request("lease.state", {"queue": queue, "group": group})
    return state["ready"], state["count"]


@pytest.mark.parametrize("step", STEPS)
def test_every_crash_point(penstock_url: str, tmp_path: Path, step: str) -> None:
    """Every row once and in order, and in the end nothing is leased."""
    with queue_at(penstock_url) as (channel, queue):
        given = options(penstock_url, queue)
        publish(channel, queue, 0, 10)
        die(tmp_path, given, step, 10, triggers=1)
        publish(channel, queue, 10, 3)
        live(tmp_path, given, 13)
        assert sunk(tmp_path) == numbers(13)
        assert left(channel, queue) == (0, 0)


def test_a_batch_may_have_more_bytes_than_a_group_may_lease(
    penstock_url: str, tmp_path: Path
) -> None:
    with queue_at(penstock_url) as (channel, queue):
        publish(channel, queue, 0, 3)
        live(tmp_path, options(penstock_url, queue, maxBytesPerTrigger="1g"), 3)
        assert sunk(tmp_path) == numbers(3)


@pytest.mark.parametrize("step", ["latest", "wal", "sink", "done"])
def test_crash_points_of_a_group_that_only_the_checkpoint_knows(
    penstock_url: str, tmp_path: Path, step: str
) -> None:
    """Died in its first batch, and in a later one; a group that is in no checkpoint gives back."""
    with queue_at(penstock_url) as (channel, queue):
        given = nameless(penstock_url, queue)
        # Where nobody asks for it again: elsewhere the next life must come in time, however slow.
        dying = nameless(penstock_url, queue, leaseTimeout="300ms") if step == "latest" else given
        publish(channel, queue, 0, 10)
        for _ in range(2):
            die(tmp_path, dying, step, 10)
        publish(channel, queue, 10, 3)
        engine = live(tmp_path, given, 13, 0.8)
        rows = sunk(tmp_path)
        if step == "latest":
            # Planners that died before their names were written down: theirs came back in between.
            rows.sort(key=int)
        assert rows == numbers(13)
        group = engine.end["group"]
        assert group.startswith("checkpoint-") and left(channel, queue, group) == (0, 0)


def test_a_new_checkpoint_is_a_new_group_and_does_not_read_what_was_done(
    penstock_url: str, tmp_path: Path
) -> None:
    with queue_at(penstock_url) as (channel, queue):
        publish(channel, queue, 0, 6)
        groups = []
        for name in ("one", "two"):
            groups.append(live(tmp_path / name, nameless(penstock_url, queue)).end["group"])
            publish(channel, queue, 6, 2)
        assert groups[0] != groups[1]
        assert sunk(tmp_path / "one") == numbers(6)
        assert sunk(tmp_path / "two") == ["6", "7"]
        with pytest.raises(OperatorError, match="made up for it"):
            Engine(tmp_path / "one", options(penstock_url, queue)).step()
        # Its offset is behind, for the queue has more: it goes on by itself.
        engine = Engine(tmp_path / "one", nameless(penstock_url, queue))
        engine.reader.prepareForTriggerAvailableNow()
        publish(channel, queue, 8, 2)
        engine.drain()
        engine.stop()
        assert sunk(tmp_path / "one") == [*numbers(6), "6", "7", "8", "9"]


def test_a_checkpoint_with_a_named_group_wants_its_name(penstock_url: str, tmp_path: Path) -> None:
    with queue_at(penstock_url) as (channel, queue):
        publish(channel, queue, 0, 2)
        live(tmp_path, options(penstock_url, queue))
        with pytest.raises(OperatorError, match="has to stay the same"):
            Engine(tmp_path, nameless(penstock_url, queue)).step()


def test_available_now_reads_what_was_there_and_leaves_the_rest(
    penstock_url: str, tmp_path: Path
) -> None:
    with queue_at(penstock_url) as (channel, queue):
        publish(channel, queue, 0, 21)
        engine = Engine(tmp_path, options(penstock_url, queue))
        engine.reader.prepareForTriggerAvailableNow()
        publish(channel, queue, 21, 5)
        while engine.step():
            continue
        assert sunk(tmp_path) == numbers(21)
        assert left(channel, queue) == (5, 0)
        engine.stop()


def test_two_queues_in_one_query(penstock_url: str, tmp_path: Path) -> None:
    with queue_at(penstock_url) as (channel, first), queue_at(penstock_url) as (other, second):
        publish(channel, first, 0, 6)
        publish(other, second, 6, 7)
        given = options(penstock_url, "")
        del given["queue"]
        live(tmp_path, {**given, "queues": f"{first},{second}"})
        assert sorted(sunk(tmp_path), key=int) == numbers(13)


def test_a_lease_that_ran_out_fails_the_query_with_numbers(
    penstock_url: str, tmp_path: Path
) -> None:
    with queue_at(penstock_url) as (channel, queue):
        publish(channel, queue, 0, 6)
        die(tmp_path, options(penstock_url, queue, leaseTimeout="200ms"), "wal")
        # Not lease.state, which would be a sign of life.
        until(
            lambda: channel.declare_queue(queue, passive=True).message_count == 6,
            "the messages are back",
        )
        engine = Engine(tmp_path, options(penstock_url, queue))
        with pytest.raises(OperatorError, match=r"LEASE_LOST.*failOnDataLoss"):
            engine.drain()
        engine.stop()
        live(tmp_path, options(penstock_url, queue, failOnDataLoss="false"))
        # The range that was lost is an empty batch, its messages come under new numbers.
        assert sunk(tmp_path) == numbers(6)


def test_a_lease_lives_as_long_as_its_query(penstock: Broker, tmp_path: Path) -> None:
    folders = (tmp_path / str(number) for number in itertools.count())

    def story() -> None:
        folder = next(folders)
        with queue_at(penstock.url) as (channel, queue):
            publish(channel, queue, 0, 4)
            engine = Engine(folder, options(penstock.url, queue, leaseTimeout="1s"))
            run = engine._run

            def slow(start: dict[str, object], end: dict[str, object]) -> None:
                # A batch twice as long as the time without a sign of life.
                time.sleep(2.0)
                run(start, end)

            engine._run = slow  # type: ignore[method-assign]  # as slow as a sink may be
            engine.drain()
            engine.stop()
            assert sunk(folder) == numbers(4)
            assert left(channel, queue) == (0, 0)

    # A query that gives no sign of life because the machine stands still is dead to the broker.
    undisturbed(story, 0.2, penstock.pid)


def test_a_checkpoint_that_was_rolled_back_is_stale(penstock_url: str, tmp_path: Path) -> None:
    with queue_at(penstock_url) as (channel, queue):
        publish(channel, queue, 0, 12)
        live(tmp_path, options(penstock_url, queue))
        for kind in ("offsets", "commits", "sink"):
            (tmp_path / kind / "2").unlink()
        publish(channel, queue, 12, 1)
        with pytest.raises(OperatorError, match=r"STALE.*12.*begins at 8.*4 messages"):
            Engine(tmp_path, options(penstock_url, queue)).drain()
        live(tmp_path, options(penstock_url, queue, failOnDataLoss="false"))
        assert sunk(tmp_path) == [*numbers(8), "12"]


def test_a_slow_sink_holds_the_publishers(penstock_url: str, tmp_path: Path) -> None:
    """Publishers are never further ahead of the sink than the queue, one batch and their own window
    hold together, and nothing is lost on the way."""
    with queue_at(penstock_url, {"x-max-length": 60, "x-overflow": "backpressure"}) as (_, queue):
        publisher = Publisher(penstock_url, queue)
        given = options(penstock_url, queue, maxOffsetsPerTrigger="20")
        publisher.hold(Engine(tmp_path, given), 300, 60 + 20)
        rows = sunk(tmp_path)
        assert len(rows) == len(set(rows))
        assert set(publisher.confirmed) <= set(rows)


def test_a_broker_without_leases_is_named(rabbitmq_url: str, tmp_path: Path) -> None:
    with queue_at(rabbitmq_url) as (_channel, queue):
        given = options(rabbitmq_url, queue)
        with pytest.raises(OperatorError, match="Penstock"):
            Engine(tmp_path, given)


def test_broker_and_driver_are_killed_and_every_row_is_there_once(tmp_path: Path) -> None:
    """Both are processes, killed with SIGKILL at random moments, in turn or together."""
    chance = random.Random(KILLS)
    with MortalBroker(tmp_path / "broker") as broker:
        broker.publish(0, 0)
        given = options(broker.url, "orders", maxOffsetsPerTrigger="50")
        sent = 0
        for number in range(KILLS):
            with reading(tmp_path / "query", given):
                broker.publish(sent, 200)
                sent += 200
                # How long they have lived is what chance decides.
                time.sleep(chance.uniform(0.0, 0.3))
                if number % 2 == 0:
                    broker.again()
                    time.sleep(chance.uniform(0.0, 0.5))
        live(tmp_path / "query", given, sent, 1.0)
        rows = sunk(tmp_path / "query")
        assert len(rows) == len(set(rows)) == sent
        assert rows == numbers(sent)
        with connect(broker.url) as connection:
            assert left(connection.channel(), "orders") == (0, 0)


def test_a_broker_that_is_away_for_a_moment_costs_no_query(tmp_path: Path) -> None:
    with MortalBroker(tmp_path / "broker") as broker:
        broker.publish(0, 20)
        engine = Engine(tmp_path / "query", options(broker.url, "orders"))
        engine.step()
        broker.kill()
        assert not engine.step()
        broker.again()
        engine.drain(1.0, 20)
        engine.stop()
        assert sunk(tmp_path / "query") == numbers(20)
        broker.kill()
        late = Engine(tmp_path / "query", options(broker.url, "orders", reconnectTimeout="0ms"))
        with pytest.raises((OperatorError, ClientError)):
            late.step()


def test_a_batch_outlives_a_broker_that_was_away_in_its_middle(tmp_path: Path) -> None:
    """For longer than the time without a sign of life, which counts anew from the broker's start:
    the query says that it lives as soon as there is somebody to tell."""
    with MortalBroker(tmp_path / "broker") as broker:
        broker.publish(0, 4)
        engine = Engine(tmp_path / "query", options(broker.url, "orders", leaseTimeout="3s"))
        run = engine._run

        def slow(start: dict[str, object], end: dict[str, object]) -> None:
            broker.kill()
            # Until a sign of life has found nobody.
            time.sleep(1.0)
            broker.start()
            time.sleep(4.5)
            run(start, end)

        engine._run = slow  # type: ignore[method-assign]  # as slow as a sink may be
        engine.step()
        engine.stop()
        assert sunk(tmp_path / "query") == numbers(4)


def test_the_same_job_leases_where_it_can(broker_url: str, tmp_path: Path) -> None:
    with queue_at(broker_url) as (channel, queue):
        publish(channel, queue, 0, 9)
        engine = live(tmp_path, nameless(broker_url, queue, mode="auto"), 9)
        assert sunk(tmp_path) == numbers(9)
        has_leases = "penstock.leases" in capabilities_of(broker_url)
        assert ("lease" in engine.end) == has_leases


def capabilities_of(url: str) -> frozenset[str]:
    with connect(url) as connection:
        return connection.session.server_capabilities()


def test_a_broker_without_chunks_of_leases_is_said_to_be_older(rabbitmq_url: str) -> None:
    """It ignores what it is asked for, as a Penstock of before did, and gives a plain message."""
    with queue_at(rabbitmq_url) as (channel, queue):
        publish(channel, queue, 0, 1)
        link = ChunkLink(patiently(rabbitmq_url))
        asked: Table = {"x-lease-group": "g", "x-lease-from": 0, "x-lease-to": 1}
        link.begin(queue, asked, "")
        link.write()
        with pytest.raises(OperatorError, match="because it is older than this connector"):
            link.next(PATIENCE_MS)
        link.drop()
