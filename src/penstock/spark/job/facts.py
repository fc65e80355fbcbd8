"""The facts of one share of the actors, of a slice of time: what is dealt to it, and its work.

A share has all events of its actors from a moment on; the ends of all actors, because a hold ends
with either side; and what tables say of the time before: holds and alarms that went on, and the
samples from which steps lead into the slice. Each file is read by one task, which deals its rows to
the shares.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.blame.holds import block_interval
from penstock.spark.input import parse
from penstock.spark.input.event_slice import DOWN, LIVES, SAMPLES, Slice, by_group, read_events
from penstock.spark.job.reach import End
from penstock.spark.job.silver_tables import (
    alarm_interval,
    consumer,
    coverage,
    event_kinds,
    queue_depth,
    sample_step,
)
from penstock.spark.job.tasks import Dealt
from penstock.spark.schema.arrow_columns import (
    ALARM_INTERVAL,
    BLOCK_INTERVAL,
    BOOT,
    CONSUMER,
    DEPTHS,
    LAST_SEEN,
    TRIPLE,
    Tables,
    coded,
    coded_schema,
    compact,
    concatenated,
    dealt,
    picked,
    read,
    repeated,
    share,
    together,
)
from penstock.spark.schema.formats import STATE_FIELDS

_NUMBERS: Final = ("seq", "t_ns", "amount", *STATE_FIELDS, *DEPTHS)
EVENT_COLUMNS: Final = picked(parse.EVENTS, *BOOT, "kind", *TRIPLE, *_NUMBERS)
_HOLDS: Final = picked(BLOCK_INTERVAL, *BOOT, *TRIPLE, "start_ns", "is_lone")
_ALARMS: Final = picked(ALARM_INTERVAL, *BOOT, "alarm", "start_ns")
_ACTOR: Final = [*BOOT, "actor"]
_SAMPLED: Final = [*_ACTOR, "kind"]
_OF_SAMPLES: Final = (*SAMPLES, *LIVES)


GATES: Final = ("gate_closed", "gate_opened")
_OF_GATES: Final = [name for name in EVENT_COLUMNS.names if name not in (*STATE_FIELDS, *DEPTHS)]
"""What events of gates have, which are most of them."""

_CARRIED: Final = {
    "holds": (_HOLDS, "actor"),
    "alarms": (_ALARMS, "alarm"),
    "seen": (LAST_SEEN, "actor"),
}
"""What is read of tables for shares, and by which column it is dealt."""


@dataclass(frozen=True)
class EventFile:
    """Deals the events of a file of bronze that are of a slice, and of what was before it samples.
    low, high: its times; earlier_ns: see `Reach`."""

    file: str
    low: int
    high: int
    from_ns: int
    earlier_ns: int
    shares: int

    def __call__(self) -> Iterator[tuple[int, str, pa.Table]]:
        """Raises: OSError."""
        if self.high >= self.from_ns:
            yield from self._slice(read_events(self.file, EVENT_COLUMNS, self.from_ns))
        if self.low < self.from_ns and self.earlier_ns < self.from_ns:
            table = read_events(self.file, EVENT_COLUMNS, self.earlier_ns, _OF_SAMPLES)
            table = table.filter(pc.less(table["t_ns"], self.from_ns))
            for number, rows in dealt(table, share(table["actor"], self.shares)):
                yield number, "earlier", rows

    def _slice(self, table: pa.Table) -> Iterator[tuple[int, str, pa.Table]]:
        whose = share(table["actor"], self.shares)
        is_gate = pc.is_in(table["kind"], pa.array(GATES)).to_numpy()
        for number, rows in dealt(table, whose * 2 + is_gate):
            yield number // 2, "events", rows.select(_OF_GATES) if number % 2 else rows
        # A hold ends with either side, so whoever goes is told to all.
        is_down = pc.equal(table["kind"], DOWN).to_numpy()
        downs, gone = table.filter(pa.array(is_down)), whose[is_down]
        for number in range(self.shares if len(downs) else 0):
            others = downs.filter(pa.array(gone != number))
            if len(others):
                yield number, "downs", others


@dataclass(frozen=True)
class CarriedFile:
    """Deals what a file of `name` (of _CARRIED) says of the time before a slice."""

    name: str
    file: str
    from_ns: int
    shares: int

    def __call__(self) -> Iterator[tuple[int, str, pa.Table]]:
        """Raises: OSError."""
        schema, column = _CARRIED[self.name]
        goes_on = (pc.field("start_ns") < self.from_ns) & (pc.field("end_ns") >= self.from_ns)
        wanted = pc.field("kind") != "" if self.name == "seen" else goes_on
        table = read([self.file], schema, wanted)
        for number, rows in dealt(table, share(table[column], self.shares)):
            yield number, self.name, rows


@dataclass(frozen=True)
class Facts:
    """consumers: files of what is known so far; alive: the last event of each boot that is
    remembered; over: when that of each other boot was that has something in the slice; share: its
    number; width_ns: of a bucket."""

    consumers: tuple[str, ...]
    alive: Mapping[str, End]
    over: Mapping[str, int]
    share: int
    from_ns: int
    width_ns: int

    def __call__(self, dealt: Dealt) -> Tables:
        """dealt: "events" of this share, "downs" of others, "earlier" samples, and what `_CARRIED`
        names. Raises: OSError."""
        kept = _events(dealt.get("events", ()))
        downs = _events(dealt.get("downs", ()))
        seen = concatenated(dealt.get("seen", ()), LAST_SEEN)
        last_ns = dict(self.over) | {boot: end.t_ns for boot, end in self.alive.items()}
        earlier = _events(dealt.get("earlier", ()))
        is_mine = np.ones(len(kept) + len(downs) + len(earlier), np.bool_)
        is_mine[len(kept) : len(kept) + len(downs)] = False
        everything = pa.concat_tables([kept, downs, earlier, _carried(dealt)]).unify_dictionaries()
        found = Slice(coded(everything), is_mine, last_ns, self.from_ns)
        return {
            "silver/block_interval": block_interval(found),
            "silver/alarm_interval": alarm_interval(found),
            "silver/sample_step": sample_step(found),
            "silver/consumer": pa.concat_tables([consumer(found), self._consumers()]),
            "gold/queue_depth": queue_depth(found),
            "gold/event_kinds": event_kinds(found, self.width_ns),
            "gold/coverage": coverage(found, self.width_ns),
            "silver/last_seen": pa.concat_tables([self._seen(found, seen), self._ends()]),
        }

    def _seen(self, found: Slice, seen: pa.Table) -> pa.Table:
        """Of boots that are over nothing is remembered."""
        rows = _last_seen(found, seen)
        return rows.filter(pc.is_in(rows["boot_id"], pa.array(sorted(self.alive), pa.string())))

    def _consumers(self) -> pa.Table:
        """Those that are known, told by one share."""
        known = read(() if self.share else self.consumers, CONSUMER, pc.scalar(True))
        return known.cast(CONSUMER)

    def _ends(self) -> pa.Table:
        """The last event of each boot that is remembered; they are told by one share."""
        nobody = {"actor": "", "kind": "", "consumers": 0}
        alive = {} if self.share else self.alive
        rows = [{"boot_id": boot, **end._asdict(), **nobody} for boot, end in alive.items()]
        return pa.Table.from_pylist(rows, schema=LAST_SEEN)


def _events(parts: Sequence[pa.Table]) -> pa.Table:
    """The same with all columns: those that gates lack are 0."""
    whole = [coded_schema(EVENT_COLUMNS).empty_table()]
    for part in parts:
        lacking = [name for name in EVENT_COLUMNS.names if name not in part.column_names]
        zeros = pa.array(np.zeros(len(part) if lacking else 0, np.int64))
        for name in lacking:
            part = part.append_column(name, zeros)
        whole.append(part.select(EVENT_COLUMNS.names))
    return pa.concat_tables(whole)


def _carried(dealt: Dealt) -> pa.Table:
    """What began before the slice and ends in it, as if it had begun right before; of what is known
    by its end alone, the end of what was before it."""
    holds = concatenated(dealt.get("holds", ()), _HOLDS)
    alarms = concatenated(dealt.get("alarms", ()), _ALARMS)
    return pa.concat_tables(
        [
            _as_events(holds.filter(pc.invert(holds["is_lone"])), "gate_closed"),
            _as_events(holds.filter(holds["is_lone"]), "gate_opened"),
            _as_events(alarms.rename_columns([*_ACTOR, "start_ns"]), "alarm_set"),
        ]
    )


def _last_seen(found: Slice, seen: pa.Table) -> pa.Table:
    """The last sample of each actor, unless it has come up or gone since. seen: known before."""
    rows = found.of(np.concatenate([found.before, found.mine]), *SAMPLES, *LIVES)
    is_life = np.isin(rows, found.of(rows, *LIVES), assume_unique=True)
    place = np.arange(len(rows), dtype=np.int64)
    actor = compact(together(*(found.codes[name][rows] for name in _ACTOR)))
    gone = np.full(len(rows), -1, np.int64)
    np.maximum.at(gone, actor[is_life], place[is_life])
    order, _, is_last = by_group(
        compact(together(*(found.codes[name][rows] for name in _SAMPLED))), place
    )
    is_kept = np.zeros(len(rows), np.bool_)
    is_kept[order] = is_last
    is_kept &= ~is_life & (place > gone[actor])

    def names(whose: np.ndarray, columns: Sequence[str]) -> pa.Table:
        return pa.table({name: found.texts(name, rows[whose]) for name in columns})

    old = seen.cast(LAST_SEEN).combine_chunks()
    if len(old) and len(rows):
        old = old.join(names(~is_life, _SAMPLED), _SAMPLED, join_type="left anti")
        old = old.join(names(is_life, _ACTOR), _ACTOR, join_type="left anti")
    rows = rows[is_kept]
    new = [found.texts(name, rows) for name in _SAMPLED]
    new += [pa.array(found.numbers[name][rows]) for name in ("seq", "t_ns", "consumers")]
    return pa.concat_tables(
        [old.select(LAST_SEEN.names).cast(LAST_SEEN), pa.table(new, schema=LAST_SEEN)]
    )


def _as_events(began: pa.Table, kind: str) -> pa.Table:
    """What began, with what is missing as of an event."""
    known = {"t_ns": began["start_ns"], "kind": repeated(kind, len(began))}
    for field in EVENT_COLUMNS:
        if field.name in began.column_names:
            known[field.name] = began[field.name]
        elif field.name not in known and pa.types.is_string(field.type):
            known[field.name] = repeated("", len(began))
    nothing = pa.array(np.zeros(len(began), np.int64))
    columns = [known.get(name, nothing) for name in EVENT_COLUMNS.names]
    return pa.table(columns, names=EVENT_COLUMNS.names).cast(coded_schema(EVENT_COLUMNS))
