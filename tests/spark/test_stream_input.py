"""Spark and the broker's own stream: read while it is written to, it gives the rows of files."""

import time
from pathlib import Path
from typing import Any

import pytest

from penstock.protocol.values import Table
from penstock.spark.input.stream_input import InputAway, StreamInput
from penstock.spark.job.pipeline import BUCKET_NS
from penstock.spark.tables.loading import load_tables
from penstock.spark.tables.store import open_store
from tests.conformance.live import penstock_process
from tests.patience import until
from tests.spark.marks import IN_SPARK
from tests.spark.oracle_input import read_events
from tests.spark.through_amqp import patiently

pytestmark = IN_SPARK

SECRET = "guest:guest"


def held(url: str) -> None:
    """A publisher that is held for a while: nobody takes what it sends, until it is purged."""
    with patiently(url) as connection, patiently(url) as other:
        channel, broom = connection.channel(), other.channel()
        bounds: Table = {"x-max-length": 5, "x-overflow": "backpressure"}
        channel.declare_queue("full", arguments=bounds)
        channel.confirm_select()
        for _ in range(600):
            channel.publish("", "full", b"x")
        for _ in range(2):
            time.sleep(0.3)
            broom.purge_queue("full")
        broom.delete_queue("full")
        channel.wait_for_confirms(60_000)


def bronze_of(tables: Path) -> Any:
    return open_store(tables).read("bronze/events")


def die(known: int, batch: int) -> None:
    raise OSError("no space left on device")


def test_the_stream_is_in_the_tables_as_files_are(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three updates, of which one dies behind bronze; then a broker that begins a new stream."""
    from penstock.spark.job.job import SparkJob

    tables, events = tmp_path / "tables", tmp_path / "events"
    for life in range(2):
        (folder := tmp_path / f"life-{life}").mkdir()
        options = ("--event-stream", "--events", str(events))
        with penstock_process(folder, *options) as broker:
            for is_killed in (False, True, False) if life == 0 else (False,):
                held(broker.url)
                # The broker writes what is there once a second.
                time.sleep(1.5)
                job = SparkJob(spark, StreamInput(broker.url), tables, BUCKET_NS)
                if is_killed:
                    job._derive = lambda: 1 / 0  # type: ignore[assignment, return-value]
                    with pytest.raises(ZeroDivisionError):
                        job.update()
                else:
                    assert job.update()
    rows = bronze_of(tables)
    columns = ("boot_id", "seq", "t_ns", "kind", "actor", "peer", "reason", "amount")
    read = sorted(zip(*(rows[name].to_pylist() for name in columns), strict=True))
    files = read_events(events).events
    boots = {one.boot_id for one in files}
    assert len(boots) == 2 and {one[0] for one in read} == boots
    for boot in boots:
        of_file = [one[: len(columns)] for one in files if one.boot_id == boot]
        of_stream = [one for one in read if one[0] == boot]
        assert of_stream == of_file[: len(of_stream)] and len(of_stream) > 10
    assert sum(one[3] == "gate_closed" for one in read) >= 4
    assert rows["unreadable"].null_count == len(rows)
    assert load_tables(open_store(tables)).root_cause
    assert len(list((tables / "checkpoint").iterdir())) == 2
    for path in tables.rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


def test_a_broker_that_is_away_is_told_in_a_sentence(spark: Any, tmp_path: Path) -> None:
    from penstock.spark.job.job import SparkJob

    with penstock_process(tmp_path, "--event-stream") as broker:
        stream = StreamInput(broker.url)
        known = stream.query()
        job = SparkJob(spark, stream, tmp_path / "tables", BUCKET_NS)
        # The broker writes once a second.
        until(job.update, "events in the stream")
    stream.query = lambda: known  # type: ignore[method-assign]
    with pytest.raises(InputAway) as fault:
        job.update()
    assert len(str(fault.value)) < 300 and SECRET not in str(fault.value)
