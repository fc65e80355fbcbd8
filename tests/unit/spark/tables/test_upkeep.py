"""Compaction, expiry and vacuum of Delta tables: no row is changed, and none goes too early."""

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytest.importorskip("deltalake", reason="deltalake is not installed")

import pyarrow.parquet as pq  # noqa: E402

from penstock.base.errors import OperatorError  # noqa: E402
from penstock.spark.schema.arrow_columns import (  # noqa: E402
    ALARM_INTERVAL,
    BLOCK_INTERVAL,
    CONSUMER,
    COVERAGE,
    HELD_TIME,
)
from penstock.spark.tables import store as tables_store  # noqa: E402
from penstock.spark.tables import upkeep  # noqa: E402
from penstock.spark.tables.files import (  # noqa: E402
    DAY_NS,
    day_of,
    without,
    write_days,
)
from penstock.spark.tables.loading import present  # noqa: E402
from penstock.spark.tables.store import FLOOR, DeltaStore, ParquetStore  # noqa: E402
from penstock.spark.tables.upkeep import compact, expire, tables_to_keep, vacuum  # noqa: E402

HELD, HOLDS, ALARMS = "gold/held_time", "silver/block_interval", "silver/alarm_interval"
CONSUMERS, COVER = "silver/consumer", "gold/coverage"
NOW_NS = 20_000 * DAY_NS + DAY_NS // 2


def held(*days: float) -> Any:
    """A row for each day before NOW_NS, or part of one."""
    rows = [
        {"bucket_ns": NOW_NS - round(day * DAY_NS), "actor": f"a{day}", "held_ns": 1}
        for day in days
    ]
    return pa.Table.from_pylist(rows, schema=HELD_TIME)


def append(store: DeltaStore, name: str, rows: Any, column: str, batch: int) -> None:
    parts = write_days(store.place(name), batch, rows, column)
    store.exchange(name, parts, rows.schema, batch, column, 1 << 62)


def actors(store: DeltaStore) -> list[str]:
    table = store.read(HELD)
    return [] if table is None else sorted(table["actor"].to_pylist())


def open_hold(began_days: float, last_days: float) -> Any:
    """Days before NOW_NS: when it began, and when its broker said something for the last time."""
    row = dict.fromkeys(BLOCK_INTERVAL.names, "")
    times = {
        "start_ns": NOW_NS - round(began_days * DAY_NS),
        "end_ns": NOW_NS - round(last_days * DAY_NS),
    }
    what = {"closed_by": "end_of_data", "is_lone": False}
    return pa.Table.from_pylist([{**row, **times, **what}], BLOCK_INTERVAL)


@pytest.fixture
def store(tmp_path: Path) -> DeltaStore:
    return DeltaStore(tmp_path)


def test_files_of_a_day_become_one_and_readers_of_the_old_version_go_on(store: DeltaStore) -> None:
    for batch in range(6):
        append(store, HELD, held(0.1 * batch, 3 + 0.01 * batch), "bucket_ns", batch)
    before, old = actors(store), store.files(HELD)
    (told,) = compact(store, is_dry=True)
    assert (told.files, told.days[0], len(told.days), store.files(HELD)) == (
        12, "2024-10-01", 2, old,
    )  # fmt: skip
    assert list(compact(store, is_dry=False)) == [told]
    assert (len(store.files(HELD)), actors(store), store.batch(HELD)) == (2, before, 5)
    assert list(compact(store, is_dry=False)) == []
    # Nothing that was there a moment ago is gone from the disk, until it has been for an hour.
    assert list(vacuum(store, is_dry=False)) == []
    assert all(pq.read_metadata(file).num_rows for file in old)
    spans = {(file.low, file.high, day_of(file.path)) for file in store.live(HELD, "bucket_ns")}
    assert (NOW_NS - round(0.5 * DAY_NS), NOW_NS, "2024-10-04") in spans
    (gone,) = vacuum(store, is_dry=True, grace_hours=0)
    assert gone.files == 12 and all(Path(file).exists() for file in old)
    list(vacuum(store, is_dry=False, grace_hours=0))
    assert not any(Path(file).exists() for file in old) and actors(store) == before


