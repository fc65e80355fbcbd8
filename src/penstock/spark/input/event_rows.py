"""Rows of bronze events from a moment on. Where a column has one number in it, it is not read.

Lines of one form lie together (`parse.py`), and most of them lack most of the numbers.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.spark.schema.coded import coded_schema

_TIME: Final = "t_ns"
_KIND: Final = "kind"

_Known = tuple[tuple[str, int], ...]


def read_events(file: str, schema: pa.Schema, from_ns: int) -> pa.Table:
    """The events of `file` from `from_ns` on, without lines that were unreadable. schema: the
    columns wanted, among them kind and t_ns; texts come as dictionaries. Raises: OSError."""
    wanted = coded_schema(schema)
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    parts = [wanted.empty_table()]
    with pq.ParquetFile(file, read_dictionary=texts) as source:
        for known, groups, is_whole in _alike(source.metadata, schema, from_ns):
            values = dict(known)
            others = [name for name in schema.names if name not in values]
            found = source.read_row_groups(groups, columns=others, use_threads=False)
            columns = [
                pa.chunked_array([pa.repeat(pa.scalar(values[name], pa.int64()), len(found))])
                if name in values
                else found[name]
                for name in schema.names
            ]
            part = pa.table(columns, names=schema.names).cast(wanted)
            if not is_whole:
                part = part.filter(pc.field(_KIND).is_valid() & (pc.field(_TIME) >= from_ns))
            parts.append(part)
    return pa.concat_tables(parts).unify_dictionaries()


def _alike(
    metadata: pq.FileMetaData, schema: pa.Schema, from_ns: int
) -> Iterator[tuple[_Known, list[int], bool]]:
    """The columns that are one number, the row groups in which they are, and whether all of their
    rows are wanted. Those that end before `from_ns` are left out."""
    found: dict[tuple[_Known, bool], list[int]] = {}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        known: list[tuple[str, int]] = []
        low_ns, high_ns, is_whole = -1, from_ns, False
        for at in range(group.num_columns):
            column = group.column(at)
            name, statistics = column.path_in_schema, column.statistics
            if statistics is None or not statistics.has_null_count or name not in schema.names:
                continue
            if name == _KIND:
                is_whole = statistics.null_count == 0
            # The bounds of texts may be cut short.
            if schema.field(name).type != pa.int64() or not statistics.has_min_max:
                continue
            if name == _TIME:
                low_ns, high_ns = statistics.min, statistics.max
            elif statistics.null_count == 0 and statistics.min == statistics.max:
                known.append((name, statistics.min))
        if high_ns >= from_ns:
            key = (tuple(known), is_whole and low_ns >= from_ns)
            found.setdefault(key, []).append(number)
    for (known_, is_whole), groups in found.items():
        yield known_, groups, is_whole
