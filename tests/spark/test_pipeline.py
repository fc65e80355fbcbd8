"""Spark against its naive twin: the same worlds must give the same tables, row by row."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import OperatorError
from penstock.spark.input.pipeline_input import FileInput
from penstock.spark.job.pipeline import BUCKET_NS
from penstock.spark.report.summary import TableSource, summarise
from penstock.spark.schema.formats import EVENT_FILES, read_run
from penstock.spark.schema.rows import Tables, nodes_of
from penstock.spark.tables.files import DAY_NS
from penstock.spark.tables.store import EVENTS
from tests.spark import oracle
from tests.spark.ground_truth import SHARE_MIN, named_share
from tests.spark.injected_causes import drawn, record
from tests.spark.marks import IN_SPARK
from tests.spark.oracle_input import read_events, read_traces
from tests.spark.synthetic import World, write_world

SLOW_CONSUMERS, SLOW_DISK = 9, 4
"""Seeds of culprits."""

pytestmark = IN_SPARK


@pytest.fixture
def job_on(spark: Any, tmp_path: Path) -> Callable[..., Any]:
    """Makes a job of an input, into the tables of the test; origin_ns: of its throughput."""
    from penstock.spark.job.job import SparkJob

    def job(place: Any, origin_ns: int = 0) -> SparkJob:
        return SparkJob(spark, place, tmp_path / "tables", BUCKET_NS, origin_ns)

    return job


def analysed(job: Any) -> tuple[Tables, TableSource]:
    """What the job makes of what is there now."""
    from penstock.spark.tables.loading import load_tables

    job.update()
    return load_tables(job.store), job.counts()


def twin_of(directory: Path, origin_ns: int = 0) -> Tables:
    """What plain Python makes of the same input."""
    events, traces = read_events(directory), read_traces(directory)
    return oracle.analyse(events, traces, BUCKET_NS, origin_ns)


def assert_same(tables: Tables, twin: Tables) -> None:
    for name, found, expected in zip(Tables._fields, tables, twin, strict=True):
        assert sorted(found) == sorted(expected), name


def test_spark_and_plain_python_agree(job_on: Callable[..., Any], tmp_path: Path) -> None:
    write_world(tmp_path / "in", World(seed=12, damaged=True, lost=2, duplicated=3))
    origin_ns = read_run(tmp_path / "in").origin_ns
    tables, counts = analysed(job_on(tmp_path / "in", origin_ns))
    assert_same(tables, twin_of(tmp_path / "in", origin_ns))
    assert (counts.events_missing, counts.unreadable_lines) == (3, 1)
    run = read_run(tmp_path / "in")
    summary = summarise(tables, run, counts)
    broken = {promise.name for promise in summary.promises if promise.state != "kept"}
    assert len(broken) == 2, broken
    assert {cause.cause for cause in summary.causes} == {
        "slow consumers",
        "memory alarm",
        "broker work",
    }


def test_in_parts_is_as_in_one_pass_and_nothing_new_changes_nothing(
    job_on: Callable[..., Any], tmp_path: Path
) -> None:
    """Whatever the files are cut into, also in a line, and with a second boot that comes later;
    two culprits of the simulator are named."""
    from penstock.spark.tables.loading import load_tables

    whole, growing = tmp_path / "whole", tmp_path / "growing"
    growing.mkdir()
    # Before the simulator's time: traces are those of the broker that was first in a directory.
    early_ns = 1_600_000_000 * 1_000_000_000
    write_world(whole, World(seed=16, damaged=True, lost=1, duplicated=2, wall_ns=early_ns))
    for path in whole.glob("*.jsonl"):
        data = path.read_bytes()
        (growing / path.name).write_bytes(data[: len(data) * 3 // 7])
    origin_ns = read_run(whole).origin_ns
    job = job_on(growing, origin_ns)
    assert job.update()
    culprits = [record(drawn(seed), str(whole)) for seed in (SLOW_CONSUMERS, SLOW_DISK)]
    for path in whole.glob("*.jsonl"):
        (growing / path.name).write_bytes(path.read_bytes())
    assert job.update()
    tables = load_tables(job.store)
    assert_same(tables, twin_of(whole, origin_ns))
    assert job.counts() == job_on(growing, origin_ns).counts()
    # Both culprits share the time of one directory: together they explain what the simulator held.
    simulated = [row for row in tables.root_cause if "lab-" in row.victim]
    shares = [named_share(simulated, truth) for truth in culprits]
    assert sum(shares) >= SHARE_MIN, shares
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "tables").rglob("*")}
    assert not job_on(growing, origin_ns).update()
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "tables").rglob("*")}


def test_tables_are_compacted_by_tasks_while_a_run_goes_on(
    job_on: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of them is read in the driver, whose memory would grow with the events."""
    from penstock.spark.tables import files, store, upkeep
    from penstock.spark.tables.loading import load_tables

    def in_the_driver(*given: object) -> None:
        raise AssertionError("rows are written again in the driver")

    monkeypatch.setattr(upkeep, "EVERY_S", 0.0)
    monkeypatch.setattr(upkeep, "MANY", 2)
    monkeypatch.setattr(upkeep, "merged", in_the_driver)
    monkeypatch.setattr(store, "CUT_HERE_BYTES", 0)
    monkeypatch.setattr(files, "_again", in_the_driver)
    whole, growing = tmp_path / "whole", tmp_path / "growing"
    growing.mkdir()
    write_world(whole, World(seed=21))
    origin_ns = read_run(whole).origin_ns
    job = job_on(growing, origin_ns)
    for share in (1, 2, 3):
        for path in whole.glob("*.jsonl"):
            data = path.read_bytes()
            (growing / path.name).write_bytes(data[: len(data) * share // 3])
        assert job.update()
    assert len(job.store.live(EVENTS)) == 2, "the newest, and one of all others"
    assert_same(load_tables(job.store), twin_of(whole, origin_ns))


def test_two_brokers_of_equal_names_are_not_mixed(
    job_on: Callable[..., Any], tmp_path: Path
) -> None:
    """Queues, connections, messages and files of both are called the same, and all of it happens at
    the same time; each has the tables that it has alone."""
    from penstock.spark.tables.loading import load_tables

    worlds = (
        World(seed=31, damaged=True, lost=1, duplicated=2),
        World(seed=32, messages=300, lost=2, node="b@test", boot_id="b2"),
    )
    whole = [tmp_path / f"whole-{number}" for number in range(2)]
    growing = [tmp_path / f"growing-{number}" for number in range(2)]
    for world, place, grown in zip(worlds, whole, growing, strict=True):
        write_world(place, world)
        grown.mkdir()
        for number, path in enumerate(sorted(place.glob("*.jsonl"))):
            data = path.read_bytes()
            # The traces of the first broker are longer than those of the second.
            (grown / path.name).write_bytes(data[: len(data) * (5 - number) // 6])
    origin_ns = read_run(whole[0]).origin_ns
    job = job_on([FileInput(place) for place in growing], origin_ns)
    assert job.update()
    for place, grown in zip(whole, growing, strict=True):
        for path in place.glob("*.jsonl"):
            (grown / path.name).write_bytes(path.read_bytes())
    assert job.update()
    twins = [twin_of(place, origin_ns) for place in whole]
    both = Tables(*(one + other for one, other in zip(*twins, strict=True)))
    tables = load_tables(job.store)
    assert_same(tables, both)
    assert nodes_of(tables) == {"a@test", "b@test"}
    summary = summarise(tables, read_run(whole[0]), job.counts())
    assert {one.name: one.state for one in summary.promises}["blame adds up to held time"] == "kept"
    assert not job.update()


def test_a_run_that_was_cut_short_is_finished_by_the_next(
    job_on: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bronze has the lines, nothing has been made of them yet, and the batch is not done."""
    write_world(tmp_path / "in", World(seed=17))
    cut = job_on(tmp_path / "in")

    def die(known: int, batch: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(cut._events, "update", die)
    with pytest.raises(OSError, match="no space left"):
        cut.update()
    tables, counts = analysed(job_on(tmp_path / "in"))
    assert_same(tables, twin_of(tmp_path / "in"))
    assert counts.trace_count > 0


def test_without_deltalake_all_tables_are_made_anew(
    job_on: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.spark.job import job as job_module
    from penstock.spark.tables.store import ParquetStore

    write_world(tmp_path / "in", World(seed=17, messages=100))
    with monkeypatch.context() as patched:
        patched.setattr(job_module, "open_store", ParquetStore)
        for _ in range(2):
            tables, _ = analysed(job_on(tmp_path / "in"))
            assert_same(tables, twin_of(tmp_path / "in"))
    # And with it they have all that was there, whatever had been read into the plain ones.
    tables, _ = analysed(job_on(tmp_path / "in"))
    assert_same(tables, twin_of(tmp_path / "in"))


def test_an_update_ends_although_the_broker_goes_on_writing(
    job_on: Callable[..., Any], tmp_path: Path
) -> None:
    """A torn line every 10 ms; and a checkpoint that is gone is not begun again."""
    write_world(tmp_path / "in", World(seed=18, messages=100))
    (path,) = (tmp_path / "in").glob(EVENT_FILES)
    is_over = threading.Event()

    def write_on() -> None:
        while not is_over.wait(0.01):
            with path.open("a", encoding="utf-8") as file:
                file.write("torn\n")

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        assert job_on(tmp_path / "in").update()
    finally:
        is_over.set()
        writer.join()
    whole = path.read_text(encoding="utf-8").count("torn\n")
    job = job_on(tmp_path / "in")
    assert job.counts().unreadable_lines < whole
    assert job.update() and job.counts().unreadable_lines == whole
    shutil.rmtree(tmp_path / "tables" / "checkpoint")
    with pytest.raises(OperatorError, match="is gone, which says how far"):
        job_on(tmp_path / "in").update()


def test_a_file_that_is_another_one_is_refused_in_one_sentence(
    job_on: Callable[..., Any], tmp_path: Path
) -> None:
    write_world(tmp_path / "in", World(seed=19, messages=50))
    assert job_on(tmp_path / "in").update()
    (path,) = (tmp_path / "in").glob(EVENT_FILES)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(OperatorError, match="it is another file") as fault:
        job_on(tmp_path / "in").update()
    assert len(str(fault.value)) < 400


def test_events_alone_are_enough(job_on: Callable[..., Any], tmp_path: Path) -> None:
    write_world(tmp_path / "in", World(seed=14))
    for path in (tmp_path / "in").glob("trace-*.jsonl"):
        path.unlink()
    tables, counts = analysed(job_on(tmp_path / "in"))
    assert counts.trace_count == 0
    assert tables.root_cause
    assert not tables.integrity
    # A short run, as cron would have it, ends with what is older than wanted being gone.
    again = job_on(tmp_path / "in")
    again.upkeep.keep_ns = again.upkeep.bronze_ns = DAY_NS
    tables, counts = analysed(again)
    assert not tables.root_cause and counts.event_count == 0


def test_traces_alone_are_enough(job_on: Callable[..., Any], tmp_path: Path) -> None:
    write_world(tmp_path / "in", World(seed=15))
    for path in (tmp_path / "in").glob("events-*.jsonl"):
        path.unlink()
    tables, counts = analysed(job_on(tmp_path / "in"))
    assert counts.event_count == 0
    assert tables.integrity
    assert not tables.root_cause
    # Then a broker of which nothing is known but that it is up: tables with columns and no rows.
    (tmp_path / "in" / "events-b.jsonl").write_text(
        '{"format":"penstock-events","boot_id":"b"}\n'
        '{"seq":0,"t":5,"kind":"actor_up","actor":"queue:/q","peer":"","reason":"","amount":0}\n'
    )
    again, counts = analysed(job_on(tmp_path / "in"))
    assert counts.event_count == 1
    assert (again.integrity, again.root_cause) == (tables.integrity, ())


def test_a_message_that_is_known_hides_none_of_its_name_at_another_broker(spark: Any) -> None:
    """One that began before the horizon is not made again; another broker's may have to be."""
    from penstock.spark.job.message_tables import lines_without

    lines = spark.createDataFrame(
        [("a", "m1"), ("b", "m1"), ("b", "m2")], "node STRING, message_id STRING"
    )
    known = spark.createDataFrame([("a", "m1")], "node STRING, message_id STRING")
    assert sorted(
        map(tuple, lines_without(lines, known).select("node", "message_id").collect())
    ) == [("b", "m1"), ("b", "m2")]


def test_tables_may_lie_in_a_directory_with_odd_characters(spark: Any, tmp_path: Path) -> None:
    import pyarrow as pa

    from penstock.spark.job.job import SparkJob

    job = SparkJob(spark, tmp_path / "in", tmp_path / "run [1] {a,b} *?", BUCKET_NS)
    job.store.replace("gold/latency", pa.table({"node": ["a"]}), 0)
    assert [row["node"] for row in job._read("gold/latency").collect()] == ["a"]


def test_percentiles_of_many_holds_are_those_of_their_lengths(spark: Any) -> None:
    """Two buckets of more lengths than a sketch has room for, merged by Spark."""
    import numpy as np
    import pyarrow as pa

    from penstock.spark.job import message_tables
    from penstock.spark.job.sketches import sketch
    from penstock.spark.schema.arrow_columns import HOLD_SKETCH

    buckets = [(np.random.default_rng(seed).pareto(1, 30_001) * 1e6).astype(int) for seed in (1, 2)]
    rows = [
        {
            "bucket_ns": number,
            "stage": "conn ← chan",
            "messages": len(lengths),
            "max_ns": int(lengths.max()),
            "sketch": sketch(lengths),
        }
        for number, lengths in enumerate(buckets)
    ]
    table = spark.createDataFrame(pa.Table.from_pylist(rows, schema=HOLD_SKETCH))
    found = message_tables.stage_cdf(None, table).toArrow().to_pylist()
    ordered = np.sort(np.concatenate(buckets))
    assert {row["samples"] for row in found} == {len(ordered)}
    for row in found:
        low = np.searchsorted(ordered, row["value_ns"], "left") / len(ordered)
        high = np.searchsorted(ordered, row["value_ns"], "right") / len(ordered)
        assert low - 0.001 <= row["rank"] <= high + 0.001
