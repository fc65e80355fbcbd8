"""The facts of one share of the actors, of a slice of time: the work of one task.

A share has all events of its actors from a moment on; the ends of all actors, because a hold ends
with either side; and what tables say of the time before: holds and alarms that went on, and which
samples to read again, because steps lead from them into the slice.
"""

from collections.abc import Mapping, Sequence
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
from penstock.spark.schema.arrow_columns import (
    ALARM_INTERVAL,
    BLOCK_INTERVAL,
    BOOT,
    CONSUMER,
    DEPTHS,
    LAST_SEEN,
    SAMPLE_STEP,
    TRIPLE,
    Tables,
    coded,
    coded_schema,
    compact,
    read,
    share,
    together,
)
from penstock.spark.schema.formats import STATE_FIELDS

_NUMBERS: Final = ("seq", "t_ns", "amount", *STATE_FIELDS, *DEPTHS)
EVENT_COLUMNS: Final = pa.schema(
    [parse.EVENTS.field(name) for name in (*BOOT, "kind", *TRIPLE, *_NUMBERS)]
)
_HOLDS: Final = pa.schema(
    [BLOCK_INTERVAL.field(name) for name in (*BOOT, *TRIPLE, "start_ns", "is_lone")]
)
_ALARMS: Final = pa.schema([ALARM_INTERVAL.field(name) for name in (*BOOT, "alarm", "start_ns")])
_BEGUN: Final = pa.schema([SAMPLE_STEP.field(name) for name in ("actor", "start_ns")])
_ACTOR: Final = [*BOOT, "actor"]
_SAMPLED: Final = [*_ACTOR, "kind"]
_OF_SAMPLES: Final = (*SAMPLES, *LIVES)


