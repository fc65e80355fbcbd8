"""Keeps tables small: few large files instead of many small ones, and nothing older than wanted.

Both are commits of the table's log like any other, a run that follows may go on meanwhile, and
readers of an older version find its files for `GRACE_HOURS` more. Bounded: one file of up to
`LARGE_BYTES` is written at a time, a group of its rows in memory; for a run by a task of Spark's,
so that its driver's memory does not depend on how much there is.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.base.errors import OperatorError
from penstock.spark.tables.files import (
    DAY_NS,
    WrittenFile,
    day_name,
    day_of,
    merged,
    time_of,
    write_days,
)
from penstock.spark.tables.store import (
    FLOOR,
    UNDATED,
    Change,
    DeltaStore,
    TableStore,
    existing_store,
)

LARGE_BYTES: Final = 128 << 20
SMALL_BYTES: Final = LARGE_BYTES // 2
"""Files that are larger are left as they are."""

GRACE_HOURS: Final = 1
"""How long files that no version needs any more are kept for readers that may still read them."""

EVERY_S: Final = 120.0
MANY: Final = 32

CONSUMERS: Final = "silver/consumer"
"""Without an age: who is a consumer of which queue is needed as long as blame of its boot may be
made again."""

COVERAGE: Final = "gold/coverage"


Merge = Callable[[Path, Sequence[str], int, str], WrittenFile | None]
"""Writes the rows of files anew, as `merged_if_there`."""


class Done(NamedTuple):
    """What was done, or would be, to one table. days: which, in order; files, bytes: that go;
    rows: that go for good."""

    table: str
    days: tuple[str, ...]
    files: int
    bytes: int
    rows: int


def tables_to_keep(directory: Path, what: str) -> DeltaStore:
    """The tables of `directory`. Raises: OperatorError if they are no Delta tables."""
    store = existing_store(directory)
    if isinstance(store, DeltaStore):
        return store
    raise OperatorError(
        f"{directory} has no Delta tables, and plain Parquet is made anew by every run: there is "
        f"nothing to {what}; give the directory of `penstock pipeline run --tables`"
    )


def merged_if_there(
    place: Path, paths: Sequence[str], batch: int, column: str
) -> WrittenFile | None:
    """The rows of files of one day in a new one; None when some of them are gone. Raises:
    OSError."""
    try:
        return merged(place, paths, batch, column)
    except FileNotFoundError:
        return None


def compact(
    store: DeltaStore,
    is_dry: bool,
    at_least: int = 2,
    names: Sequence[str] = (),
    merge: Merge = merged_if_there,
    leaves_newest: bool = False,
) -> Iterator[Done]:
    """Put small files of one table and day together, where there are `at_least` so many; what was
    done, table by table. names: of the tables, all for none; leaves_newest: but those that reach
    into the time of the newest one, because the next batch of a run makes that time anew, and with
    it whatever file it is in. Raises: OperatorError, OSError."""
    for name in names or store.names():
        column = time_column(store, name)
        live = store.live(name, column)
        if leaves_newest and column and live:
            newest = max(live, key=lambda file: file.high)
            live = [file for file in live if file.high < newest.low]
        groups = _groups(live, at_least)
        done = [group for group in groups if is_dry or _merge(store, name, group, column, merge)]
        if done:
            files = [file for group in done for file in group]
            yield _told(name, files, rows=0)


def _groups(live: Sequence[WrittenFile], at_least: int) -> list[list[WrittenFile]]:
    small = [file for file in live if file.bytes < SMALL_BYTES]
    small.sort(key=lambda file: (day_of(file.path), file.low, file.path))
    groups: list[list[WrittenFile]] = []
    for _, files in groupby(small, key=lambda file: day_of(file.path)):
        room = 0
        for file in files:
            if file.bytes > room:
                groups.append([])
                room = LARGE_BYTES
            groups[-1].append(file)
            room -= file.bytes
    return [group for group in groups if len(group) >= at_least]


def _merge(
    store: DeltaStore, name: str, group: Sequence[WrittenFile], column: str, merge: Merge
) -> bool:
    """Whether the files were still those of the table when theirs was ready."""
    paths = [file.path for file in group]
    one = merge(store.place(name), paths, store.batch(name), column)
    if one is None:
        return False
    is_done = False

    def plan(live: Sequence[WrittenFile]) -> tuple[list[str], list[WrittenFile]]:
        nonlocal is_done
        is_done = {file.path for file in live}.issuperset(paths)
        return (paths, [one]) if is_done else ([], [])

    store.change(name, store.columns(name), Change({}, column, is_same=True), plan)
    if not is_done:
        (store.place(name) / one.path).unlink()
    return is_done


def expire(
    store: DeltaStore, keep_ns: int, bronze_ns: int, now_ns: int, is_dry: bool
) -> Iterator[Done]:
    """Take files out of the tables whose rows are all older than `keep_ns`, those of bronze
    `bronze_ns`; what was done, table by table. What belongs to holds and alarms that are still open
    is kept. Raises: OperatorError."""
    open_ns = open_since(store, now_ns - min(keep_ns, bronze_ns))
    for name in store.names():
        column = time_column(store, name)
        if not column or name == CONSUMERS:
            continue
        age_ns = bronze_ns if name.startswith("bronze/") else keep_ns
        # Whole days, as the tables are partitioned: a bucket, or a hold, is never half there.
        until_ns = min(now_ns - age_ns, open_ns) // DAY_NS * DAY_NS
        # By their day: a file of lines that cannot be read has no times.
        first = day_name(until_ns // DAY_NS)
        found = [file for file in store.live(name, column) if "" < day_of(file.path) < first]
        if found and not is_dry:
            _remove(store, name, found, column, until_ns)
        if found:
            yield _told(name, found, rows=sum(file.rows for file in found))
    yield from _forget(store, min(now_ns - keep_ns, open_ns) // DAY_NS * DAY_NS, is_dry)


def _forget(store: DeltaStore, until_ns: int, is_dry: bool) -> Iterator[Done]:
    """Take the consumers of boots out of which nothing is left behind `until_ns`."""
    place, live = store.place(CONSUMERS), store.live(CONSUMERS, "since_ns")
    left = [file for file in store.live(COVERAGE, "bucket_ns") if file.high >= until_ns]
    if not live or store.table(COVERAGE) is None:
        return
    parts = (pq.read_table(store.place(COVERAGE) / one.path, columns=["boot_id"]) for one in left)
    boots = {boot_id for part in parts for boot_id in part["boot_id"].unique().to_pylist()}
    gone: list[WrittenFile] = []
    new: list[WrittenFile] = []
    count = 0
    for file in live:
        with pq.ParquetFile(place / file.path) as source:
            rows = source.read()
        kept = rows.filter(pc.is_in(rows["boot_id"], pa.array(sorted(boots), pa.string())))
        if len(kept) < len(rows):
            gone.append(file)
            count += len(rows) - len(kept)
            if not is_dry:
                new += write_days(place, store.batch(CONSUMERS), kept, "since_ns")
    if not gone:
        return
    paths = [file.path for file in gone]

    def plan(live: Sequence[WrittenFile]) -> tuple[list[str], list[WrittenFile]]:
        # A batch that came between has put others in their place.
        return (paths, new) if {file.path for file in live}.issuperset(paths) else ([], [])

    if not is_dry:
        store.change(CONSUMERS, store.columns(CONSUMERS), Change({}, "since_ns"), plan)
    yield _told(CONSUMERS, gone, rows=count)


def _remove(
    store: DeltaStore, name: str, found: Sequence[WrittenFile], column: str, until_ns: int
) -> None:
    paths = {file.path for file in found}

    def plan(live: Sequence[WrittenFile]) -> tuple[list[str], list[WrittenFile]]:
        return [file.path for file in live if file.path in paths], []

    marks = {FLOOR: max(until_ns, store.number(name, FLOOR))}
    store.change(name, store.columns(name), Change(marks, column), plan)


def open_since(store: DeltaStore, until_ns: int) -> int:
    """When the first of the holds and alarms began that are open, and not of a broker that has said
    nothing since `until_ns`; far in the future for none."""
    found: list[int] = []
    for name, is_open in (
        ("silver/block_interval", pc.field("closed_by") == "end_of_data"),
        ("silver/alarm_interval", pc.field("is_open")),
    ):
        for file in store.files(name):
            wanted = is_open & (pc.field("end_ns") >= until_ns)
            rows = pq.read_table(file, columns=["start_ns"], filters=wanted)
            found += [one for one in (pc.min(rows["start_ns"]).as_py(),) if one is not None]
    return min(found, default=(1 << 63) - 1)


def vacuum(store: DeltaStore, is_dry: bool, grace_hours: int = GRACE_HOURS) -> Iterator[Done]:
    """Remove files from the disk that no version has needed for `grace_hours`, those of tasks that
    died among them; what was done, table by table. Raises: OSError."""
    for name in store.names():
        table = store.table(name)
        if table is None:
            continue
        how = {"retention_hours": grace_hours, "enforce_retention_duration": False, "full": True}
        found = [store.place(name) / unquote(path) for path in table.vacuum(dry_run=True, **how)]
        sizes = [path.stat().st_size for path in found if path.exists()]
        if sizes and not is_dry:
            table.vacuum(dry_run=False, **how)
        if sizes:
            yield Done(name, (), len(sizes), sum(sizes), 0)


def time_column(store: DeltaStore, name: str) -> str:
    """What the rows of a table are dated by, "" for none."""
    if name in UNDATED or store.table(name) is None:
        return ""
    return time_of(store.columns(name).names)


def _told(name: str, files: Sequence[WrittenFile], rows: int) -> Done:
    days = tuple(sorted({day_of(file.path) for file in files}))
    return Done(name, days, len(files), sum(file.bytes for file in files), rows)


class Upkeep:
    """What a run does by itself after a batch, at most every `every_s`: files are compacted where
    there are `MANY` small ones of a day, and what is older than wanted goes.

    keep_ns, bronze_ns: as of `expire`, None for everything; merge: see Merge.
    """

    def __init__(self, store: TableStore, merge: Merge) -> None:
        self._store = store
        self._merge = merge
        self.keep_ns: int | None = None
        self.bronze_ns: int | None = None
        self._last_s = time.monotonic()

    def look(self) -> None:
        """Do it if it is time. Raises: OperatorError, OSError."""
        store = self._store
        if not isinstance(store, DeltaStore) or time.monotonic() - self._last_s < EVERY_S:
            return
        self.expire()
        list(compact(store, is_dry=False, at_least=MANY, merge=self._merge, leaves_newest=True))
        list(vacuum(store, is_dry=False))
        self._last_s = time.monotonic()

    def expire(self) -> None:
        """Have go what is older than wanted, also at the end of a short run. Raises:
        OperatorError, OSError."""
        store, now_ns = self._store, time.time_ns()
        if isinstance(store, DeltaStore) and (self.keep_ns, self.bronze_ns) != (None, None):
            keep_ns = now_ns if self.keep_ns is None else self.keep_ns
            bronze_ns = now_ns if self.bronze_ns is None else self.bronze_ns
            list(expire(store, keep_ns, bronze_ns, now_ns, is_dry=False))
