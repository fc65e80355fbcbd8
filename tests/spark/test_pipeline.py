"""Spark against its naive twin: the same worlds must give the same tables, row by row."""

from pathlib import Path
from typing import Any

import pytest

from penstock.spark import plain
from penstock.spark.formats import read_events, read_run, read_traces
from penstock.spark.pipeline import BUCKET_NS
from penstock.spark.rows import Tables
from penstock.spark.summary import Source, summarise
from tests.spark.synthetic import World, write_world

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    # PySpark 4.3 leaves its own sockets and deprecated calls behind.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning",
        "ignore::DeprecationWarning",
        "ignore::FutureWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]


def both(spark: Any, directory: Path, world: World) -> tuple[Tables, Tables, Any]:
    from penstock.spark.job import SparkJob

    write_world(directory / "in", world)
    origin_ns = read_run(directory / "in").origin_ns
    job = SparkJob(spark, directory / "in", directory / "tables", BUCKET_NS, origin_ns)
    tables, counts = job.run()
    events, traces = read_events(directory / "in"), read_traces(directory / "in")
    return tables, plain.analyse(events, traces, BUCKET_NS, origin_ns), counts


@pytest.mark.parametrize(
    "world",
    [
        World(seed=11),
        World(seed=12, damaged=True, lost=2, duplicated=3),
    ],
    ids=["clean", "damaged"],
)
def test_spark_and_plain_python_agree(spark: Any, tmp_path: Path, world: World) -> None:
    tables, twin, counts = both(spark, tmp_path, world)
    for name, found, expected in zip(Tables._fields, tables, twin, strict=True):
        if name == "latency":
            assert [row[:4] for row in found] == [row[:4] for row in expected]
            for one, other in zip(found, expected, strict=True):
                assert one[4:] == pytest.approx(other[4:])
        else:
            assert sorted(found) == sorted(expected), name
    assert (counts.events_missing, counts.unreadable_lines) == ((3, 1) if world.damaged else (0, 0))
    run = read_run(tmp_path / "in")
    summary = summarise(tables, run, Source("spark", "", *counts))
    broken = {promise.name for promise in summary.promises if promise.state != "kept"}
    assert len(broken) == (2 if world.lost else 0), broken
    assert {cause.cause for cause in summary.causes} == {
        "slow consumers",
        "memory alarm",
        "broker work",
    }


def test_events_alone_are_enough(spark: Any, tmp_path: Path) -> None:
    from penstock.spark.job import SparkJob

    write_world(tmp_path / "in", World(seed=14))
    for path in (tmp_path / "in").glob("trace-*.jsonl"):
        path.unlink()
    tables, counts = SparkJob(spark, tmp_path / "in", tmp_path / "tables", BUCKET_NS).run()
    assert counts.trace_count == 0
    assert tables.root_cause
    assert not tables.integrity


def test_traces_alone_are_enough(spark: Any, tmp_path: Path) -> None:
    from penstock.spark.job import SparkJob

    write_world(tmp_path / "in", World(seed=15))
    for path in (tmp_path / "in").glob("events-*.jsonl"):
        path.unlink()
    tables, counts = SparkJob(spark, tmp_path / "in", tmp_path / "tables", BUCKET_NS).run()
    assert counts.event_count == 0
    assert tables.integrity
    assert not tables.root_cause
