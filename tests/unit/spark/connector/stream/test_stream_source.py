"""Batches of streams are cut into tasks: by cores where nobody said it; how Spark's are known."""

import subprocess
import sys
from dataclasses import replace

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark import cloudpickle
from pyspark.sql.types import StructType

from penstock.base.errors import OperatorError
from penstock.spark.connector.common import offsets
from penstock.spark.connector.common.options import parse_source
from penstock.spark.connector.common.reader import RangePartition
from penstock.spark.connector.source import AmqpDataSource, shape_of, source_for
from penstock.spark.connector.stream.stream_source import StreamStreamReader


def ranges(stop: int, cores: int, **given: str) -> list[tuple[int, int]]:
    """What the tasks of the first `stop` rows read."""
    options = replace(parse_source({"queue": "s", "mode": "stream", **given}), cores=cores)
    reader = StreamStreamReader(options, shape_of(options))
    start, end = (offsets.written("stream", ("s",), [number], False) for number in (0, stop))
    parts = reader.partitions(start, end)
    assert all(isinstance(part, RangePartition) for part in parts)
    return [(part.first, part.stop) for part in parts if isinstance(part, RangePartition)]


def test_large_range_is_read_by_all_cores_and_a_small_one_by_one() -> None:
    assert ranges(250_000, 2) == [(0, 125_000), (125_000, 250_000)]
    assert ranges(199_999, 2) == [(0, 199_999)]
    assert ranges(250_000, 1) == [(0, 250_000)]


def test_min_partitions_of_the_user_wins() -> None:
    assert ranges(900_000, 8, minPartitions="1") == [(0, 900_000)]
    assert ranges(30, 1, minPartitions="3") == [(0, 10), (10, 20), (20, 30)]


@pytest.mark.parametrize(
    ("reader", "option", "fitting"),
    [
        ("streamReader", "endingOffsets", "is for spark.read, and"),
        ("streamReader", "endingTimestamp", "availableNow"),
        ("reader", "group", "is for spark.readStream, and this.* no stream waits"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(reader: str, option: str, fitting: str) -> None:
    source = AmqpDataSource({"queue": "s", "mode": "stream", option: "7"})
    with pytest.raises(OperatorError, match=f"option {option} .*{fitting}"):
        found = getattr(source, reader)(StructType())
        # Of a stream reader the first question tells it.
        found.initialOffset()


def test_cores_and_name_reach_processes_that_could_not_ask_for_them() -> None:
    # What is registered is pickled here and unpickled in processes that Java starts.
    there = (
        "import pickle, sys; one = pickle.load(sys.stdin.buffer); print(one.cores, one.application)"
    )
    sent = cloudpickle.dumps(source_for(37, "bills"))  # type: ignore[no-untyped-call]  # PySpark's
    run = subprocess.run(
        [sys.executable, "-c", there], input=sent, capture_output=True, timeout=200
    )
    assert run.stdout.strip() == b"37 bills", run.stderr
