"""The columns of the tables in Arrow and numpy: schemas, texts as numbers, small array operations.

Tasks work on numbers, which is about twenty times as fast as on texts or on rows: each text becomes
its place in one sorted list of names.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.spark.schema.formats import STATE_FIELDS
from penstock.spark.schema.rows import (
    AlarmInterval,
    BlameRow,
    BlockedByRow,
    BlockInterval,
    DepthRow,
    HeldRow,
    KindRow,
    StateRow,
)

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NONE: Final[I64] = np.zeros(0, np.int64)
_FITS: Final = 1 << 62
_DENSE: Final = 4
"""Values there might be for each row there is, up to which a table of them is made."""
Tables = dict[str, pa.Table]

_TYPES: Final = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
TEXT: Final = pa.dictionary(pa.int32(), pa.string())
TRIPLE: Final = ("actor", "peer", "reason")
BOOT: Final = ("node", "boot_id")
"""Whose a row is: in every table that is made of events."""

DEPTHS: Final = ("ready", "unacked", "consumers", "paged", "published", "acked")


def together(*columns: I64) -> I64:
    """A number for each row, the same where all columns are; none of them below 0."""
    key, bound = columns[0], _bound(columns[0])
    for column in columns[1:]:
        more = _bound(column)
        if bound * more > _FITS:
            values, key = np.unique(key, return_inverse=True)
            bound = len(values)
            if bound * more > _FITS:
                values, column = np.unique(column, return_inverse=True)
                more = len(values)
        key, bound = key * more + column, bound * more
    return key


def _bound(column: I64) -> int:
    return int(column.max()) + 1 if len(column) else 1


def sums(keys: Sequence[I64], *values: I64) -> tuple[list[I64], list[I64]]:
    """The rows of `keys` that differ, and the sums of `values` over each."""
    first, row = distinct(together(*keys))
    totals = []
    for value in values:
        total = np.zeros(len(first), np.int64)
        np.add.at(total, row, value)
        totals.append(total)
    return [key[first] for key in keys], totals


def distinct(key: I64) -> tuple[I64, I64]:
    """A row of each value, in order of values, and for each row which of those it has."""
    low = int(key.min(initial=_FITS))
    spread_out = int(key.max(initial=0)) - low + 1
    if not len(key) or spread_out > _DENSE * len(key):
        _, first, row = np.unique(key, return_index=True, return_inverse=True)
        return first, row
    # So few values that looking them up is quicker than sorting.
    one = np.full(spread_out, -1, np.int64)
    one[key - low] = np.arange(len(key), dtype=np.int64)
    there = np.flatnonzero(one >= 0)
    first = one[there]
    one[there] = np.arange(len(there), dtype=np.int64)
    return first, one[key - low]


def compact(key: I64) -> I64:
    return np.unique(key, return_inverse=True)[1]


def spread(counts: I64) -> tuple[I64, I64]:
    """For counts [2, 0, 1]: whose each is [0, 0, 2], and its place there [0, 1, 0]."""
    owner = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    first = np.cumsum(counts) - counts
    return owner, np.arange(len(owner), dtype=np.int64) - first[owner]


def united(link: I64, start: I64, end: I64, width: int) -> tuple[I64, I64, I64]:
    """The same time as intervals of which no two of one link overlap, in order."""
    order = np.argsort(link * width + start, kind="stable")
    link, start, end = link[order], start[order], end[order]
    is_same = link[1:] == link[:-1]
    if not np.any(is_same & (start[1:] < end[:-1])):
        return link, start, end
    reached = np.maximum.accumulate(link * width + end)
    is_first = np.concatenate([[True], link[1:] * width + start[1:] > reached[:-1]])
    is_first[1:] |= ~is_same
    last = np.concatenate([np.flatnonzero(is_first)[1:] - 1, [len(link) - 1]])
    return link[is_first], start[is_first], reached[last] - link[is_first] * width


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
    parts = (
        pq.read_table(
            file, columns=schema.names, filters=where, read_dictionary=texts, use_threads=False
        ).cast(wanted)
        for file in files
    )
    return concatenated(parts, schema)


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
        known = np.array([places[name] for name in _values(table[text])], np.int64)
        codes[text] = known[_places(table[text])]
    rest = [name for name in table.column_names if name not in codes]
    return Coded(names, codes, {name: table[name].to_numpy() for name in rest})


def _values(column: pa.ChunkedArray) -> list[str]:
    return column.chunk(0).dictionary.to_pylist() if column.num_chunks else []


def _places(column: pa.ChunkedArray) -> I64:
    """The place of each row's text in `_values`."""
    return np.concatenate([NONE, *(chunk.indices.to_numpy() for chunk in column.chunks)])


