"""Bronze: the input in columns. Tasks write the files, the table store adds them."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.spark.input import parse
from penstock.spark.schema.arrow_columns import coded_schema
from penstock.spark.tables.files import WRITTEN, WrittenFile, by_day, new_path, span_of
from penstock.spark.tables.store import EVENTS, TableStore

MESSAGES: Final = "bronze/messages"

_PARTS: Final = from_arrow_schema(pa.schema([("name", pa.string()), *WRITTEN]))


class BronzeTable(NamedTuple):
    """schema: of the table; parsed: of what is written, with dictionaries for texts that repeat;
    many: its columns in which few values repeat."""

    schema: pa.Schema
    parsed: pa.Schema
    many: frozenset[str]


BRONZE: Final = {
    EVENTS: BronzeTable(
        parse.EVENTS, coded_schema(parse.EVENTS), frozenset({"seq", "t_ns", "amount"})
    ),
    MESSAGES: BronzeTable(parse.MESSAGES, parse.MESSAGES, frozenset({"t_ns"})),
}

SMALL_ROWS: Final = 8_192
"""Below which tables that were parsed are put together before they are written."""

Parsed = Iterator[tuple[str, pa.Table]]
Parse = Callable[[Iterator[pa.RecordBatch], int], Parsed]
"""Rows of a source to (table, rows of it): what a task does. The number is that of the batch."""


def take_in(rows: DataFrame, store: TableStore, parse_rows: Parse, query: str, number: int) -> int:
    """Write what batch `number` of `query` has found into those bronze tables that do not know it
    yet, each in one commit; how many rows that were. Raises: OperatorError, OSError."""
    wanted = {name: str(store.place(name)) for name in BRONZE if store.mark(name, query) < number}
    if not wanted:
        return 0
    for place in wanted.values():
        Path(place).mkdir(parents=True, exist_ok=True)
    batch = 1 + max(store.batch(name) for name in BRONZE)
    written = rows.mapInArrow(_writer(parse_rows, wanted, batch), _PARTS).collect()
    count = 0
    for name in wanted:
        parts = [
            WrittenFile(*(row[field] for field in WrittenFile._fields))
            for row in written
            if row["name"] == name
        ]
        if parts:
            store.append(name, parts, BRONZE[name].schema, batch, {query: number})
            count += sum(part.rows for part in parts)
    return count


def _writer(
    parse_rows: Parse, places: Mapping[str, str], batch: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does: one file a table and day. places: of the tables that are wanted."""

    def write(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        opened: dict[tuple[str, str], BronzeFile] = {}
        for name, table in parse_rows(rows, batch):
            if name not in places:
                continue
            for day, part in by_day(table, "t_ns"):
                if (name, day) not in opened:
                    opened[name, day] = BronzeFile(places[name], name, new_path(batch, day))
                opened[name, day].write(part)
        for (name, _), file in opened.items():
            yield pa.RecordBatch.from_pylist([{"name": name, **file.close()._asdict()}])

    return write


class BronzeFile:
    """A file of a bronze table. Small tables are put together: each becomes a group of rows of the
    file, and those in which whole columns are the same stay by themselves."""

    def __init__(self, place: str, name: str, path: str) -> None:
        about = BRONZE[name]
        self._name = path
        self._path = Path(place) / path
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # What hardly repeats is looked up for nothing. Other readers are told that texts are texts.
        self._file = pq.ParquetWriter(
            self._path,
            about.parsed,
            compression="zstd",
            use_dictionary=[one for one in about.schema.names if one not in about.many],
            column_encoding=dict.fromkeys(about.many, "DELTA_BINARY_PACKED"),
            store_schema=False,
        )
        self._small: list[pa.Table] = []
        self._rows = 0

    def write(self, table: pa.Table) -> None:
        """Raises: OSError."""
        self._rows += len(table)
        if len(table) >= SMALL_ROWS:
            self._file.write_table(table)
            return
        self._small.append(table)
        if sum(map(len, self._small)) >= SMALL_ROWS:
            self._put_small()

    def close(self) -> WrittenFile:
        """What it has become. Raises: OSError."""
        if self._small:
            self._put_small()
        self._file.close()
        size = os.stat(self._path).st_size
        return WrittenFile(self._name, size, self._rows, *span_of(self._path, "t_ns"))

    def _put_small(self) -> None:
        self._file.write_table(pa.concat_tables(self._small).unify_dictionaries())
        self._small = []