def test_what_tasks_left_behind_goes_after_an_hour(store: DeltaStore) -> None:
    append(store, HELD, held(0), "bucket_ns", 0)
    young, old = (store.place(HELD) / f"date=2024-10-04/part-{one}.parquet" for one in "yo")
    for path in (young, old):
        path.write_bytes(b"of a task that died")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    assert [one.files for one in vacuum(store, is_dry=False)] == [1]
    assert young.exists() and not old.exists() and actors(store) == ["a0"]


def test_whole_days_go_and_bronze_earlier_than_the_rest(store: DeltaStore) -> None:
    days = (0, 2, 5, 9.4, 9.6)
    for name in (HELD, "bronze/events"):
        append(store, name, held(*days), "bucket_ns", 0)
    expected = [("bronze/events", 3), (HELD, 1)]
    for is_dry in (True, False):
        told = list(expire(store, 9 * DAY_NS, 4 * DAY_NS, NOW_NS, is_dry))
        assert [(one.table, one.rows) for one in told] == expected
        # 9.4 and 9.6 days ago were two days; of the later one a part is younger than that.
        assert ("a9.6" in actors(store)) == is_dry
    assert actors(store) == ["a0", "a2", "a5", "a9.4"]
    assert store.number("bronze/events", FLOOR) == 19_996 * DAY_NS
    assert list(expire(store, 9 * DAY_NS, 4 * DAY_NS, NOW_NS, is_dry=False)) == []


def test_lines_that_cannot_be_read_go_with_the_day_on_which_they_came(store: DeltaStore) -> None:
    """They have no time. That they are missing is told on the page as long as they are kept."""
    lines = pa.table({"t_ns": pa.array([None], pa.int64()), "unreadable": ["{torn"]})
    append(store, "bronze/events", lines, "t_ns", 0)
    today_ns = time.time_ns()
    list(expire(store, DAY_NS, DAY_NS, today_ns, is_dry=False))
    assert present(store, "bronze/events", "unreadable") == 1
    list(expire(store, DAY_NS, DAY_NS, today_ns + 2 * DAY_NS, is_dry=False))
    assert present(store, "bronze/events", "unreadable") == 0


@pytest.mark.parametrize(("last_days", "left"), [(0.0, ["a0", "a5"]), (2.0, ["a0"])])
def test_what_is_open_is_kept_while_its_broker_is_there(
    store: DeltaStore, last_days: float, left: list[str]
) -> None:
    append(store, HELD, held(0, 5, 9), "bucket_ns", 0)
    append(store, HOLDS, open_hold(6.0, last_days), "end_ns", 0)
    append(store, ALARMS, ALARM_INTERVAL.empty_table(), "end_ns", 0)
    list(expire(store, DAY_NS, DAY_NS, NOW_NS, is_dry=False))
    assert actors(store) == left
    assert (store.read(HOLDS) is not None) == (last_days == 0.0)


