"""Work for the executors: each task makes rows of several tables and writes them into files.

What comes back to the driver are names of files, how many rows are in them, and of their times a
few. Where the parts of all tasks have to become one row, they are put together by Spark, a table a
group, and written there.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from penstock.spark.schema.arrow_columns import Tables
from penstock.spark.tables.files import WrittenFile, write_days
from penstock.spark.tables.store import UNDATED

STARTS: Final = 64
"""Times that a task tells of the rows of a file, at equal distances in their order."""

_ROWS: Final = (
    "name string, path string, bytes bigint, rows bigint, low bigint, high bigint, "
    "starts array<bigint>, data binary"
)
_SCHEMA: Final = pa.schema(
    [
        ("name", pa.string()),
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("rows", pa.int64()),
        ("low", pa.int64()),
        ("high", pa.int64()),
        ("starts", pa.list_(pa.int64())),
        ("data", pa.binary()),
    ]
)


Found = TypeVar("Found")


class Target(NamedTuple):
    """Where rows of a table go. directory: of the table; column: its times; from_: rows before it
    are left out, 0 for none; tail: rows from it on are in a file of their own, 0 for none; merge:
    how the parts of tasks become one table, None where they are put one behind the other."""

    directory: str
    schema: pa.Schema
    column: str
    from_: int
    tail: int = 0
    merge: Callable[[pa.Table], pa.Table] | None = None


class Made(NamedTuple):
    """What tasks have made of a table. starts: times of some of the rows, in order."""

    files: tuple[WrittenFile, ...]
    starts: tuple[int, ...]

    @property
    def high(self) -> int:
        """The last time, -1 without rows."""
        return max((file.high for file in self.files), default=-1)


def make_tables(
    spark: SparkSession,
    works: Sequence[Callable[[], Tables]],
    targets: Mapping[str, Target],
    batch: int,
) -> dict[str, Made]:
    """Do all of `works`, a task each; the files of each table. Raises: what Spark raises when a
    task fails."""
    found: dict[str, list[dict[str, object]]] = {name: [] for name in targets}
    if works:
        rows = spark.range(0, len(works), 1, len(works)).mapInArrow(
            _doing(works, targets, batch), _ROWS
        )
        if any(target.merge for target in targets.values()):
            rows = rows.groupBy("name").applyInArrow(_merging(targets, batch), _ROWS)
        for row in rows.collect():
            found[row["name"]].append(row.asDict())
    return {name: _made(parts) for name, parts in found.items()}


def found_in_task(spark: SparkSession, work: Callable[[], Found]) -> Found:
    """What `work` finds on an executor: something small."""

    def do(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block in rows:
            yield pa.RecordBatch.from_pydict({"found": [pickle.dumps(work())] * block.num_rows})

    row = spark.range(0, 1, 1, 1).mapInArrow(do, "found binary").collect()[0]
    found: Found = pickle.loads(row[0])
    return found


def _made(rows: Iterable[Mapping[str, object]]) -> Made:
    files: list[WrittenFile] = []
    starts: list[int] = []
    for row in rows:
        files.append(WrittenFile(*(row[name] for name in WrittenFile._fields)))  # type: ignore[arg-type]
        known = row["starts"]
        assert isinstance(known, list), "every file has some"
        starts += known
    return Made(tuple(files), tuple(sorted(starts)))


def _doing(
    works: Sequence[Callable[[], Tables]], targets: Mapping[str, Target], batch: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def do(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block in numbers:
            for number in block.column(0).to_pylist():
                rows = [
                    row
                    for name, table in works[number]().items()
                    for row in _put(name, targets[name], table, batch)
                ]
                yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)

    return do


def _merging(
    targets: Mapping[str, Target], batch: int
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    def merge(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        name = key[0].as_py()
        together = targets[name].merge
        if together is None:
            return rows.cast(_SCHEMA)
        parts = [pa.ipc.open_stream(one.as_buffer()).read_all() for one in rows["data"]]
        whole = together(pa.concat_tables(parts))
        target = targets[name]._replace(merge=None)
        return pa.Table.from_pylist(list(_put(name, target, whole, batch)), schema=_SCHEMA)

    return merge


def _put(name: str, target: Target, rows: pa.Table, batch: int) -> Iterator[dict[str, object]]:
    """The row that tells of `rows`, which are in a file then; nothing where there are none."""
    rows = rows.cast(target.schema)
    if target.from_:
        rows = rows.filter(pc.greater_equal(rows[target.column], target.from_))
    if not len(rows):
        return
    if target.merge is not None:
        yield {"name": name, "data": _packed(rows)}
        return
    parts = [rows]
    if target.tail:
        is_tail = pc.greater_equal(rows[target.column], target.tail)
        parts = [part for part in (rows.filter(pc.invert(is_tail)), rows.filter(is_tail)) if part]
    starts = _some(rows[target.column])
    is_dated = name not in UNDATED
    for part in parts:
        for file in write_days(Path(target.directory), batch, part, target.column, is_dated):
            yield {"name": name, **file._asdict(), "starts": starts}
            starts = []


def _some(times: pa.ChunkedArray) -> list[int]:
    known = np.sort(times.to_numpy())
    places = np.linspace(0, len(known) - 1, min(STARTS, len(known))).astype(np.int64)
    return [int(one) for one in known[places]]


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as file:
        file.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
