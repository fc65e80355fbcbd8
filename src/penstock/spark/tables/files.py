"""The files of tables: written whole, cut at a moment, and what they say of themselves. IO."""

import os
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

GROUP_ROWS: Final = 1 << 17
"""Of a file in one group, which is what is in memory of it at a time."""


class WrittenFile(NamedTuple):
    """A file a task has written. path: below the table; rows: in it; low, high: of the column by
    which rows of the table are exchanged, 0 where there is none."""

    path: str
    bytes: int
    rows: int
    low: int = 0
    high: int = 0


def write_file(place: Path, name: str, rows: pa.Table, column: str) -> WrittenFile:
    """A file of a table. column: of numbers, by which rows of the table are exchanged.
    Raises: OSError."""
    pq.write_table(rows, place / name, compression="zstd", row_group_size=GROUP_ROWS)
    bounds = pc.min_max(rows[column]).as_py()
    size = os.stat(place / name).st_size
    return WrittenFile(name, size, len(rows), bounds["min"] or 0, bounds["max"] or 0)


def without(path: Path, batch: int, column: str, from_: int) -> WrittenFile:
    """The rows of a file whose `column` is below `from_`, in a new one beside it.
    Raises: OSError."""
    name = f"part-{batch}-{uuid4().hex}.parquet"
    rows, low, high = 0, from_, 0
    with pq.ParquetFile(path) as source:
        schema = source.schema_arrow
        with pq.ParquetWriter(path.parent / name, schema, compression="zstd") as file:
            for number in range(source.num_row_groups):
                kept = source.read_row_group(number).filter(pc.field(column) < from_)
                if len(kept):
                    file.write_table(kept)
                    bounds = pc.min_max(kept[column]).as_py()
                    low, high = min(low, bounds["min"]), max(high, bounds["max"])
                    rows += len(kept)
    return WrittenFile(name, os.stat(path.parent / name).st_size, rows, low, high)


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
