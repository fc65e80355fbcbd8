"""A stream that was deleted and made anew, and has grown beyond the checkpoint: no row of the new
one is ever taken for one of the old, wherever the query was. And one of which retention has taken
rows that a query had not read."""

import logging
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from penstock.base.errors import OperatorError
from penstock.client.io_blocking import Channel
from tests.spark.engine import Engine, die, earliest, live, numbers, sunk
from tests.spark.marks import READERS
from tests.spark.through_amqp import PATIENCE_MS, publish, queue_at

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


def test_what_retention_took_is_passed_in_one_batch_and_told(
    penstock_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With failOnDataLoss=false: not batch by batch, for as long as reading it would have taken."""
    kept: dict[str, str | int] = {"x-max-length-bytes": 20_000}
    arguments = {**STREAM, **kept, "x-stream-max-segment-size-bytes": 5_000}
    with queue_at(penstock_url, arguments) as (channel, stream):
        publish(channel, stream, 0, 2)
        given = options(penstock_url, stream, failOnDataLoss="false")
        live(tmp_path, given)
        for number in range(2, 60):
            channel.publish("", stream, b"%d" % number + bytes(4_000))
            channel.wait_for_confirms(PATIENCE_MS)
        first = channel.request("stream.offsets", {"queue": stream})["first"]
        assert isinstance(first, int) and first > 40
        with caplog.at_level(logging.WARNING, logger="penstock.spark"):
            engine = Engine(tmp_path, given)
            assert engine.step()
            engine.stop()
        found = [row.partition("\0")[0] for row in sunk(tmp_path)]
        assert found == [*numbers(2), *numbers(first + 2, first)]
        assert f"offsets 2..{first - 1} ({first - 2} rows) are gone" in caplog.text