def share(column: pa.ChunkedArray, shares: int) -> I64:
    """Of which share each row is, 0..shares-1, by the names of a text column. column: as of
    `named`."""
    known = np.array([zlib.crc32(name.encode()) % shares for name in _values(column)], np.int64)
    return known[_places(column)]


def dealt(rows: pa.Table, key: I64) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each key that is there, in the order of keys. key: of each row, 0 or more."""
    if not len(rows):
        return
    order = np.argsort(key.astype(np.int32), kind="stable")
    sorted_, key = rows.take(pa.array(order)), key[order]
    borders = [0, *(np.flatnonzero(key[1:] != key[:-1]) + 1).tolist(), len(key)]
    for low, high in pairwise(borders):
        yield int(key[low]), sorted_.slice(low, high - low)


def named(column: pa.ChunkedArray, is_one: Callable[[str], bool]) -> Mask:
    """Which rows have a name that `is_one`, which is asked once a name. column: of dictionaries
    that are the same in every chunk."""
    known = np.array([is_one(name) for name in _values(column)], np.bool_)
    return known[_places(column)]


def text(names: Sequence[str], codes: I64) -> pa.Array:
    """A column of texts from places in `names`."""
    return pa.array(names, pa.string()).take(pa.array(codes, pa.int64()))


def repeated(text: str, count: int) -> pa.DictionaryArray:
    """A column of one text."""
    codes = pa.array(np.zeros(count, np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array([text], pa.string()))


def concatenated(parts: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """The rows of `parts`, as `read` gives them; none is as good as an empty one."""
    empty = coded_schema(schema).empty_table()
    return pa.concat_tables([empty, *parts]).unify_dictionaries()


def columns_of(texts: Sequence[str], numbers: Sequence[str]) -> list[pa.Field]:
    """Fields of texts, then of numbers."""
    return [pa.field(name, pa.string()) for name in texts] + [
        pa.field(name, pa.int64()) for name in numbers
    ]


def picked(schema: pa.Schema, *names: str) -> pa.Schema:
    """Those columns of `schema`, in that order."""
    return pa.schema([schema.field(name) for name in names])


def schema_of(row_type: Any) -> pa.Schema:
    """The columns of a row type of `rows`."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in get_type_hints(row_type).items()])


BLOCK_INTERVAL: Final = schema_of(BlockInterval).append(pa.field("is_lone", pa.bool_()))
"""is_lone: known by its end alone, as what said that it began was lost."""
ALARM_INTERVAL: Final = schema_of(AlarmInterval)
SAMPLE_STEP: Final = pa.schema(
    columns_of((*BOOT, "actor", "kind"), ("start_ns", "end_ns", "consumers", *STATE_FIELDS))
)
LAST_SEEN: Final = pa.schema(columns_of((*BOOT, "actor", "kind"), ("seq", "t_ns", "consumers")))
"""The last sample of each actor that is up; and of each boot its last event, as of no actor."""
CONSUMER: Final = pa.schema(columns_of((*BOOT, "consumer", "group"), ("since_ns",)))
QUEUE_DEPTH: Final = schema_of(DepthRow)
EVENT_KINDS: Final = schema_of(KindRow)
COVERAGE: Final = pa.schema(
    columns_of((), ("bucket_ns",)) + columns_of(BOOT, ("low", "high", "there", "last_ns"))
)
"""Of each boot and bucket: the lowest and the highest sequence, how many are there, and when the
last event was."""
WHO_BLOCKED_WHOM: Final = schema_of(BlockedByRow)
HELD_TIME: Final = schema_of(HeldRow)
TIME_IN_STATE: Final = schema_of(StateRow)
ROOT_CAUSE: Final = schema_of(BlameRow)
HOLD_SKETCH: Final = pa.schema(
    [
        *columns_of(("stage",), ("bucket_ns", "messages", "max_ns")),
        ("sketch", pa.binary()),
        *columns_of(BOOT, ()),
    ]
)

FACTS: Final = {
    "silver/block_interval": BLOCK_INTERVAL,
    "silver/alarm_interval": ALARM_INTERVAL,
    "silver/sample_step": SAMPLE_STEP,
    "silver/consumer": CONSUMER,
    "gold/queue_depth": QUEUE_DEPTH,
    "gold/event_kinds": EVENT_KINDS,
    "gold/coverage": COVERAGE,
    "silver/last_seen": LAST_SEEN,
}
"""What a task makes of the events of some actors."""

ANSWERS: Final = {
    "gold/who_blocked_whom": WHO_BLOCKED_WHOM,
    "gold/held_time": HELD_TIME,
    "gold/time_in_state": TIME_IN_STATE,
    "gold/root_cause": ROOT_CAUSE,
    "gold/hold_sketch": HOLD_SKETCH,
}
"""What a task makes of a stretch of time."""