def test_consumers_go_with_the_last_that_is_known_of_their_boot(store: DeltaStore) -> None:
    """One that has come nine days ago is kept while its boot is there."""
    rows = [
        {"boot_id": boot, "consumer": f"consumer:{boot}", "since_ns": NOW_NS - 9 * DAY_NS}
        for boot in ("over", "alive")
    ]
    blank = dict.fromkeys(CONSUMER.names, "")
    consumers = pa.Table.from_pylist([{**blank, **row} for row in rows], schema=CONSUMER)
    append(store, CONSUMERS, consumers, "since_ns", 3)
    seen = [("over", 9), ("over", 8), ("alive", 9), ("alive", 0)]
    buckets = [{"boot_id": boot, "bucket_ns": NOW_NS - age * DAY_NS} for boot, age in seen]
    append(store, COVER, pa.Table.from_pylist(buckets, schema=COVERAGE), "bucket_ns", 3)

    def left() -> list[str]:
        table = store.read(CONSUMERS)
        return [] if table is None else sorted(table["boot_id"].to_pylist())

    for days, is_dry, expected in (
        (20, False, ["alive", "over"]),
        (5, True, ["alive", "over"]),
        (5, False, ["alive"]),
    ):
        told = {one.table: one.rows for one in expire(store, days * DAY_NS, DAY_NS, NOW_NS, is_dry)}
        assert left() == expected
        assert told == ({} if days == 20 else {CONSUMERS: 1, COVER: 3})
    assert store.batch(CONSUMERS) == 3
    assert list(expire(store, 5 * DAY_NS, DAY_NS, NOW_NS, is_dry=False)) == []


def test_a_run_leaves_alone_what_its_next_batch_makes_anew(store: DeltaStore) -> None:
    """Or each batch would write a large file again, because of its last rows."""
    for batch in range(6):
        append(store, HELD, held(0.09 - 0.01 * batch, 0.085 - 0.01 * batch), "bucket_ns", batch)
    newest = max(store.live(HELD, "bucket_ns"), key=lambda file: file.high)
    assert len(list(compact(store, is_dry=False, leaves_newest=True))) == 1
    assert len(store.files(HELD)) == 2 and newest.path in {one.path for one in store.live(HELD)}
    assert list(compact(store, is_dry=False, leaves_newest=True)) == []
    assert len(list(compact(store, is_dry=False))) == 1 == len(store.files(HELD))
    assert len(actors(store)) == 12


def test_rows_of_a_large_file_are_written_again_where_a_run_says(
    store: DeltaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def cut(place: Path, path: str, *rest: Any) -> Any:
        asked.append(path)
        return without(place, path, *rest)

    store.cut = cut
    store.replace(HELD, held(0.3, 0.2, 0.1), 0, "bucket_ns")
    store.replace(HELD, held(0.1), 1, "bucket_ns", NOW_NS - round(0.15 * DAY_NS))
    assert asked == [], "it is small"
    monkeypatch.setattr(tables_store, "CUT_HERE_BYTES", 0)
    (large,) = (one.path for one in store.live(HELD, "bucket_ns") if one.rows == 2)
    store.replace(HELD, held(0.05), 2, "bucket_ns", NOW_NS - round(0.25 * DAY_NS))
    assert asked == [large]
    assert actors(store) == ["a0.05", "a0.3"]


def test_beside_a_writer_no_row_is_lost_and_none_is_there_twice(tmp_path: Path) -> None:
    """A writer that takes back its last rows with every batch, as a run that follows does."""
    store, over = DeltaStore(tmp_path), threading.Event()
    append(store, HELD, held(3), "bucket_ns", 0)
    merged: list[upkeep.Done] = []

    def tidy() -> None:
        while not over.is_set():
            merged.extend(compact(DeltaStore(tmp_path), is_dry=False))
            list(vacuum(DeltaStore(tmp_path), is_dry=False))

    thread = threading.Thread(target=tidy)
    thread.start()
    try:
        for batch in range(1, 60):
            new = held(1 - batch / 100, 0.99 - batch / 100)
            store.replace(HELD, new, batch, "bucket_ns", NOW_NS - round((1 - batch / 100) * DAY_NS))
    finally:
        over.set()
        thread.join()
    expected = [*(f"a{1 - batch / 100}" for batch in range(1, 60)), f"a{0.99 - 59 / 100}", "a3"]
    assert actors(store) == sorted(expected)
    assert merged


def test_plain_parquet_has_nothing_to_keep(tmp_path: Path) -> None:
    ParquetStore(tmp_path).replace(HELD, held(1), 0, "bucket_ns")
    with pytest.raises(OperatorError, match="there is nothing to expire"):
        tables_to_keep(tmp_path, "expire")
