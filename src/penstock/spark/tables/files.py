"""The files of tables: written whole, cut at a moment, and what they say of themselves. IO."""

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.base.errors import OperatorError
from penstock.spark.schema.arrow_columns import schema_of

GROUP_ROWS: Final = 1 << 17
"""Of a file in one group, which is what is in memory of it at a time."""

DATE: Final = "date"
"""The column tables are partitioned by: a day in UTC, which stands in the path of each file."""

MAPPING: Final = "delta.columnMapping.mode"
LOG: Final = "_delta_log"
"""Of a Delta table: a file a version, called by its number."""

TIMES: Final = ("bucket_ns", "end_ns", "first_ns", "since_ns", "t_ns")

DAY_NS: Final = 86_400 * 1_000_000_000
_CODE: Final = re.compile("%[0-9A-Fa-f]{2}")


def check_place(directory: Path, option: str) -> None:
    """A Delta table can be in `directory`. Raises: OperatorError, which says to choose another
    `option`: deltalake takes %20 in a path for a space, but only when it opens a table."""
    found = _CODE.search(str(directory.resolve()))
    if found is not None:
        raise OperatorError(
            f"{directory} has {found[0]} in its path, and deltalake does not find a table there "
            f"again; choose another {option}"
        )


class WrittenFile(NamedTuple):
    """A file a task has written. path: below the table; rows: in it; low, high: of the column by
    which rows of the table are exchanged, 0 where there is none."""

    path: str
    bytes: int
    rows: int
    low: int = 0
    high: int = 0


WRITTEN: Final = schema_of(WrittenFile)
"""The same as columns."""


def log_file(table: Path, version: int) -> Path:
    """What the log of a Delta table says of one version."""
    return table / LOG / f"{version:020}.json"


def check_names(path: Path | str, configuration: Mapping[str, Any]) -> None:
    """Raises: OperatorError where the files of the Delta table `path` have other names of columns
    than the table: whoever goes by the wrong ones finds null."""
    mode = configuration.get(MAPPING, "none")
    if mode != "none":
        raise OperatorError(
            f"the Delta table {path} has {MAPPING} = {mode}: its files call columns otherwise, "
            "which is not supported here"
        )


def time_of(names: Sequence[str]) -> str:
    """What rows of a table with such columns are dated and exchanged by: the first of TIMES, "" for
    none."""
    return next((one for one in TIMES if one in names), "")


def day_name(number: int) -> str:
    """A day as it stands in paths. number: of days since 1970, clamped to what dates can say."""
    last = 2_932_896
    return datetime.fromtimestamp(max(0, min(number, last)) * 86_400, UTC).strftime("%Y-%m-%d")


def day_of(path: str) -> str:
    """The day that stands in the path of a file, "" for none."""
    folder = path.partition("/")[0]
    return folder.removeprefix(f"{DATE}=") if folder.startswith(f"{DATE}=") else ""


def new_path(batch: int, day: str) -> str:
    """Of a new file, below its table. day: "" for tables without times."""
    name = f"part-{batch}-{uuid4().hex}.parquet"
    return f"{DATE}={day}/{name}" if day else name


def write_days(
    place: Path, batch: int, rows: pa.Table, column: str, is_dated: bool = True
) -> list[WrittenFile]:
    """Files of a table, one a day. column: of numbers, by which rows of the table are exchanged,
    and of times if the table `is_dated`. Raises: OSError."""
    days = by_day(rows, column) if is_dated else [("", rows)]
    return [_write(place, new_path(batch, day), part, column) for day, part in days if len(part)]


def by_day(rows: pa.Table, column: str) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each day. Those without a time go with the first day, or are of today."""
    times = rows[column]
    first_ns = pc.min(times).as_py()
    if first_ns is None:
        first_ns = time.time_ns()
    day = pc.fill_null(times, first_ns).to_numpy() // DAY_NS
    days = np.unique(day).tolist()
    for one in days:
        yield day_name(one), rows if len(days) == 1 else rows.filter(pa.array(day == one))


def _write(place: Path, path: str, rows: pa.Table, column: str) -> WrittenFile:
    (place / path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, place / path, compression="zstd", row_group_size=GROUP_ROWS)
    low, high = span_of(place / path, column) if column else (0, 0)
    return WrittenFile(path, os.stat(place / path).st_size, len(rows), low, high)


def without(place: Path, path: str, batch: int, column: str, from_: int) -> WrittenFile:
    """The rows of a file whose `column` is below `from_`, in a new one beside it.
    Raises: OSError."""
    return _again(place, [path], batch, column, pc.field(column) < from_)


def merged(place: Path, paths: Sequence[str], batch: int, column: str) -> WrittenFile:
    """The rows of files of one day in a new one, in their order. Raises: OSError."""
    return _again(place, paths, batch, column, None)


def _again(
    place: Path, paths: Sequence[str], batch: int, column: str, wanted: pc.Expression | None
) -> WrittenFile:
    """Small groups of rows are put together, and large ones stay as they are: in those of bronze
    the events of one kind lie together."""
    path = new_path(batch, day_of(paths[0]))
    count = 0
    schema = pq.read_schema(place / paths[0])
    waiting: list[pa.Table] = []
    with pq.ParquetWriter(place / path, schema, compression="zstd") as file:
        for one in paths:
            with pq.ParquetFile(place / one) as source:
                for number in range(source.num_row_groups):
                    rows = source.read_row_group(number).cast(schema)
                    if wanted is not None:
                        rows = rows.filter(wanted)
                    if not len(rows):
                        continue
                    count += len(rows)
                    waiting.append(rows)
                    if sum(map(len, waiting)) >= GROUP_ROWS // 2:
                        file.write_table(pa.concat_tables(waiting))
                        waiting = []
        if waiting:
            file.write_table(pa.concat_tables(waiting))
    low, high = span_of(place / path, column) if column else (0, 0)
    return WrittenFile(path, os.stat(place / path).st_size, count, low, high)


def span_of(path: Path, column: str) -> tuple[int, int]:
    """The lowest and highest of a column of numbers, from what a file says of itself; of one
    without rows the highest is below the lowest. Raises: OSError."""
    about = pq.read_metadata(path)
    at = about.schema.names.index(column)
    found = [
        about.row_group(number).column(at).statistics for number in range(about.num_row_groups)
    ]
    known = [one for one in found if one is not None and one.has_min_max]
    return min((one.min for one in known), default=0), max((one.max for one in known), default=-1)
