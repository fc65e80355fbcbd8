"""How far back new events reach: no fact that they can change has ended before that.

    reach = earliest of: a new event; the last event known of a boot that has new ones, whose bucket
            is not over; the beginning of a hold that is known by its end alone; the middle of a
            step that a new sample ends, or its beginning where a queue had no consumer

A hold that is open for an hour reaches no further than that: tables are exchanged by when facts
end. Only what comes late, behind events that were known already, reaches further, by a sample.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.blame.blame import group_of
from penstock.spark.input import parse
from penstock.spark.input.event_slice import FIRST_NS, SAMPLES, UP, read_events
from penstock.spark.schema.arrow_columns import (
    BLOCK_INTERVAL,
    BOOT,
    CONSUMER,
    COVERAGE,
    LAST_SEEN,
    SAMPLE_STEP,
    TRIPLE,
    Mask,
    coded_schema,
    named,
    picked,
    read,
)

_HOLD: Final = ("boot_id", *TRIPLE)
_SAMPLED: Final = ("boot_id", "actor", "kind")
_MEMBER: Final = ["boot_id", "consumer", "group"]
_OF_BOUNDS: Final = picked(parse.EVENTS, *BOOT, "seq", "t_ns")
_BOUNDS: Final = picked(parse.EVENTS, *BOOT, "kind", "seq", "t_ns", "batch")
_UP: Final = picked(parse.EVENTS, "boot_id", "actor")
_ENDED: Final = picked(parse.EVENTS, *_HOLD, "t_ns", "amount")
_TAKEN: Final = picked(parse.EVENTS, *_SAMPLED, "t_ns")
_NEW: Final = picked(parse.EVENTS, "node", *_HOLD, "kind", "seq", "t_ns", "amount", "batch")
_OPEN: Final = picked(BLOCK_INTERVAL, *_HOLD, "start_ns")
_SINCE: Final = picked(BLOCK_INTERVAL, "boot_id", "actor", "start_ns")
_BORDERS: Final = picked(SAMPLE_STEP, "start_ns", "end_ns")

REPLACED_NS: Final = 600_000_000_000
"""After which a boot is over when another of its node is there: files come in the order of their
names."""

SILENT_NS: Final = 86_400_000_000_000
"""After which it is over when it has said nothing, while others have."""


class End(NamedTuple):
    """The last event of a boot."""

    node: str
    seq: int
    t_ns: int


class Reach(NamedTuple):
    """from_ns: the moment; last: of each boot that has new events, the last.

    earlier_ns: when the first of the samples was from which steps lead behind the moment; alive:
    the last events of the boots whose actors are remembered; over: when those of the others were
    that have something behind the moment."""

    from_ns: int
    last: dict[str, End]
    earlier_ns: int
    alive: dict[str, End]
    over: dict[str, int]


Scanned = dict[str, pa.Table]
"""What a task has found in new events; no table of it is longer than there are actors, but for the
ends of holds that began before the file did."""


@dataclass(frozen=True)
class Scan:
    """The part of a task: files of bronze, of which the events after batch `known` are new."""

    files: tuple[str, ...]
    known: int

    def __call__(self) -> Scanned:
        """Raises: OSError."""
        # Before anything is known nobody asks what they were.
        columns = _NEW if self.known >= 0 else _BOUNDS
        parts = [read_events(file, columns, FIRST_NS) for file in self.files]
        new = pa.concat_tables([coded_schema(columns).empty_table(), *parts])
        new = new.unify_dictionaries().combine_chunks()
        new = new.filter(pc.greater(new["batch"], self.known))
        if self.known < 0:
            return {"bounds": _bounds(new)}
        return {
            "bounds": _bounds(new),
            "first": _of(new, _is(new["kind"], *SAMPLES), _TAKEN)
            .group_by(list(_SAMPLED))
            .aggregate([("t_ns", "min")]),
            "ended": _ended(new),
            "named": _named(new),
            "up": _of(new, _is(new["kind"], UP), _UP).group_by(_UP.names).aggregate([]),
        }


def _bounds(new: pa.Table) -> pa.Table:
    return (
        new.select(_OF_BOUNDS.names)
        .cast(_OF_BOUNDS)
        .group_by(["boot_id", "node"])
        .aggregate([("t_ns", "min"), ("t_ns", "max"), ("seq", "min"), ("seq", "max")])
    )


def _ended(new: pa.Table) -> pa.Table:
    """The holds that ended and began before all that is new here."""
    before_ns = pc.min(new["t_ns"]).as_py() or 0
    began = pc.subtract(new["t_ns"], pc.max_element_wise(new["amount"], 0))
    is_ended = _is(new["kind"], "gate_opened") & pc.less(began, before_ns).to_numpy()
    return _of(new, is_ended, _ENDED)


def _named(new: pa.Table) -> pa.Table:
    """Consumers and the groups that they are of."""
    found: set[tuple[str, str, str]] = set()
    for one, other in (("actor", "peer"), ("peer", "actor")):
        is_named = named(new[one], lambda name: name.startswith("consumer:"))
        pairs = new.filter(pa.array(is_named)).group_by(["boot_id", one, other]).aggregate([])
        for row in pairs.to_pylist():
            if group_of(row[other]):
                found.add((row["boot_id"], row[one], group_of(row[other])))
    columns = list(zip(*sorted(found), strict=True)) or [(), (), ()]
    return pa.table([pa.array(column, pa.string()) for column in columns], names=_MEMBER)


@dataclass(frozen=True)
class Horizon:
    """The reach of the events after batch `known` of bronze. The work of tasks: the driver reads no
    events.

    events: files of bronze with new events; holds, steps, consumers, seen, coverage: those of other
    tables; width_ns: of a bucket; is_torn: some tables know more than others."""

    events: tuple[str, ...]
    holds: tuple[str, ...]
    steps: tuple[str, ...]
    consumers: tuple[str, ...]
    seen: tuple[str, ...]
    coverage: tuple[str, ...]
    known: int
    width_ns: int
    is_torn: bool

    def reach(self, parts: Sequence[Scanned]) -> Reach:
        """What follows from what tasks have found. Raises: OSError."""
        found = {name: pa.concat_tables([part[name] for part in parts]) for name in parts[0]}
        fresh = _whole(found["bounds"])
        last = {
            boot: End(row["node"], row["seq_max"], row["t_ns_max"]) for boot, row in fresh.items()
        }
        if self.known < 0 or not fresh:
            # Everything is new, or nothing.
            return Reach(0, last, 0, _remembered(last, last), {})
        seen = _plain(read(self.seen, LAST_SEEN, pc.scalar(True)), LAST_SEEN)
        ends = {
            row["boot_id"]: End(row["node"], row["seq"], row["t_ns"])
            for row in seen.filter(pc.equal(seen["kind"], "")).to_pylist()
        }
        moments = [row["t_ns_min"] for row in fresh.values()]
        for row in self._forgotten(fresh.keys() - ends.keys()):
            # Nothing is known of its actors, so all of its life is made again.
            ends[row["boot_id"]] = End(row["node"], row["high_max"], row["last_ns_max"])
            moments.append(row["bucket_ns_min"])
        steps = _stepped(found["first"], seen)
        moments += [
            *(end.t_ns for boot, end in ends.items() if boot in fresh),
            *steps.moments,
            *self._joined(found["named"], found["up"]),
        ]
        moments += self._lone(found["ended"], min(moments))
        from_ns = self._floor(min(moments))
        if any(fresh[boot]["seq_min"] <= end.seq for boot, end in ends.items() if boot in fresh):
            from_ns = 0 if self.is_torn else self._floor(self._before(from_ns))
        last = {boot: max(end, ends.get(boot, end)) for boot, end in last.items()}
        ends |= last
        alive = _remembered(ends, last)
        return Reach(
            from_ns,
            last,
            min(self._before(from_ns), *(t_ns for t_ns in steps.began if t_ns < from_ns), from_ns),
            alive,
            {row["boot_id"]: row["last_ns_max"] for row in self._behind(from_ns)}
            | {boot: end.t_ns for boot, end in ends.items() if boot not in alive},
        )

    def _floor(self, t_ns: int) -> int:
        return max(0, t_ns - t_ns % self.width_ns)

    def _forgotten(self, boots: Collection[str]) -> list[dict[str, Any]]:
        """What is known of boots that are not remembered, if they were there before."""
        if not boots:
            return []
        return _lives(read(self.coverage, COVERAGE, pc.field("boot_id").isin(sorted(boots))))

    def _behind(self, from_ns: int) -> list[dict[str, Any]]:
        """The boots that have something behind a moment."""
        return _lives(read(self.coverage, COVERAGE, pc.field("bucket_ns") >= from_ns))

    def _lone(self, ended: pa.Table, before_ns: int) -> Iterator[int]:
        """When the holds began that ended, but for those that are known to be open: of such as
        began before `before_ns`, as the others reach no further."""
        began = pc.subtract(ended["t_ns"], pc.max_element_wise(ended["amount"], 0))
        ended = ended.filter(pc.less(began, before_ns)).combine_chunks()
        if not len(ended):
            return
        is_open = pc.field("closed_by") == "end_of_data"
        known = _plain(read(self.holds, _OPEN, is_open), _OPEN)
        ended = ended.join(known, list(_HOLD), join_type="left outer")
        is_told = pc.fill_null(pc.greater_equal(ended["t_ns"], ended["start_ns"]), False)
        ended = ended.filter(pc.invert(is_told))
        if len(ended):
            began = pc.subtract(ended["t_ns"], pc.max_element_wise(ended["amount"], 0))
            yield pc.min(began).as_py()

    def _joined(self, members: pa.Table, up: pa.Table) -> Iterator[int]:
        """Since when consumers were held that turn out to be those of a queue."""
        pairs = {tuple(row.values()) for row in members.to_pylist()}
        if not pairs:
            return
        is_one = pc.field("boot_id").isin(sorted({one[0] for one in pairs}))
        known = read(self.consumers, CONSUMER, is_one).to_pylist()
        before = {(row["boot_id"], row["consumer"], row["group"]) for row in known}
        # One that came up just now, and was of no queue before, has been held by nobody.
        names = {one[:2] for one in pairs - before}
        names -= {tuple(row.values()) for row in up.to_pylist()} - {one[:2] for one in before}
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


class _Steps(NamedTuple):
    """moments: where the time of steps belongs that new samples end; began: where they begin."""

    moments: list[int]
    began: list[int]


def _stepped(first: pa.Table, seen: pa.Table) -> _Steps:
    first = first.group_by(list(_SAMPLED)).aggregate([("t_ns_min", "min")])
    steps = seen.join(first, list(_SAMPLED), join_type="inner")
    if not len(steps):
        return _Steps([], [])
    is_time = pc.equal(steps["kind"], "time_sample")
    until = steps["t_ns_min_min"]
    middle_ns = pc.divide(pc.add(steps["t_ns"], until), 2)
    is_empty = pc.equal(steps["consumers"], 0)
    places = pc.if_else(is_time, middle_ns, pc.if_else(is_empty, steps["t_ns"], until))
    return _Steps([pc.min(places).as_py()], [pc.min(steps["t_ns"]).as_py()])


def _whole(bounds: pa.Table) -> dict[str, dict[str, Any]]:
    """Of each boot the first and the last, over all parts."""
    found = bounds.group_by(["boot_id", "node"]).aggregate(
        [(f"{name}_{end}", end) for name in ("t_ns", "seq") for end in ("min", "max")]
    )
    names = {f"{name}_{end}_{end}": f"{name}_{end}" for name in ("t_ns", "seq")
             for end in ("min", "max")}  # fmt: skip
    found = found.rename_columns([names.get(one, one) for one in found.column_names])
    return {row.pop("boot_id"): row for row in found.to_pylist()}


def _lives(coverage: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        coverage.group_by(["boot_id", "node"])
        .aggregate([("bucket_ns", "min"), ("high", "max"), ("last_ns", "max")])
        .to_pylist()
    )
    return found


def _remembered(ends: Mapping[str, End], fresh: Collection[str]) -> dict[str, End]:
    """The boots whose actors may go on: those that have new events, and of the others those that
    no later one of their node has taken the place of, unless they have been silent for long."""
    newest: dict[str, int] = {}
    for end in ends.values():
        newest[end.node] = max(newest.get(end.node, end.t_ns), end.t_ns)
    now_ns = max(newest.values(), default=0)
    return {
        boot: end
        for boot, end in ends.items()
        if boot in fresh
        or (newest[end.node] - end.t_ns <= REPLACED_NS and now_ns - end.t_ns <= SILENT_NS)
    }


def _is(column: pa.ChunkedArray, *texts: str) -> Mask:
    return named(column, lambda name: name in texts)


def _of(new: pa.Table, is_one: Mask, schema: pa.Schema) -> pa.Table:
    return _plain(new.filter(pa.array(is_one)).select(schema.names), schema)


def _plain(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.cast(schema).combine_chunks()
