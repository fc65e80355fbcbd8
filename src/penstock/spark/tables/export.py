"""Gold tables as Parquet files, one each, for whoever reads them elsewhere."""

from pathlib import Path
from typing import Final, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.schema.rows import ROW_TYPES, Tables

_TYPES: Final = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}


def write_parquet(directory: Path, tables: Tables) -> None:
    """Each table as NAME.parquet. Raises: OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, rows in tables._asdict().items():
        row_type = ROW_TYPES[name]
        hints = get_type_hints(row_type)
        schema = pa.schema([(field, _TYPES[hints[field]]) for field in row_type._fields])
        found = pa.Table.from_pylist([row._asdict() for row in rows], schema=schema)
        pq.write_table(found, directory / f"{name}.parquet", compression="zstd")
