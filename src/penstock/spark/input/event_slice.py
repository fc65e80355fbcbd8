"""The events of some actors in order, each once, as arrays; and what goes on from before them."""

from typing import Final

import numpy as np
import pyarrow as pa

from penstock.spark.schema.arrays import I64, Mask
from penstock.spark.schema.coded import Coded, text
from penstock.spark.schema.formats import DROPPED

SAMPLES: Final = ("time_sample", "queue_sample")
UP: Final = "actor_up"
KINDS: Final = frozenset(SAMPLES) | frozenset(
    {"gate_closed", "gate_opened", UP, "actor_down", "alarm_set", "alarm_cleared", DROPPED}
)


class Slice:
    """The events of a share in order, each once; carried holds; which events are of this share.

    events, carried: rows; order of `events` is by boot and sequence."""

    def __init__(self, rows: Coded, is_mine: Mask, last_ns: dict[str, int]) -> None:
        self.names = rows.names
        self.codes, self.numbers = rows.codes, rows.numbers
        self.count = len(rows.names)
        self.events = _ordered(rows.codes["boot_id"], rows.numbers["seq"], len(is_mine))
        self.mine = self.events[is_mine[self.events]]
        self.carried = np.arange(len(is_mine), len(rows.numbers["seq"]), dtype=np.int64)
        self.last_ns = np.array([last_ns.get(name, 0) for name in rows.names], np.int64)
        self._kinds = {name: at for at, name in enumerate(rows.names) if name in KINDS}

    def of(self, rows: I64, *kinds: str) -> I64:
        """Those of `rows` whose event is of `kinds`."""
        wanted = [self._kinds[kind] for kind in kinds if kind in self._kinds]
        return rows[np.isin(self.codes["kind"][rows], wanted)]

    def kind(self, name: str) -> int:
        """The code of a kind, -1 when there is none of it."""
        return self._kinds.get(name, -1)

    def texts(self, column: str, rows: I64) -> pa.Array:
        return text(self.names, self.codes[column][rows])


def _ordered(boot: I64, seq: I64, count: int) -> I64:
    boot, seq = boot[:count], seq[:count]
    order = np.lexsort((seq, boot))
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
