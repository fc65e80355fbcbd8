"""The events of some actors in order, each once, as arrays, read from bronze from a moment on.

Of what was before it there are the last samples, and as events of their own what went on.
"""

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.schema.arrow_columns import I64, Coded, Mask, read, text
from penstock.spark.schema.formats import DROPPED

_TIME: Final = "t_ns"
FIRST_NS: Final = -(1 << 63)
"""Before all events."""

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
    columns wanted, among them kind and t_ns; texts come as dictionaries. kinds: of these, all for
    none: those of one kind lie together, and the others are not read. Raises: OSError."""
    wanted = pc.field("kind").isin(sorted(kinds)) if kinds else pc.field("kind").is_valid()
    return read([file], schema, wanted & (pc.field(_TIME) >= from_ns))


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
