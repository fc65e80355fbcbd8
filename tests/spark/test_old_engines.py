"""Spark 4.0 and 4.1 do not say where a query is. Nothing is lost by that, and nothing doubled."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from tests.spark.engine import STEPS, Died, earliest, numbers, sunk
from tests.spark.marks import READERS
from tests.spark.old_engine import OldEngine, once
from tests.spark.through_amqp import publish, queue_at

pytestmark = READERS
STREAM = {"x-queue-type": "stream"}


def lives(folder: Path, options: dict[str, str], rows: int, step: str = "") -> None:
    """A run until silence; or until it dies after `step`, in its third trigger."""
    engine = OldEngine(folder, options)
    try:
        if step:
            engine.step()
            engine.step()
            engine.dies_after = step
        engine.drain(0.4, rows)
        assert not step, "there was a batch to die in"
    except Died:
        pass
    finally:
        engine.stop()


@pytest.mark.parametrize("mode", ["lease", "stream"])
@pytest.mark.parametrize("step", STEPS)
def test_dead_at_any_step_every_row_comes_once(
    penstock_url: str, tmp_path: Path, mode: str, step: str
) -> None:
    arguments: dict[str, str | int] = {**STREAM} if mode == "stream" else {}
    with queue_at(penstock_url, arguments) as (channel, queue):
        publish(channel, queue, 0, 100)
        given = earliest(penstock_url, queue, maxOffsetsPerTrigger="10")
        if mode == "lease":
            given = {"url": penstock_url, "queue": queue, "maxOffsetsPerTrigger": "10"}
        for _ in range(2):
            lives(tmp_path, given, 0, step)
        lives(tmp_path, given, 100)
        assert sorted(sunk(tmp_path), key=int) == numbers(100)
        if mode == "lease":
            # What the last trigger has settled is gone from the queue.
            assert channel.declare_queue(queue, passive=True).message_count == 0


@pytest.mark.parametrize("step", ["", *STEPS])
def test_a_stream_is_read_a_batch_at_a_time(penstock_url: str, tmp_path: Path, step: str) -> None:
    """What availableNow is without admission control; killed in the first batch, or never."""
    with queue_at(penstock_url, STREAM) as (channel, stream):
        publish(channel, stream, 0, 25)
        given = earliest(penstock_url, stream, maxOffsetsPerTrigger="10")
        once(tmp_path, given, step)
        publish(channel, stream, 25, 10)
        while once(tmp_path, given):
            pass
        assert sunk(tmp_path) == numbers(35)


def test_a_new_query_begins_at_the_end_of_a_stream(penstock_url: str, tmp_path: Path) -> None:
    with queue_at(penstock_url, STREAM) as (channel, stream):
        given = {"url": penstock_url, "queue": stream, "maxOffsetsPerTrigger": "10"}
        publish(channel, stream, 0, 25)
        once(tmp_path, given, "wal")
        publish(channel, stream, 25, 15)
        lives(tmp_path, given, 15)
        assert sunk(tmp_path) == numbers(40, 25)


@pytest.mark.parametrize("mode", ["lease", "queue"])
def test_a_queue_is_not_read_by_queries_that_ask_only_once(
    penstock_url: str, tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As with availableNow: nothing would be acknowledged. It is said, and nothing is taken."""
    with queue_at(penstock_url) as (channel, queue):
        publish(channel, queue, 0, 25)
        given = {"url": penstock_url, "queue": queue, "mode": mode}
        assert once(tmp_path, given) and not once(tmp_path, given)
        assert "nothing at all with trigger(availableNow=True)" in caplog.text
        assert sunk(tmp_path) == []
        lives(tmp_path, given, 25)
        publish(channel, queue, 25, 5)
        assert not once(tmp_path, given)
        assert sunk(tmp_path) == numbers(25)
        assert channel.declare_queue(queue, passive=True).message_count == 5
