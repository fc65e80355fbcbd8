"""A stream that was deleted and made anew, and has grown beyond the checkpoint: no row of the new
one is ever taken for one of the old, wherever the query was."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from penstock.base.errors import OperatorError
from penstock.client.io_blocking import Channel
from tests.spark.engine import Engine, die, earliest, numbers, sunk
from tests.spark.marks import READERS
from tests.spark.through_amqp import publish, queue_at

pytestmark = READERS

STREAM = {"x-queue-type": "stream"}
OLD = numbers(10)


def options(url: str, stream: str, **more: str) -> dict[str, str]:
    """Of a query that takes two rows at a time."""
    return earliest(url, stream, maxOffsetsPerTrigger="2", **more)


def make_anew(channel: Channel, stream: str) -> None:
    channel.delete_queue(stream)
    channel.declare_queue(stream, durable=True, arguments=dict(STREAM))
    publish(channel, stream, 1000, 20)


@pytest.mark.parametrize("more", [{}, {"group": "etl"}, {"readMode": "amqp"}], ids=str)
def test_a_query_that_is_behind_notices_it_before_its_next_batch(
    penstock_url: str, tmp_path: Path, more: dict[str, str]
) -> None:
    """It reads from what it knows to be there, and has no consumer at the end."""
    with queue_at(penstock_url, STREAM) as (channel, stream):
        publish(channel, stream, 0, 10)
        engine = Engine(tmp_path, options(penstock_url, stream, **more))
        engine.step()
        engine.step()
        make_anew(channel, stream)
        with pytest.raises(OperatorError, match=r"made anew.* 0 to 20, .* is at 4 "):
            engine.step()
        engine.stop()
        assert sunk(tmp_path) == OLD[:4]
        # Nor does the new one wait for anybody.
        answer = channel.request("stream.groups", {"queue": stream})
        assert answer["groups"] == []


@pytest.mark.parametrize("batches", [0, 1])
def test_a_batch_that_died_is_not_run_again_with_rows_of_another_stream(
    penstock_url: str, tmp_path: Path, batches: int
) -> None:
    """Spark plans nothing before it has run what is in its log. Of the first batch it asks again
    where it begins, and is told where the new stream does."""
    with queue_at(penstock_url, STREAM) as (channel, stream):
        publish(channel, stream, 0, 10)
        given = options(penstock_url, stream)
        die(tmp_path, given, "wal", triggers=batches)
        make_anew(channel, stream)
        engine = Engine(tmp_path, given)
        with pytest.raises(OperatorError, match=f"made anew.* is at {2 * batches} "):
            engine.step()
        engine.stop()
        assert sunk(tmp_path) == OLD[: 2 * batches]