@dataclass(frozen=True)
class Facts:
    """events: files of bronze, of each its times as `TableStore.spans` says them; holds, alarms,
    steps: those of silver with facts that end at `from_ns` or later; consumers, seen: those of
    what is known so far; last: of boots with new events, the last; share:
    of 0..shares-1; width_ns: of a bucket."""

    events: tuple[tuple[str, int, int], ...]
    holds: tuple[str, ...]
    alarms: tuple[str, ...]
    steps: tuple[str, ...]
    consumers: tuple[str, ...]
    seen: tuple[str, ...]
    last: Mapping[str, End]
    share: int
    shares: int
    from_ns: int
    width_ns: int

    def __call__(self) -> Tables:
        """Raises: OSError."""
        kept, mine = [], [np.zeros(0, np.bool_)]
        for file, _, high in self.events:
            if high >= self.from_ns:
                table = read_events(file, EVENT_COLUMNS, self.from_ns)
                is_mine = share(table["actor"], self.share, self.shares)
                is_wanted = is_mine | pc.equal(table["kind"], DOWN).to_numpy()
                kept.append(table.filter(pa.array(is_wanted)))
                mine.append(is_mine[is_wanted])
        everyone = read(self.seen, LAST_SEEN, pc.scalar(True)).cast(LAST_SEEN).combine_chunks()
        is_boot = pc.equal(everyone["kind"], "")
        seen, boots = everyone.filter(pc.invert(is_boot)), everyone.filter(is_boot)
        seen = self._mine(seen.cast(coded_schema(LAST_SEEN)).unify_dictionaries())
        last_ns = dict(zip(boots["boot_id"].to_pylist(), boots["t_ns"].to_pylist(), strict=True))
        last_ns |= {boot_id: end.t_ns for boot_id, end in self.last.items()}
        earlier = self._earlier(kept, seen)
        mine.append(np.ones(len(earlier), np.bool_))
        everything = pa.concat_tables([*kept, earlier, self._carried()]).unify_dictionaries()
        found = Slice(coded(everything), np.concatenate(mine), last_ns, self.from_ns)
        return {
            "silver/block_interval": block_interval(found),
            "silver/alarm_interval": alarm_interval(found),
            "silver/sample_step": sample_step(found),
            "silver/consumer": pa.concat_tables([consumer(found), self._consumers()]),
            "gold/queue_depth": queue_depth(found),
            "gold/event_kinds": event_kinds(found, self.width_ns),
            "gold/coverage": coverage(found, self.width_ns),
            "silver/last_seen": pa.concat_tables([_last_seen(found, seen), self._ends(boots)]),
        }

    def _mine(self, rows: pa.Table, column: str = "actor") -> pa.Table:
        return rows.filter(pa.array(share(rows[column], self.share, self.shares)))

    def _carried(self) -> pa.Table:
        """What began before the slice and ends in it, as if it had begun right before; of what is
        known by its end alone, the end of what was before it."""
        goes_on = (pc.field("start_ns") < self.from_ns) & (pc.field("end_ns") >= self.from_ns)
        holds = self._mine(read(self.holds, _HOLDS, goes_on))
        alarms = self._mine(read(self.alarms, _ALARMS, goes_on), "alarm")
        return pa.concat_tables(
            [
                _as_events(holds.filter(pc.invert(holds["is_lone"])), "gate_closed"),
                _as_events(holds.filter(holds["is_lone"]), "gate_opened"),
                _as_events(alarms.rename_columns([*_ACTOR, "start_ns"]), "alarm_set"),
            ]
        )

    def _earlier(self, kept: Sequence[pa.Table], seen: pa.Table) -> pa.Table:
        """The last samples before the slice, where others follow in it, and what lies between."""
        crosses = (pc.field("start_ns") < self.from_ns) & (pc.field("end_ns") >= self.from_ns)
        since = [pc.min(self._mine(read(self.steps, _BEGUN, crosses))["start_ns"]).as_py()]
        sampled = _plain([part.filter(pc.is_in(part["kind"], pa.array(SAMPLES))) for part in kept])
        before = _plain([seen.filter(pc.less(seen["t_ns"], self.from_ns))], "t_ns")
        if len(sampled) and len(before):
            before = before.join(sampled, _SAMPLED, join_type="left semi")
            since.append(pc.min(before["t_ns"]).as_py())
        from_ns = min((one for one in since if one is not None), default=self.from_ns)
        parts = [coded_schema(EVENT_COLUMNS).empty_table()]
        for file, low, high in self.events:
            if low < self.from_ns and high >= from_ns and from_ns < self.from_ns:
                table = self._mine(read_events(file, EVENT_COLUMNS, from_ns, _OF_SAMPLES))
                is_sample = pc.is_in(table["kind"], pa.array(_OF_SAMPLES))
                parts.append(table.filter(pc.and_(is_sample, pc.less(table["t_ns"], self.from_ns))))
        return pa.concat_tables(parts).unify_dictionaries()

    def _consumers(self) -> pa.Table:
        """Those that are known, told by one share."""
        known = read(() if self.share else self.consumers, CONSUMER, pc.scalar(True))
        return known.cast(CONSUMER)

    def _ends(self, boots: pa.Table) -> pa.Table:
        """The last event of each boot, known and new; they are told by one share."""
        if self.share:
            return LAST_SEEN.empty_table()
        known = {row["boot_id"]: row for row in boots.to_pylist()}
        for boot_id, end in self.last.items():
            nobody = {"actor": "", "kind": "", "consumers": 0}
            known[boot_id] = {"boot_id": boot_id, **end._asdict(), **nobody}
        return pa.Table.from_pylist(list(known.values()), schema=LAST_SEEN)


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


def _plain(parts: Sequence[pa.Table], *more: str) -> pa.Table:
    """Columns of texts to be joined by."""
    schema = pa.schema([LAST_SEEN.field(name) for name in (*_SAMPLED, *more)])
    found = [part.select(schema.names).cast(schema) for part in parts]
    return pa.concat_tables([schema.empty_table(), *found]).combine_chunks()


def _as_events(began: pa.Table, kind: str) -> pa.Table:
    """What began, with what is missing as of an event."""
    known = {"t_ns": began["start_ns"], "kind": _repeated(kind, len(began))}
    for field in EVENT_COLUMNS:
        if field.name in began.column_names:
            known[field.name] = began[field.name]
        elif field.name not in known and pa.types.is_string(field.type):
            known[field.name] = _repeated("", len(began))
    nothing = pa.array(np.zeros(len(began), np.int64))
    columns = [known.get(name, nothing) for name in EVENT_COLUMNS.names]
    return pa.table(columns, names=EVENT_COLUMNS.names).cast(coded_schema(EVENT_COLUMNS))


def _repeated(text: str, count: int) -> pa.Array:
    codes = pa.array(np.zeros(count, np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array([text], pa.string()))
