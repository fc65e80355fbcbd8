"""Readers through every crash point, against real brokers, with an oracle and no JVM.

Loss is never allowed. From a queue a message may come twice, but only if a connection was lost with
it on its way, and then at most `prefetch` of them; from a stream every row comes exactly once.
"""

import contextlib
import os
import random
import signal
import socket
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.base.errors import OperatorError
from penstock.client.io_blocking import Connection
from penstock.spark.connector.common import link
from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.stream import stream_read
from tests.patience import until
from tests.spark.engine import (
    STEPS,
    Died,
    Engine,
    die,
    earliest,
    live,
    numbers,
    reading,
    sunk,
)
from tests.spark.marks import READERS
from tests.spark.mortal import MortalBroker
from tests.spark.through_amqp import Publisher, publish, queue_at

pytestmark = READERS

PREFETCH = 8


def options(url: str, queue: str, **more: str) -> dict[str, str]:
    given = {
        "url": url,
        "queue": queue,
        # As mode=auto chooses with RabbitMQ.
        "mode": "queue",
        "maxOffsetsPerTrigger": str(PREFETCH // 2),
        "prefetch": str(PREFETCH),
        "minPartitions": "2",
    }
    return {**given, **more}


def break_connection(engine: Engine) -> None:
    """Cut the planner's connection, as a network would."""
    feed = engine.reader._planners[0]._feed
    with feed.lock:
        number = feed._link.fileno()
        # Below 0 it was cut a moment ago, and is not open again yet.
        if number >= 0:
            cut(number)


def cut(number: int) -> None:
    """End the connection behind a file number, which may have ended a moment ago."""
    with socket.socket(fileno=os.dup(number)) as same, contextlib.suppress(OSError):
        same.shutdown(socket.SHUT_RDWR)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 12)),
        st.tuples(st.just("trigger"), st.integers(1, 3)),
        st.tuples(st.just("break"), st.just(0)),
        st.tuples(st.sampled_from(STEPS), st.just(0)),
    ),
    min_size=1,
    max_size=7,
)


def play(url: str, actions: list[tuple[str, int]], folder: Path) -> None:
    """One life of a query over one queue, and what its sink must hold in the end."""
    with queue_at(url) as (channel, queue):
        given = options(url, queue)
        engine = Engine(folder, given)
        published = losses = 0
        try:
            for action, count in actions:
                if action == "publish":
                    publish(channel, queue, published, count)
                    published += count
                elif action == "trigger":
                    for _ in range(count):
                        engine.step()
                elif action == "break":
                    engine.step()
                    break_connection(engine)
                    losses += 1
                else:
                    engine.dies_after = action
                    try:
                        # With nothing to do there are no later steps to die at.
                        engine.drain(0.05)
                    except Died:
                        losses += 1
                    engine.stop()
                    engine = Engine(folder, given)
            engine.drain(rows=published)
        finally:
            engine.stop()
        rows = sunk(folder)
        counts = Counter(rows)
        assert set(counts) == set(numbers(published)), "lost"
        assert len(rows) - published <= losses * PREFETCH, "too many duplicates"
        if losses == 0:
            assert rows == numbers(published)
        # Nothing is left unacknowledged: with the query gone it would be ready again.
        assert channel.declare_queue(queue, passive=True).message_count == 0


@given(actions=ACTIONS)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_queue_loses_nothing_whatever_dies(
    penstock_url: str, tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int]]
) -> None:
    play(penstock_url, actions, tmp_path_factory.mktemp("query"))


@pytest.mark.parametrize("step", STEPS)
def test_every_crash_point_of_a_queue(broker_url: str, tmp_path: Path, step: str) -> None:
    play(broker_url, [("publish", 10), ("trigger", 1), (step, 0), ("publish", 3)], tmp_path)


