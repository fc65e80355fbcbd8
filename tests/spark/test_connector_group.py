"""A query's group on a stream: it moves with what is committed, keeps rows, holds publishers."""

import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from penstock.base.errors import OperatorError
from penstock.client.io_blocking import Channel
from tests.patience import PATIENCE_S
from tests.spark.engine import STEPS, Died, Engine, earliest, live, numbers, sunk
from tests.spark.marks import READERS
from tests.spark.through_amqp import patiently, publish, queue_at

pytestmark = READERS
STREAM = {"x-queue-type": "stream"}


def options(url: str, stream: str, **more: str) -> dict[str, str]:
    return {**earliest(url, stream, maxOffsetsPerTrigger="6", group="etl"), **more}


def position(channel: Channel, stream: str) -> int:
    """Where the group is, -1 when there is none."""
    groups = channel.request("stream.groups", {"queue": stream})["groups"]
    assert isinstance(groups, list)
    for group in groups:
        assert isinstance(group, dict) and isinstance(group["offset"], int)
        return group["offset"]
    return -1


@pytest.mark.parametrize("step", STEPS)
def test_it_never_passes_what_is_not_committed(
    penstock_url: str, tmp_path: Path, step: str
) -> None:
    with queue_at(penstock_url, STREAM) as (channel, stream):
        publish(channel, stream, 0, 15)
        engine = Engine(tmp_path, options(penstock_url, stream))
        engine.step()
        assert position(channel, stream) == 0
        engine.dies_after = step
        with pytest.raises(Died):
            engine.drain(rows=15)
        engine.stop()
        assert position(channel, stream) <= len(sunk(tmp_path))
        live(tmp_path, options(penstock_url, stream), 15)
        assert sunk(tmp_path) == numbers(15)
        assert position(channel, stream) == 15


def test_a_group_that_was_removed_is_there_again(penstock_url: str, tmp_path: Path) -> None:
    with queue_at(penstock_url, STREAM) as (channel, stream):
        publish(channel, stream, 0, 5)
        engine = Engine(tmp_path, options(penstock_url, stream))
        engine.drain()
        channel.request("stream.group.remove", {"queue": stream, "group": "etl"})
        publish(channel, stream, 5, 5)
        engine.drain()
        engine.stop()
        assert sunk(tmp_path) == numbers(10)
        assert position(channel, stream) == 10


def test_publishers_are_held_to_the_pace_of_the_query(penstock_url: str, tmp_path: Path) -> None:
    """Without confirms, into a small log: what they may publish more is what was committed."""
    with queue_at(penstock_url, STREAM) as (channel, stream):
        given = options(penstock_url, stream, maxOffsetsPerTrigger="500", maxLagMessages="1000")
        engine = Engine(tmp_path, given)
        engine.step()
        ends = threading.Event()

        def run() -> None:
            with patiently(penstock_url) as connection:
                own = connection.channel()
                for number in range(6000):
                    own.publish("", stream, b"%d" % number)
                # Its close is behind all of these, so they have been taken when it is answered.
            ends.set()

        publisher = threading.Thread(target=run)
        publisher.start()
        end = time.monotonic() + 3 * PATIENCE_S
        while not ends.is_set() and time.monotonic() < end:
            answer = channel.request("stream.offsets", {"queue": stream})
            lag = int(str(answer["next"])) - position(channel, stream)
            # The bound, the windows of the two hops to the stream, and what parks at them.
            assert lag <= 1000 + 2 * 400 + 2
            engine.step()
        publisher.join(PATIENCE_S)
        assert ends.is_set()
        engine.drain()
        engine.stop()
        assert sunk(tmp_path) == numbers(6000)


def test_a_broker_without_groups_says_so(rabbitmq_url: str, tmp_path: Path) -> None:
    with queue_at(rabbitmq_url, STREAM) as (channel, stream):
        publish(channel, stream, 0, 5)
        engine = Engine(tmp_path, options(rabbitmq_url, stream))
        with pytest.raises(OperatorError, match="has no groups"):
            engine.step()
        engine.stop()
