"""Gold tables of events: blame, who blocked whom, held time and time in state, made of silver.

A task gets what overlaps its stretch of time, cuts it at the borders of buckets, and sums up.
Buckets do not depend on each other, so any stretches give the same tables. Column names are those
of `rows.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.blame.blame import NOBODY, SLOW, group_of, is_group, name_small_windows
from penstock.spark.blame.blame_columns import Blame, sweep_columns
from penstock.spark.blame.blame_graph import Cut, Members, Places
from penstock.spark.job.sketches import hold_sketch
from penstock.spark.job.tasks import Dealt
from penstock.spark.schema.arrow_columns import (
    ANSWERS,
    BLOCK_INTERVAL,
    BOOT,
    CONSUMER,
    HELD_TIME,
    I64,
    ROOT_CAUSE,
    SAMPLE_STEP,
    TIME_IN_STATE,
    TRIPLE,
    WHO_BLOCKED_WHOM,
    Coded,
    Mask,
    Tables,
    coded,
    concatenated,
    dealt,
    picked,
    read,
    repeated,
    spread,
    sums,
    text,
    together,
    united,
)
from penstock.spark.schema.formats import STATE_FIELDS
from penstock.spark.schema.rows import BlameRow, StateRow

EDGES_AT_A_TIME: Final = 1 << 20
"""Cut edges that are in memory at a time, if one bucket has no more than that: some 200 MB."""

NO_CONSUMER: Final = "no consumer"

_HOLDS: Final = picked(BLOCK_INTERVAL, *BOOT, *TRIPLE, "start_ns", "end_ns")
_ENDED_HOLDS: Final = _HOLDS.append(BLOCK_INTERVAL.field("closed_by"))


_FACTS: Final = {"holds": _ENDED_HOLDS, "steps": SAMPLE_STEP}


@dataclass(frozen=True)
class FactFile:
    """Deals the rows of a file of silver to the stretches of time that they overlap. name: of
    _FACTS; borders: of the stretches, one more than there are."""

    name: str
    file: str
    borders: tuple[int, ...]

    def __call__(self) -> Iterator[tuple[int, str, pa.Table]]:
        """Raises: OSError."""
        is_near = pc.field("end_ns") >= self.borders[0]
        is_some = pc.field("end_ns") > pc.field("start_ns")
        table = read([self.file], _FACTS[self.name], is_near & is_some)
        first, last = (
            np.clip(
                np.searchsorted(self.borders, table[name].to_numpy(), side="right") - 1,
                0,
                len(self.borders) - 2,
            )
            for name in ("start_ns", "end_ns")
        )
        row, at = spread(last - first + 1)
        if len(row) > len(table):
            table = table.take(pa.array(row))
        for number, rows in dealt(table, first[row] + at):
            yield number, self.name, rows


@dataclass(frozen=True)
class Answers:
    """The work of one task. consumers: files of them; [from_ns, to_ns): its stretch, of whole
    buckets of `width_ns`."""

    consumers: tuple[str, ...]
    from_ns: int
    to_ns: int
    width_ns: int

    def __call__(self, dealt: Dealt) -> Tables:
        """The answers for this stretch, of "holds" and "steps" dealt to it. Raises: OSError."""
        holds, steps_ = (
            concatenated(dealt.get(name, ()), schema) for name, schema in _FACTS.items()
        )
        steps = coded(steps_)
        states = self._states(steps)
        edges = _edges(holds.select(_HOLDS.names), steps)
        members = self._members(edges)
        parts = [self._part(cut, states, members) for cut in self._cuts(edges)]
        return {
            "gold/time_in_state": states,
            "gold/hold_sketch": hold_sketch(holds, self.from_ns, self.to_ns, self.width_ns),
            **{
                name: pa.concat_tables([ANSWERS[name].empty_table(), *(one[name] for one in parts)])
                for name in ("gold/who_blocked_whom", "gold/held_time", "gold/root_cause")
            },
        }

    def _members(self, edges: "_Edges") -> Members:
        """The consumers behind the groups that edges lead to."""
        groups = pa.array([name for name in edges.names if is_group(name)], pa.string())
        boots = pa.array([boot_id for _, boot_id in edges.boots], pa.string())
        found: dict[tuple[str, str], set[str]] = {}
        if len(groups):
            wanted = pc.field("group").isin(groups) & pc.field("boot_id").isin(boots)
            for row in read(self.consumers, CONSUMER, wanted).to_pylist():
                found.setdefault((row["boot_id"], row["group"]), set()).add(row["consumer"])
        return {key: sorted(consumers) for key, consumers in found.items()}

    def _part(self, cut: Cut, states: pa.Table, members: Members) -> Tables:
        return {
            "gold/who_blocked_whom": who_blocked_whom(cut),
            "gold/held_time": held_time(cut),
            "gold/root_cause": root_cause(cut.places, sweep_columns(cut, members), states),
        }

    def _states(self, steps: Coded) -> pa.Table:
        """What was added between an actor's samples, in the bucket where the middle lies."""
        start_ns, end_ns = steps.numbers["start_ns"], steps.numbers["end_ns"]
        middle_ns = (start_ns + end_ns) // 2
        rows = np.flatnonzero(
            (steps.codes["kind"] == steps.place("time_sample"))
            & (middle_ns >= self.from_ns)
            & (middle_ns < self.to_ns)
        )
        keys, totals = sums(
            (
                middle_ns[rows] // self.width_ns,
                *(steps.codes[name][rows] for name in ("actor", *BOOT)),
            ),
            (end_ns - start_ns)[rows],
            *(steps.numbers[name][rows] for name in STATE_FIELDS),
        )
        actor, *boot = (text(steps.names, key) for key in keys[1:])
        return pa.table([keys[0] * self.width_ns, actor, *totals, *boot], schema=TIME_IN_STATE)

    def _cuts(self, edges: "_Edges") -> Iterator[Cut]:
        """The edges of so many buckets at a time that memory lasts, cut at their borders."""
        at_ns = self.from_ns
        while at_ns < self.to_ns:
            left = edges.end_ns > at_ns
            if not np.any(left):
                return
            edges = edges.of(left)
            # Between two holds there may be years.
            at_ns = max(at_ns, int(edges.start_ns.min()) // self.width_ns * self.width_ns)
            if at_ns >= self.to_ns:
                return
            until_ns = self._until(edges, at_ns)
            yield _cut(edges, at_ns, until_ns, self.width_ns)
            at_ns = until_ns

    def _until(self, edges: "_Edges", at_ns: int) -> int:
        until_ns = self.to_ns
        while until_ns - at_ns > self.width_ns:
            start = np.maximum(edges.start_ns, at_ns)
            end = np.minimum(edges.end_ns, until_ns)
            buckets = (end - 1) // self.width_ns - start // self.width_ns + 1
            if int(buckets[end > start].sum()) <= EDGES_AT_A_TIME:
                break
            half = (until_ns - at_ns) // (2 * self.width_ns)
            until_ns = at_ns + half * self.width_ns
        return until_ns


class _Edges(NamedTuple):
    """Holds, and times without consumers, as they are. boot: in `boots`."""

    names: Sequence[str]
    reasons: Sequence[str]
    boots: Sequence[tuple[str, str]]
    boot: I64
    actor: I64
    peer: I64
    reason: I64
    start_ns: I64
    end_ns: I64

    def of(self, wanted: Mask) -> "_Edges":
        return _Edges(*self[:3], *(column[wanted] for column in self[3:]))


def _edges(holds: pa.Table, steps: Coded) -> _Edges:
    found = coded(pa.concat_tables([holds, _unattended(steps)]).unify_dictionaries())
    used, reason = np.unique(found.codes["reason"], return_inverse=True)
    boots, first, boot = np.unique(found.codes["boot_id"], return_index=True, return_inverse=True)
    nodes = found.codes["node"][first]
    pairs = zip(nodes.tolist(), boots.tolist(), strict=True)
    return _Edges(
        found.names,
        [found.names[code] for code in used.tolist()],
        [(found.names[node], found.names[boot_id]) for node, boot_id in pairs],
        boot,
        found.codes["actor"],
        found.codes["peer"],
        reason,
        found.numbers["start_ns"],
        found.numbers["end_ns"],
    )


def _unattended(steps: Coded) -> pa.Table:
    """Times in which a queue had no consumer, as edges from its group to NOBODY."""
    start_ns, end_ns = steps.numbers["start_ns"], steps.numbers["end_ns"]
    rows = np.flatnonzero(
        (steps.codes["kind"] == steps.place("queue_sample"))
        & (steps.numbers["consumers"] == 0)
        & (end_ns > start_ns)
    )
    groups = text([group_of(name) for name in steps.names], steps.codes["actor"][rows])
    return pa.table(
        [
            *(text(steps.names, steps.codes[name][rows]).dictionary_encode() for name in BOOT),
            groups.dictionary_encode(),
            repeated(NOBODY, len(rows)),
            repeated(NO_CONSUMER, len(rows)),
            start_ns[rows],
            end_ns[rows],
        ],
        names=_HOLDS.names,
    )


def _cut(edges: _Edges, from_ns: int, to_ns: int, width_ns: int) -> Cut:
    """What lies in [from_ns, to_ns), which are borders of buckets."""
    start_ns, end_ns = np.maximum(edges.start_ns, from_ns), np.minimum(edges.end_ns, to_ns)
    there = np.flatnonzero(end_ns > start_ns)
    start_ns, end_ns = start_ns[there], end_ns[there]
    first = start_ns // width_ns
    whose, at = spread((end_ns - 1) // width_ns - first + 1)
    bucket = first[whose] + at
    there = there[whose]
    known, place = np.unique(
        bucket * max(1, len(edges.boots)) + edges.boot[there], return_inverse=True
    )
    bucket_ns, boot = np.divmod(known, max(1, len(edges.boots)))
    return Cut(
        edges.names,
        edges.reasons,
        Places(edges.boots, boot, bucket_ns * width_ns),
        place,
        edges.actor[there],
        edges.peer[there],
        edges.reason[there],
        np.maximum(start_ns[whose], bucket * width_ns),
        np.minimum(end_ns[whose], (bucket + 1) * width_ns),
    )


def who_blocked_whom(cut: Cut) -> pa.Table:
    """Time per edge and place."""
    rows = _of_victims(cut)
    keys, (blocked_ns,) = sums(
        [column[rows] for column in (cut.place, cut.actor, cut.peer, cut.reason)],
        (cut.end_ns - cut.start_ns)[rows],
    )
    bucket_ns, *boot = _placed(cut.places, keys[0])
    return pa.table(
        [
            bucket_ns,
            text(cut.names, keys[1]),
            text(cut.names, keys[2]),
            text(cut.reasons, keys[3]),
            blocked_ns,
            *boot,
        ],
        schema=WHO_BLOCKED_WHOM,
    )


def _placed(places: Places, place: I64) -> list[pa.Array]:
    """bucket_ns, node and boot_id of places, as columns."""
    boot = places.boot[place]
    names = zip(*places.boots, strict=True) if places.boots else ((), ())
    return [pa.array(places.bucket_ns[place]), *(text(one, boot) for one in names)]


def held_time(cut: Cut) -> pa.Table:
    """Length of the union of each actor's intervals, per place."""
    rows = _of_victims(cut)
    victims, first, victim = np.unique(
        together(cut.place[rows], cut.actor[rows]), return_index=True, return_inverse=True
    )
    ends = np.concatenate([cut.start_ns[rows], cut.end_ns[rows]])
    moments, rank = np.unique(ends, return_inverse=True)
    victim, start, end = united(victim, rank[: len(rows)], rank[len(rows) :], len(moments))
    held_ns = np.zeros(len(victims), np.int64)
    np.add.at(held_ns, victim, moments[end] - moments[start])
    pick = rows[first]
    bucket_ns, *boot = _placed(cut.places, cut.place[pick])
    return pa.table([bucket_ns, text(cut.names, cut.actor[pick]), held_ns, *boot], schema=HELD_TIME)


def _of_victims(cut: Cut) -> I64:
    is_victim = np.array([not is_group(name) for name in cut.names], np.bool_)
    return np.flatnonzero(is_victim[cut.actor])


def root_cause(places: Places, blame: Blame, states: pa.Table) -> pa.Table:
    """Blame as a table, with small windows named by `states`, the table of time in state."""
    cause = _causes(places, blame, states)
    columns = [[getattr(key, name) for key in blame.keys] for name in ("victim", "root", "path")]
    victim, root, path = (text(names, blame.key) for names in columns)
    bucket_ns, *boot = _placed(places, blame.place)
    return pa.table(
        [bucket_ns, victim, root, cause, path, blame.blamed_ns, *boot], schema=ROOT_CAUSE
    )


def _causes(places: Places, blame: Blame, states: pa.Table) -> pa.Array:
    """Only a stage that seems slow can be one in front of which the window is small."""
    names = [key.cause for key in blame.keys]
    causes = np.array(names, dtype=object)[blame.key]
    is_slow = np.array([name == SLOW for name in names], np.bool_)
    rows = np.flatnonzero(is_slow[blame.key])
    columns = (blame.place, blame.key, blame.blamed_ns)
    bucket_ns, boot = places.bucket_ns.tolist(), places.boot.tolist()
    slow = [
        BlameRow(
            bucket_ns[place], key.victim, key.root, key.cause, key.path, blamed_ns,
            *places.boots[boot[place]],
        )
        for place, key, blamed_ns in (
            (place, blame.keys[at], blamed_ns)
            for place, at, blamed_ns in zip(*(one[rows].tolist() for one in columns), strict=True)
        )
    ]  # fmt: skip
    roots = pc.is_in(states["actor"], pa.array(sorted({row.root for row in slow}), pa.string()))
    known = [StateRow(**row) for row in states.filter(roots).to_pylist()]
    causes[rows] = [row.cause for row in name_small_windows(slow, known)]
    return pa.array(causes, pa.string())