def test_a_batch_that_fills_the_prefetch_does_not_stop_the_query(
    broker_url: str, tmp_path: Path
) -> None:
    """Spark commits batch N when batch N+1 has data. A source that acknowledged in `commit` would
    stand here after one batch, with everything unacknowledged: the broker sends nothing, so there
    is no data, so nothing is committed."""
    with queue_at(broker_url) as (channel, queue):
        publish(channel, queue, 0, 40)
        engine = Engine(tmp_path, options(broker_url, queue, maxOffsetsPerTrigger=str(PREFETCH)))
        assert engine.drain(rows=40) >= 40 // PREFETCH
        assert sunk(tmp_path) == numbers(40)
        # The last batch is acknowledged although nothing came after it.
        engine.stop()
        assert channel.declare_queue(queue, passive=True).message_count == 0


def test_killed_again_and_again(broker_url: str, tmp_path: Path) -> None:
    """The process that reads is killed with SIGKILL at random; a real one, with its sockets."""
    chance = random.Random(7)
    with queue_at(broker_url) as (channel, queue):
        given = options(broker_url, queue, maxOffsetsPerTrigger="50", prefetch="100")
        published = kills = 0
        while kills < 4:
            with reading(tmp_path, given):
                publish(channel, queue, published, 200)
                published += 200
                # How long it has lived is what chance decides; there is no state to wait for.
                time.sleep(chance.uniform(0.0, 0.25))
            kills += 1
        live(tmp_path, given, published, 1.0)
        rows = sunk(tmp_path)
        assert set(rows) == set(numbers(published))
        assert len(rows) - published <= kills * 100
        assert channel.declare_queue(queue, passive=True).message_count == 0


