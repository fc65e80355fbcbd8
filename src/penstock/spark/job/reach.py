"""How far back new events reach: no fact that they can change has ended before that.

    reach = earliest of: a new event; the last event known of a boot that has new ones, whose bucket
            is not over; the beginning of a hold that is known by its end alone; the middle of a
            step that a new sample ends, or its beginning where a queue had no consumer

A hold that is open for an hour reaches no further than that: tables are exchanged by when facts
end. Only what comes late, behind events that were known already, reaches further, by a sample.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.blame.blame import group_of
from penstock.spark.input import parse
from penstock.spark.input.event_slice import FIRST_NS, SAMPLES, UP, read_events
from penstock.spark.schema.arrow_columns import (
    BLOCK_INTERVAL,
    BOOT,
    CONSUMER,
    LAST_SEEN,
    SAMPLE_STEP,
    TRIPLE,
    Mask,
    coded_schema,
    named,
    read,
)

_HOLD: Final = ("boot_id", *TRIPLE)
_SAMPLED: Final = ("boot_id", "actor", "kind")
_BOUNDS: Final = pa.schema(
    [parse.EVENTS.field(name) for name in (*BOOT, "kind", "seq", "t_ns", "batch")]
)
_ENDED: Final = pa.schema([parse.EVENTS.field(name) for name in (*_HOLD, "t_ns", "amount")])
_TAKEN: Final = pa.schema([parse.EVENTS.field(name) for name in (*_SAMPLED, "t_ns")])
_NEW: Final = pa.schema(
    [
        parse.EVENTS.field(name)
        for name in ("node", *_HOLD, "kind", "seq", "t_ns", "amount", "batch")
    ]
)
_OPEN: Final = pa.schema([BLOCK_INTERVAL.field(name) for name in (*_HOLD, "start_ns")])
_SINCE: Final = pa.schema([BLOCK_INTERVAL.field(name) for name in ("boot_id", "actor", "start_ns")])
_BORDERS: Final = pa.schema([SAMPLE_STEP.field(name) for name in ("start_ns", "end_ns")])


class End(NamedTuple):
    """The last event of a boot."""

    node: str
    seq: int
    t_ns: int


class Reach(NamedTuple):
    """from_ns: the moment; last: of each boot that has new events, the last."""

    from_ns: int
    last: dict[str, End]


@dataclass(frozen=True)
class Horizon:
    """The reach of the events after batch `known` of bronze. The work of one task: the driver reads
    no events.

    events: files of bronze with new events; holds, steps, consumers, seen: those of silver tables;
    width_ns: of a bucket; is_torn: some tables know more than others."""

    events: tuple[str, ...]
    holds: tuple[str, ...]
    steps: tuple[str, ...]
    consumers: tuple[str, ...]
    seen: tuple[str, ...]
    known: int
    width_ns: int
    is_torn: bool

    def __call__(self) -> Reach:
        """Raises: OSError."""
        new = self._new()
        bounds = new.group_by(["boot_id", "node"]).aggregate(
            [("t_ns", "min"), ("t_ns", "max"), ("seq", "min"), ("seq", "max")]
        )
        fresh = {row.pop("boot_id"): row for row in bounds.to_pylist()}
        last = {
            boot: End(row["node"], row["seq_max"], row["t_ns_max"]) for boot, row in fresh.items()
        }
        if self.known < 0 or not fresh:
            return Reach(0, last)
        seen = _plain(read(self.seen, LAST_SEEN, pc.scalar(True)), LAST_SEEN)
        ends = {
            row["boot_id"]: End(row["node"], row["seq"], row["t_ns"])
            for row in seen.filter(pc.equal(seen["kind"], "")).to_pylist()
            if row["boot_id"] in fresh
        }
        moments = [
            *(row["t_ns_min"] for row in fresh.values()),
            *(end.t_ns for end in ends.values()),
            *_stepped(new, seen),
            *self._joined(new),
        ]
        moments += self._lone(new, min(moments))
        from_ns = self._floor(min(moments))
        if any(fresh[boot]["seq_min"] <= end.seq for boot, end in ends.items()):
            from_ns = 0 if self.is_torn else self._floor(self._before(from_ns))
        return Reach(from_ns, {boot: max(end, ends.get(boot, end)) for boot, end in last.items()})

    def _floor(self, t_ns: int) -> int:
        return max(0, t_ns - t_ns % self.width_ns)

    def _new(self) -> pa.Table:
        """The new events, texts as dictionaries: most of them are only counted here. Before
        anything is known nobody asks what they were."""
        columns = _NEW if self.known >= 0 else _BOUNDS
        parts = [read_events(file, columns, FIRST_NS) for file in self.events]
        found = pa.concat_tables([coded_schema(columns).empty_table(), *parts])
        found = found.unify_dictionaries().combine_chunks()
        return found.filter(pc.greater(found["batch"], self.known))

    def _lone(self, new: pa.Table, before_ns: int) -> Iterator[int]:
        """When the holds began that ended, but for those that are known to be open: of such as
        began before `before_ns`, as the others reach no further."""
        began = pc.subtract(new["t_ns"], pc.max_element_wise(new["amount"], 0))
        is_ended = _is(new["kind"], "gate_opened") & pc.less(began, before_ns).to_numpy()
        if not np.any(is_ended):
            return
        ended = _plain(new.filter(pa.array(is_ended)).select(_ENDED.names), _ENDED)
        is_open = pc.field("closed_by") == "end_of_data"
        known = _plain(read(self.holds, _OPEN, is_open), _OPEN)
        ended = ended.join(known, list(_HOLD), join_type="left outer")
        is_told = pc.fill_null(pc.greater_equal(ended["t_ns"], ended["start_ns"]), False)
        ended = ended.filter(pc.invert(is_told))
        if len(ended):
            began = pc.subtract(ended["t_ns"], pc.max_element_wise(ended["amount"], 0))
            yield pc.min(began).as_py()

    def _joined(self, new: pa.Table) -> Iterator[int]:
        """Since when consumers were held that turn out to be those of a queue."""
        pairs: set[tuple[str, str, str]] = set()
        for one, other in (("actor", "peer"), ("peer", "actor")):
            is_named = named(new[one], lambda name: name.startswith("consumer:"))
            pairs_ = new.filter(pa.array(is_named)).group_by(["boot_id", one, other]).aggregate([])
            for row in pairs_.to_pylist():
                if group_of(row[other]):
                    pairs.add((row["boot_id"], row[one], group_of(row[other])))
        if not pairs:
            return
        known = read(self.consumers, CONSUMER, pc.field("boot_id").isin({one[0] for one in pairs}))
        before = {(row["boot_id"], row["consumer"], row["group"]) for row in known.to_pylist()}
        ups = new.filter(pa.array(_is(new["kind"], UP))).select(["boot_id", "actor"]).to_pylist()
        # One that came up just now, and was of no queue before, has been held by nobody.
        names = {one[:2] for one in pairs - before}
        names -= {(row["boot_id"], row["actor"]) for row in ups} - {one[:2] for one in before}
        for boot_id in {one[0] for one in names}:
            actors = sorted(actor for boot, actor in names if boot == boot_id)
            is_one = (pc.field("boot_id") == boot_id) & pc.field("actor").isin(actors)
            began = pc.min(read(self.holds, _SINCE, is_one)["start_ns"]).as_py()
            if began is not None:
                yield began

    def _before(self, from_ns: int) -> int:
        """When the first of the steps began into which something comes late."""
        crosses = (pc.field("start_ns") < from_ns) & (pc.field("end_ns") >= from_ns)
        began = pc.min(read(self.steps, _BORDERS, crosses)["start_ns"]).as_py()
        return from_ns if began is None else min(from_ns, began)


def _stepped(new: pa.Table, seen: pa.Table) -> Iterator[int]:
    """Where the time of steps belongs that new samples end."""
    samples = new.filter(pa.array(_is(new["kind"], *SAMPLES))).select(_TAKEN.names)
    first = _plain(samples, _TAKEN).group_by(list(_SAMPLED)).aggregate([("t_ns", "min")])
    steps = seen.join(first, list(_SAMPLED), join_type="inner")
    is_time = pc.equal(steps["kind"], "time_sample")
    middle_ns = pc.divide(pc.add(steps["t_ns"], steps["t_ns_min"]), 2)
    is_empty = pc.equal(steps["consumers"], 0)
    places = pc.if_else(is_time, middle_ns, pc.if_else(is_empty, steps["t_ns"], steps["t_ns_min"]))
    if len(places):
        yield pc.min(places).as_py()


def _is(column: pa.ChunkedArray, *texts: str) -> Mask:
    return named(column, lambda name: name in texts)


def _plain(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.cast(schema).combine_chunks()
