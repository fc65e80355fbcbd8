"""Work for the executors: rows are dealt to shares, and each share makes rows of several tables.

Two rounds of tasks, with a shuffle between them: *pieces* read files, each file once, and deal its
rows to the shares that need them; a *work* gets what was dealt to its share and writes its part of
the tables into files. So what all tasks together read does not grow with their number.

What comes back to the driver are names of files, how many rows are in them, and of their times a
few. Where the parts of all tasks have to become one row, they are put together by Spark, a table a
group, and written there.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.spark.schema.arrow_columns import Tables
from penstock.spark.tables.files import GROUP_ROWS, WRITTEN, WrittenFile, write_days
from penstock.spark.tables.store import UNDATED

STARTS: Final = 64
"""Times that a task tells of the rows of a file, at equal distances in their order."""

_SCHEMA: Final = pa.schema(
    [("name", pa.string()), *WRITTEN, ("starts", pa.list_(pa.int64())), ("data", pa.binary())]
)
_ROWS: Final = from_arrow_schema(_SCHEMA)


Found = TypeVar("Found")
Part = TypeVar("Part")

Piece = Callable[[], Iterable[tuple[int, str, pa.Table]]]
"""Reads something: (share, name, rows) for those shares that need some of it."""

Dealt = Mapping[str, Sequence[pa.Table]]
"""What was dealt to one share, by name."""

Work = Callable[[Dealt], Tables]

_PIECE: Final = pa.schema([("share", pa.int32()), ("name", pa.string()), ("data", pa.binary())])
_DEALT: Final = from_arrow_schema(_PIECE)
TASKS_A_CORE: Final = 2
MANY_NAMES: Final = 64
"""Of a dictionary, besides one for two rows: from then on those that are used are looked for."""


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
    pieces: Sequence[Piece],
    works: Sequence[Work],
    targets: Mapping[str, Target],
    batch: int,
) -> dict[str, Made]:
    """Deal `pieces` to `works`, of which each is a share and a task; the files of each table.
    Raises: what Spark raises when a task fails."""
    found: dict[str, list[dict[str, object]]] = {name: [] for name in targets}
    if works:
        cores = spark.sparkContext.defaultParallelism if len(works) > 1 else 1
        bundles = bundled(pieces, cores * TASKS_A_CORE if len(works) > 1 else 1)
        dealt = spark.range(0, len(bundles), 1, len(bundles)).mapInArrow(
            dealing(bundles, len(works)), _DEALT
        )
        rows = dealt.repartitionById(len(works), "share").mapInArrow(
            doing(works, targets, batch), _ROWS
        )
        if any(target.merge for target in targets.values()):
            rows = rows.groupBy("name").applyInArrow(merging(targets, batch), _ROWS)
        for row in rows.collect():
            found[row["name"]].append(row.asDict())
    return {name: _made(parts) for name, parts in found.items()}


def write_frame(rows: DataFrame, name: str, target: Target, batch: int) -> Made:
    """Have tasks write the rows of a query of Spark; the files. name: of the table. Raises: what
    Spark raises when a task fails."""

    def write(blocks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        for block in chain(blocks, [None]):
            if block is not None:
                waiting.append(block)
            if waiting and (block is None or sum(map(len, waiting)) >= GROUP_ROWS):
                some = pa.Table.from_batches(waiting)
                waiting = []
                written = list(_put(name, target, some, batch))
                yield pa.RecordBatch.from_pylist(written, schema=_SCHEMA)

    return _made([row.asDict() for row in rows.mapInArrow(write, _ROWS).collect()])


def bundled(pieces: Sequence[Part], tasks: int) -> list[list[Part]]:
    """The same for so many tasks at most, and at least for one."""
    count = max(1, min(tasks, len(pieces)))
    return [list(pieces[number::count]) for number in range(count)]


def found_in_tasks(
    spark: SparkSession,
    works: Sequence[Callable[[], Part]],
    merge: Callable[[Sequence[Part]], Found],
) -> Found:
    """What `merge` makes of what `works` find, all of it on executors: something small."""

    def do(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block in rows:
            for number in block.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({"found": [pickle.dumps(works[number]())]})

    def put_together(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [pickle.loads(one) for block in rows for one in block.column(0).to_pylist()]
        yield pa.RecordBatch.from_pydict({"found": [pickle.dumps(merge(parts))]})

    rows = spark.range(0, len(works), 1, len(works)).mapInArrow(do, "found binary")
    if len(works) > 1:
        rows = rows.repartition(1)
    row = rows.mapInArrow(put_together, "found binary").collect()[0]
    found: Found = pickle.loads(row[0])
    return found


def by_task(spark: SparkSession, work: Callable[..., Part]) -> Callable[..., Part]:
    """The same as `work`, on an executor. Raises: what Spark raises when a task fails."""

    def do(*arguments: Any) -> Part:
        found: Part = found_in_tasks(spark, [partial(work, *arguments)], itemgetter(0))
        return found

    return do


def _made(rows: Iterable[Mapping[str, object]]) -> Made:
    files: list[WrittenFile] = []
    starts: list[int] = []
    for row in rows:
        files.append(WrittenFile(*(row[name] for name in WrittenFile._fields)))  # type: ignore[arg-type]
        known = row["starts"]
        assert isinstance(known, list), "every file has some"
        starts += known
    return Made(tuple(files), tuple(sorted(starts)))


def dealing(
    bundles: Sequence[Sequence[Piece]], shares: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task of the first round does: the number of its bundle to rows that are dealt."""

    def deal(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block in numbers:
            for number in block.column(0).to_pylist():
                if number == 0:
                    # So that every share has a row, and is worked on.
                    nothing = [{"share": share, "name": "", "data": b""} for share in range(shares)]
                    yield pa.RecordBatch.from_pylist(nothing, schema=_PIECE)
                for piece in bundles[number]:
                    for share, name, rows in piece():
                        packed = {"share": share, "name": name, "data": _packed(slim(rows))}
                        yield pa.RecordBatch.from_pylist([packed], schema=_PIECE)

    return deal


def doing(
    works: Sequence[Work], targets: Mapping[str, Target], batch: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task of the second round does: what was dealt to its share to files."""

    def do(dealt: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts: dict[str, list[pa.Table]] = {}
        share = -1
        for block in dealt:
            for one, name, data in zip(*(column.to_pylist() for column in block), strict=True):
                share = one
                if name:
                    parts.setdefault(name, []).append(unpacked(data))
        if share < 0:
            return
        rows = [
            row
            for name, table in works[share](parts).items()
            for row in _put(name, targets[name], table, batch)
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)

    return do


def merging(
    targets: Mapping[str, Target], batch: int
) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    def merge(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        name = key[0].as_py()
        together = targets[name].merge
        if together is None:
            return rows.cast(_SCHEMA)
        parts = [unpacked(one) for one in rows["data"].to_pylist()]
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


def slim(rows: pa.Table) -> pa.Table:
    """The same rows, without the other names of their file where these are many."""
    rows = rows.combine_chunks()
    for at, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type) and rows.num_rows:
            column = rows.column(at).chunk(0)
            if len(column.dictionary) > MANY_NAMES + len(rows) // 2:
                rows = rows.set_column(at, field, column.dictionary_decode().dictionary_encode())
    return rows


def unpacked(data: bytes) -> pa.Table:
    """What was dealt."""
    # Threads would wait for each other for every small block.
    options = pa.ipc.IpcReadOptions(use_threads=False)
    return pa.ipc.open_stream(pa.py_buffer(data), options=options).read_all()


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_stream(sink, table.schema, options=options) as file:
        file.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