def test_a_slow_sink_holds_the_publishers(
    broker_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Publishers are never further ahead of the sink than the queue, the prefetch and their own
    window hold together, however slow the sink is; and nothing is lost on the way."""
    is_ours = "penstock" in request.node.name
    arguments: dict[str, str | int] = {
        "x-max-length": 60,
        "x-overflow": "backpressure" if is_ours else "reject-publish",
    }
    with queue_at(broker_url, arguments) as (_, queue):
        publisher = Publisher(broker_url, queue)
        given = options(broker_url, queue, maxOffsetsPerTrigger="20", prefetch="40")
        publisher.hold(Engine(tmp_path, given), 400, 60 + 40)
        assert set(publisher.confirmed) <= set(sunk(tmp_path))


def test_available_now_reads_what_was_there_and_leaves_the_rest(
    broker_url: str, tmp_path: Path
) -> None:
    with queue_at(broker_url) as (channel, queue):
        publish(channel, queue, 0, 21)
        engine = Engine(tmp_path, options(broker_url, queue))
        engine.reader.prepareForTriggerAvailableNow()
        publish(channel, queue, 21, 5)
        while engine.step():
            continue
        assert sunk(tmp_path) == numbers(21)
        until(
            lambda: channel.declare_queue(queue, passive=True).message_count == 5,
            "what came later is given back",
        )
        engine.stop()


def test_the_lag_is_what_waits_in_the_queue(broker_url: str, tmp_path: Path) -> None:
    with queue_at(broker_url) as (channel, queue):
        publish(channel, queue, 0, 50)
        engine = Engine(tmp_path, options(broker_url, queue))
        engine.step()
        # An answer may overtake deliveries; the queue is asked again every second.
        until(
            lambda: engine.reader.reportLatestOffset()["position"] == 50,
            "what waits",
        )
        said = engine.reader.reportLatestOffset()
        assert (said["mode"], said["delivery"]) == ("queue", "at least once")
        assert said["lag_rows"] == 50 - engine.end["position"]
        assert "publishers_held_seconds" not in said
        engine.stop()


def test_a_buffer_that_is_full_pauses_the_consumer(
    broker_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with queue_at(broker_url) as (channel, queue):
        # More than two sockets hold, so that not all of it is under way before the consumer pauses.
        for number in range(400):
            channel.publish("", queue, b"%030000d" % number)
        channel.wait_for_confirms(60_000)
        given = {
            "url": broker_url, "queue": queue, "mode": "queue", "maxBufferedBytes": "64k",
            "minOffsetsPerTrigger": "300", "maxOffsetsPerTrigger": "400",
            "maxTriggerDelay": "500ms",
        }  # fmt: skip
        engine = Engine(tmp_path, given)
        batches = engine.drain(1.0, 400)
        # Fewer than minOffsetsPerTrigger fit, so they go as soon as no more can come. RabbitMQ may
        # have sent all of it before it hears of the pause.
        assert batches >= 2 or "rabbitmq" in request.node.name
        assert len(sunk(tmp_path)) == 400
        engine.stop()
        assert channel.declare_queue(queue, passive=True).message_count == 0


def test_a_queue_that_is_not_there_is_said_so_at_once(broker_url: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="404 NOT_FOUND"):
        Engine(tmp_path, {"url": broker_url, "queue": "no.such.queue"})


def test_a_queue_that_is_deleted_fails_the_query(broker_url: str, tmp_path: Path) -> None:
    with queue_at(broker_url) as (channel, queue):
        engine = Engine(tmp_path, options(broker_url, queue))
        engine.step()
        channel.delete_queue(queue)
        with pytest.raises(Exception, match="404 NOT_FOUND"):
            engine.drain(30.0)
        engine.stop()
        channel.declare_queue(queue, durable=True)


# --- streams ----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
def test_every_crash_point_of_a_stream(broker_url: str, tmp_path: Path, step: str) -> None:
    """Every row once and in order: ranges can be read again."""
    with queue_at(broker_url, {"x-queue-type": "stream"}) as (channel, stream):
        given = earliest(broker_url, stream, maxOffsetsPerTrigger="6", minPartitions="2")
        publish(channel, stream, 0, 15)
        die(tmp_path, given, step, 15, triggers=1)
        publish(channel, stream, 15, 5)
        live(tmp_path, given, 20, 1.0)
        assert sunk(tmp_path) == numbers(20)


@pytest.mark.parametrize("step", ["wal", "read", "sink"])
def test_a_first_batch_that_died_keeps_the_beginning_that_was_latest(
    penstock_url: str, tmp_path: Path, step: str
) -> None:
    """Spark asks again where the query begins, and by then the latest row is another one. Only who
    dies before anything was written down begins anew."""
    with queue_at(penstock_url, {"x-queue-type": "stream"}) as (channel, stream):
        given = {"url": penstock_url, "queue": stream, "mode": "stream"}
        publish(channel, stream, 0, 5)
        engine = Engine(tmp_path, given)
        publish(channel, stream, 5, 10)
        engine.dies_after = step
        with pytest.raises(Died):
            engine.drain(rows=10)
        engine.stop()
        publish(channel, stream, 15, 5)
        engine = Engine(tmp_path, given)
        engine.drain(rows=15)
        assert not engine.step() and engine.batch <= 2, "there is nothing new"
        engine.stop()
        assert sunk(tmp_path) == numbers(20, 5)


def test_a_connection_that_ended_between_triggers_costs_no_batch(
    broker_url: str, tmp_path: Path
) -> None:
    """With long triggers the broker's heartbeat ends it every time."""
    with queue_at(broker_url, {"x-queue-type": "stream"}) as (channel, stream):
        given = earliest(broker_url, stream)
        publish(channel, stream, 0, 5)
        engine = Engine(tmp_path, given)
        engine.drain(rows=5)
        publish(channel, stream, 5, 5)
        cut(engine.reader._planners[0]._ends._link.fileno())
        assert engine.step()
        engine.drain(rows=10)
        engine.stop()
        assert sunk(tmp_path) == numbers(10)


def test_a_broker_that_does_not_answer_for_a_while_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose machine stands still, or behind a way that forgets idle connections."""
    monkeypatch.setattr(link, "REPLY_MS", 500)
    with MortalBroker(tmp_path / "broker") as broker:
        assert broker.process is not None
        with queue_at(broker.url, {"x-queue-type": "stream"}) as (channel, stream):
            publish(channel, stream, 0, 3)
            given = earliest(f"{broker.url}?connection_timeout=500", stream)
            engine = Engine(tmp_path / "query", given)
            engine.drain(rows=3)
            publish(channel, stream, 3, 3)
            broker.process.send_signal(signal.SIGSTOP)
            try:
                assert not engine.step()
            finally:
                broker.process.send_signal(signal.SIGCONT)
            engine.drain(rows=6)
            engine.stop()
            assert sunk(tmp_path / "query") == numbers(6)


def test_a_connection_that_dies_before_its_first_channel_is_made_anew(
    broker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is started again, or a proxy before it, takes connections and ends them."""
    open_one = stream_read._open
    opened: list[str] = []

    def mortal(options: SourceOptions, name: str) -> Connection:
        connection = open_one(options, name)
        opened.append(name)
        if len(opened) <= 2:
            cut(connection.detach()[0].fileno())
        return connection

    monkeypatch.setattr(stream_read, "_open", mortal)
    for kept in list(stream_read._kept):
        stream_read._kept.pop(kept).drop()
    with queue_at(broker_url, {"x-queue-type": "stream"}) as (channel, stream):
        publish(channel, stream, 0, 5)
        engine = Engine(tmp_path, earliest(broker_url, stream))
        engine.drain(rows=5)
        engine.stop()
        assert sunk(tmp_path) == numbers(5)
    assert len(opened) in (1, 3), "where there are no chunks it is opened by another way then"


def test_a_beginning_behind_the_end_is_the_options_fault(broker_url: str, tmp_path: Path) -> None:
    with queue_at(broker_url, {"x-queue-type": "stream"}) as (channel, stream):
        publish(channel, stream, 0, 5)
        assert live(tmp_path / "end", earliest(broker_url, stream, startingOffsets="5")).batch < 0
        engine = Engine(tmp_path / "far", earliest(broker_url, stream, startingOffsets="5000"))
        with pytest.raises(OperatorError, match=r"option startingOffsets is 5000, .* ends at 5 "):
            engine.drain()
        engine.stop()


@pytest.mark.parametrize("is_available_now", [False, True])
def test_a_stream_that_was_made_anew_is_noticed(
    broker_url: str, tmp_path: Path, is_available_now: bool
) -> None:
    remade(broker_url, tmp_path, "earliest", 3, is_available_now)


@pytest.mark.parametrize("is_available_now", [False, True])
@pytest.mark.parametrize("starting", ["earliest", "latest", "0"])
def test_so_is_one_that_has_grown_beyond_the_checkpoint(
    penstock_url: str, tmp_path: Path, starting: str, is_available_now: bool
) -> None:
    """RabbitMQ does not say which stream it is."""
    remade(penstock_url, tmp_path, starting, 30, is_available_now)


def remade(url: str, tmp_path: Path, starting: str, rows: int, is_available_now: bool) -> None:
    """A checkpoint at 15, and a new stream of that name with `rows`."""
    with queue_at(url, {"x-queue-type": "stream"}) as (channel, stream):
        given = earliest(url, stream, startingOffsets=starting)
        if starting != "latest":
            publish(channel, stream, 0, 15)
        engine = Engine(tmp_path, given)
        if starting == "latest":
            publish(channel, stream, 0, 15)
        engine.drain(rows=15)
        engine.stop()
        channel.delete_queue(stream)
        channel.declare_queue(stream, durable=True, arguments={"x-queue-type": "stream"})
        publish(channel, stream, 0, rows)
        engine = Engine(tmp_path, given)
        if is_available_now:
            engine.reader.prepareForTriggerAvailableNow()
        with pytest.raises(OperatorError, match="made anew"):
            engine.drain(30.0)
        engine.stop()
