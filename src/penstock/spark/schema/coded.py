"""Rows of Parquet files as arrays: texts become places in one sorted list of names.

Tasks work on numbers, which is about twenty times as fast as on texts or on rows. What a task has
found travels as one cell of bytes a table.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from penstock.spark.schema.arrays import I64, Mask

Tables = dict[str, pa.Table]

_CELLS: Final = "name string, data binary"
TEXT: Final = pa.dictionary(pa.int32(), pa.string())


class Coded(NamedTuple):
    """names: sorted; codes: of each text column, places in `names`; numbers: the other columns."""

    names: list[str]
    codes: dict[str, I64]
    numbers: dict[str, I64]

    def place(self, name: str) -> int:
        """Where `name` is in `names`, -1 when it is not."""
        at = int(np.searchsorted(np.array(self.names, dtype=object), name)) if self.names else 0
        return at if at < len(self.names) and self.names[at] == name else -1


def read(files: Iterable[str], schema: pa.Schema, where: pc.Expression) -> pa.Table:
    """The rows of `files` that are so. schema: the columns wanted; texts come as dictionaries."""
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    wanted = coded_schema(schema)
    parts = [
        pq.read_table(
            file, columns=schema.names, filters=where, read_dictionary=texts, use_threads=False
        ).cast(wanted)
        for file in files
    ]
    return pa.concat_tables(parts).unify_dictionaries() if parts else wanted.empty_table()


def coded_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of `schema` with dictionaries for texts."""
    return pa.schema(
        [field.with_type(TEXT) if field.type == pa.string() else field for field in schema]
    )


def coded(table: pa.Table) -> Coded:
    """The columns of a table without nulls, as `read` gives it."""
    texts = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    names = sorted({name for text in texts for name in _values(table[text])})
    places = {name: at for at, name in enumerate(names)}
    codes = {}
    for text in texts:
        column = table[text]
        known = np.array([places[name] for name in _values(column)], np.int64)
        indices = [chunk.indices.to_numpy() for chunk in column.chunks]
        codes[text] = known[np.concatenate(indices)] if indices else np.zeros(0, np.int64)
    rest = [name for name in table.column_names if name not in codes]
    return Coded(names, codes, {name: table[name].to_numpy() for name in rest})


def _values(column: pa.ChunkedArray) -> list[str]:
    return column.chunk(0).dictionary.to_pylist() if column.num_chunks else []


def share(column: pa.ChunkedArray, number: int, shares: int) -> Mask:
    """Which rows are of share `number`, 0..shares-1, by the names of a text column."""
    known = np.array(
        [zlib.crc32(name.encode()) % shares == number for name in _values(column)], np.bool_
    )
    indices = [chunk.indices.to_numpy() for chunk in column.chunks]
    return known[np.concatenate(indices)] if indices else np.zeros(0, np.bool_)


def text(names: Sequence[str], codes: I64) -> pa.Array:
    """A column of texts from places in `names`."""
    return pa.array(names, pa.string()).take(pa.array(codes, pa.int64()))


def in_tasks(
    spark: SparkSession, works: Sequence[Callable[[], Tables]], schemas: Mapping[str, pa.Schema]
) -> Tables:
    """Do all of `works`, a task each, and put what they have found together.

    A table that none has found is empty, with the columns of `schemas`."""
    count = len(works)
    parts: dict[str, list[pa.Table]] = {
        name: [schema.empty_table()] for name, schema in schemas.items()
    }
    if count:
        cells = spark.range(0, count, 1, count).mapInArrow(_doing(works), _CELLS).toArrow()
        for name, data in zip(cells["name"].to_pylist(), cells["data"], strict=True):
            found = pa.ipc.open_stream(data.as_buffer()).read_all()
            parts[name].append(found.cast(schemas[name]))
    return {name: pa.concat_tables(some) for name, some in parts.items()}


def _doing(
    works: Sequence[Callable[[], Tables]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def do(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block in numbers:
            for number in block.column(0).to_pylist():
                tables = works[number]()
                yield pa.RecordBatch.from_pydict(
                    {"name": list(tables), "data": [_packed(one) for one in tables.values()]},
                    schema=pa.schema([("name", pa.string()), ("data", pa.binary())]),
                )

    return do


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as file:
        file.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
