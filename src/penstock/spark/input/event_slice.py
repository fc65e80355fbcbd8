"""The events of some actors in order, each once, as arrays, read from bronze from a moment on.

Of what was before it there are the last samples, and as events of their own what went on.

Columns that hold one number in a row group are not read: the events of one kind lie together
(`parse.py`), and most kinds lack most of the numbers.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.spark.schema.arrow_columns import I64, Coded, Mask, coded_schema, text
from penstock.spark.schema.formats import DROPPED

_TIME: Final = "t_ns"
_KIND: Final = "kind"
FIRST_NS: Final = -(1 << 63)
"""Before all events."""

_Known = tuple[tuple[str, int], ...]
SAMPLES: Final = ("time_sample", "queue_sample")
UP: Final = "actor_up"
DOWN: Final = "actor_down"
LIVES: Final = (UP, DOWN)
"""What lies between a sample of an actor and one of the next of its name."""
KINDS: Final = frozenset(SAMPLES) | frozenset(
    {"gate_closed", "gate_opened", *LIVES, "alarm_set", "alarm_cleared", DROPPED}
)


def read_events(
    file: str, schema: pa.Schema, from_ns: int, kinds: Collection[str] = ()
) -> pa.Table:
    """The events of `file` from `from_ns` on, without lines that were unreadable. schema: the
    columns wanted, among them kind and t_ns; texts come as dictionaries. kinds: row groups that
    have no event of these are left out, unless there are none. Raises: OSError."""
    wanted = coded_schema(schema)
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    parts = [wanted.empty_table()]
    with pq.ParquetFile(file, read_dictionary=texts) as source:
        for known, groups, is_whole in _alike(source.metadata, schema, from_ns, kinds):
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
    metadata: pq.FileMetaData, schema: pa.Schema, from_ns: int, kinds: Collection[str]
) -> Iterator[tuple[_Known, list[int], bool]]:
    """The columns that are one number, the row groups in which they are, and whether all of their
    rows are wanted. Those that end before `from_ns` are left out."""
    found: dict[tuple[_Known, bool], list[int]] = {}
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        known: list[tuple[str, int]] = []
        low_ns, high_ns, is_whole, is_wanted = -1, from_ns, False, True
        for at in range(group.num_columns):
            column = group.column(at)
            name, statistics = column.path_in_schema, column.statistics
            if statistics is None or not statistics.has_null_count or name not in schema.names:
                continue
            if name == _KIND:
                is_whole = statistics.null_count == 0
                # Those of one kind lie together, and no kind is so long that it is cut.
                if kinds and statistics.has_min_max and statistics.min == statistics.max:
                    is_wanted = statistics.min in kinds
            # The bounds of texts may be cut short.
            if schema.field(name).type != pa.int64() or not statistics.has_min_max:
                continue
            if name == _TIME:
                low_ns, high_ns = statistics.min, statistics.max
            elif statistics.null_count == 0 and statistics.min == statistics.max:
                known.append((name, statistics.min))
        if high_ns >= from_ns and is_wanted:
            key = (tuple(known), is_whole and low_ns >= from_ns)
            found.setdefault(key, []).append(number)
    for (known_, is_whole), groups in found.items():
        yield known_, groups, is_whole


class Slice:
    """The events of a share in order, each once; what went on; which events are of this share.

    events, mine, carried, before: rows; order of `events` is by boot and sequence. before: of what
    happened before `from_ns` to actors of this share."""

    def __init__(
        self, rows: Coded, is_mine: Mask, last_ns: Mapping[str, int], from_ns: int
    ) -> None:
        self.names = rows.names
        self.codes, self.numbers = rows.codes, rows.numbers
        self.count = len(rows.names)
        self._kinds = {name: at for at, name in enumerate(rows.names) if name in KINDS}
        is_lost = rows.codes["kind"] == self.kind(DROPPED)
        everything = _ordered(rows.codes["boot_id"], rows.numbers["seq"], is_lost, len(is_mine))
        is_here = rows.numbers[_TIME][everything] >= from_ns
        self.events = everything[is_here]
        self.mine = self.events[is_mine[self.events]]
        self.before = everything[~is_here & is_mine[everything]]
        self.carried = np.arange(len(is_mine), len(rows.numbers["seq"]), dtype=np.int64)
        self.last_ns = np.array([last_ns.get(name, 0) for name in rows.names], np.int64)

    def of(self, rows: I64, *kinds: str) -> I64:
        """Those of `rows` whose event is of `kinds`."""
        wanted = [self._kinds[kind] for kind in kinds if kind in self._kinds]
        return rows[np.isin(self.codes["kind"][rows], wanted)]

    def kind(self, name: str) -> int:
        """The code of a kind, -1 when there is none of it."""
        return self._kinds.get(name, -1)

    def texts(self, column: str, rows: I64) -> pa.Array:
        return text(self.names, self.codes[column][rows])


def _ordered(boot: I64, seq: I64, is_lost: Mask, count: int) -> I64:
    """The first `count` rows by boot and sequence, each of these once. What one reader of a broker
    lost, another may have."""
    boot, seq = boot[:count], seq[:count]
    order = np.lexsort((is_lost[:count], seq, boot))
    is_new = np.ones(count, np.bool_)
    is_new[1:] = (boot[order][1:] != boot[order][:-1]) | (seq[order][1:] != seq[order][:-1])
    return order[is_new]


def by_group(group: I64, place: I64) -> tuple[I64, Mask, Mask]:
    """The order by group and place, and which rows are there the first and last of theirs."""
    order = np.argsort(group * (int(place.max(initial=0)) + 1) + place, kind="stable")
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = group[order][1:] != group[order][:-1]
    is_last = np.ones(len(order), np.bool_)
    is_last[:-1] = is_first[1:]
    return order, is_first, is_last
