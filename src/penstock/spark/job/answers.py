"""Gold: holds and samples to answers, one stretch of time a task, with arrays.

A task reads what overlaps its stretch, cuts it at the borders of buckets, and sums up. Buckets do
not know of each other, so any stretches give the same tables. Column names are those of `rows.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.blame.blame import NOBODY, is_group
from penstock.spark.blame.blame_columns import Blame, sweep_columns
from penstock.spark.blame.blame_graph import Cut
from penstock.spark.blame.intervals import group_of
from penstock.spark.blame.small_windows import SLOW, name_small_windows
from penstock.spark.job.sketches import hold_sketch
from penstock.spark.schema.arrays import I64, Mask, spread, sums, together, united
from penstock.spark.schema.coded import Coded, Tables, coded, read, text
from penstock.spark.schema.formats import STATE_FIELDS
from penstock.spark.schema.rows import BlameRow, StateRow
from penstock.spark.schema.schemas import (
    ANSWERS,
    BLOCK_INTERVAL,
    HELD_TIME,
    ROOT_CAUSE,
    SAMPLE_STEP,
    TIME_IN_STATE,
    WHO_BLOCKED_WHOM,
)

EDGES_AT_A_TIME: Final = 1 << 20
"""Cut edges that are in memory at a time, if one bucket has no more than that: some 200 MB."""

NO_CONSUMER: Final = "no consumer"

_HOLDS: Final = pa.schema(
    [BLOCK_INTERVAL.field(name)
     for name in ("actor", "peer", "reason", "start_ns", "end_ns")]
)  # fmt: skip
_ENDED_HOLDS: Final = _HOLDS.append(BLOCK_INTERVAL.field("closed_by"))
_STEPS: Final = pa.schema([field for field in SAMPLE_STEP if field.name != "boot_id"])


@dataclass(frozen=True)
class Answers:
    """The work of one task. intervals, steps: files; [from_ns, to_ns): its stretch, of whole
    buckets of `width_ns`; members: the consumers behind the name of a group."""

    intervals: tuple[str, ...]
    steps: tuple[str, ...]
    from_ns: int
    to_ns: int
    width_ns: int
    members: Mapping[str, Sequence[str]]

    def __call__(self) -> Tables:
        """The answers for this stretch. Raises: OSError."""
        is_near = (pc.field("end_ns") > self.from_ns) & (pc.field("start_ns") < self.to_ns)
        is_some = pc.field("end_ns") > pc.field("start_ns")
        holds = read(self.intervals, _ENDED_HOLDS, is_near & is_some)
        steps = coded(read(self.steps, _STEPS, is_near))
        states = self._states(steps)
        edges = _edges(holds.select(_HOLDS.names), steps)
        parts = [self._part(cut, states) for cut in self._cuts(edges)]
        return {
            "gold/time_in_state": states,
            "gold/hold_sketch": hold_sketch(holds, self.from_ns, self.to_ns, self.width_ns),
            **{
                name: pa.concat_tables([ANSWERS[name].empty_table(), *(one[name] for one in parts)])
                for name in ("gold/who_blocked_whom", "gold/held_time", "gold/root_cause")
            },
        }

    def _part(self, cut: Cut, states: pa.Table) -> Tables:
        return {
            "gold/who_blocked_whom": who_blocked_whom(cut),
            "gold/held_time": held_time(cut),
            "gold/root_cause": root_cause(sweep_columns(cut, self.members), states),
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
            (middle_ns[rows] // self.width_ns, steps.codes["actor"][rows]),
            (end_ns - start_ns)[rows],
            *(steps.numbers[name][rows] for name in STATE_FIELDS),
        )
        return pa.table(
            [keys[0] * self.width_ns, text(steps.names, keys[1]), *totals],
            schema=TIME_IN_STATE,
        )

    def _cuts(self, edges: "_Edges") -> Iterator[Cut]:
        """The edges of so many buckets at a time that memory lasts, cut at their borders."""
        at_ns = self.from_ns
        while at_ns < self.to_ns:
            left = edges.end_ns > at_ns
            if not np.any(left):
                return
            edges = edges.of(left)
            # Where nobody is held there may be years.
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
    """Holds, and times without consumers, as they are."""

    names: Sequence[str]
    reasons: Sequence[str]
    actor: I64
    peer: I64
    reason: I64
    start_ns: I64
    end_ns: I64

    def of(self, wanted: Mask) -> "_Edges":
        return _Edges(self.names, self.reasons, *(column[wanted] for column in self[2:]))


def _edges(holds: pa.Table, steps: Coded) -> _Edges:
    found = coded(pa.concat_tables([holds, _unattended(steps)]).unify_dictionaries())
    used, reason = np.unique(found.codes["reason"], return_inverse=True)
    return _Edges(
        found.names,
        [found.names[code] for code in used.tolist()],
        found.codes["actor"],
        found.codes["peer"],
        reason,
        found.numbers["start_ns"],
        found.numbers["end_ns"],
    )


def _unattended(steps: Coded) -> pa.Table:
    """Times in which a queue had no consumer, as edges from its group to nobody."""
    start_ns, end_ns = steps.numbers["start_ns"], steps.numbers["end_ns"]
    rows = np.flatnonzero(
        (steps.codes["kind"] == steps.place("queue_sample"))
        & (steps.numbers["consumers"] == 0)
        & (end_ns > start_ns)
    )
    groups = text([group_of(name) for name in steps.names], steps.codes["actor"][rows])
    nobody, reason = (pa.array([one], pa.string()) for one in (NOBODY, NO_CONSUMER))
    always = pa.array(np.zeros(len(rows), np.int32))
    return pa.table(
        [
            groups.dictionary_encode(),
            pa.DictionaryArray.from_arrays(always, nobody),
            pa.DictionaryArray.from_arrays(always, reason),
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
    return Cut(
        edges.names,
        edges.reasons,
        bucket * width_ns,
        edges.actor[there],
        edges.peer[there],
        edges.reason[there],
        np.maximum(start_ns[whose], bucket * width_ns),
        np.minimum(end_ns[whose], (bucket + 1) * width_ns),
    )


def who_blocked_whom(cut: Cut) -> pa.Table:
    """Time per edge and bucket."""
    rows = _of_victims(cut)
    keys, (blocked_ns,) = sums(
        [column[rows] for column in cut[2:6]], (cut.end_ns - cut.start_ns)[rows]
    )
    return pa.table(
        [
            keys[0],
            text(cut.names, keys[1]),
            text(cut.names, keys[2]),
            text(cut.reasons, keys[3]),
            blocked_ns,
        ],
        schema=WHO_BLOCKED_WHOM,
    )


def held_time(cut: Cut) -> pa.Table:
    """Length of the union of each actor's intervals, per bucket."""
    rows = _of_victims(cut)
    victims, first, victim = np.unique(
        together(cut.bucket[rows], cut.actor[rows]), return_index=True, return_inverse=True
    )
    ends = np.concatenate([cut.start_ns[rows], cut.end_ns[rows]])
    moments, rank = np.unique(ends, return_inverse=True)
    victim, start, end = united(victim, rank[: len(rows)], rank[len(rows) :], len(moments))
    held_ns = np.zeros(len(victims), np.int64)
    np.add.at(held_ns, victim, moments[end] - moments[start])
    pick = rows[first]
    return pa.table(
        [cut.bucket[pick], text(cut.names, cut.actor[pick]), held_ns],
        schema=HELD_TIME,
    )


def _of_victims(cut: Cut) -> I64:
    is_victim = np.array([not is_group(name) for name in cut.names], np.bool_)
    return np.flatnonzero(is_victim[cut.actor])


def root_cause(blame: Blame, states: pa.Table) -> pa.Table:
    """Blame as a table, with small windows named by `states`, the table of time in state."""
    cause = _causes(blame, states)
    columns = [[getattr(key, name) for key in blame.keys] for name in ("victim", "root", "path")]
    victim, root, path = (text(names, blame.key) for names in columns)
    return pa.table(
        [blame.bucket, victim, root, cause, path, blame.blamed_ns],
        schema=ROOT_CAUSE,
    )


def _causes(blame: Blame, states: pa.Table) -> pa.Array:
    """Only a stage that seems slow can be one in front of which the window is small."""
    names = [key.cause for key in blame.keys]
    causes = np.array(names, dtype=object)[blame.key]
    is_slow = np.array([name == SLOW for name in names], np.bool_)
    rows = np.flatnonzero(is_slow[blame.key])
    columns = (blame.bucket, blame.key, blame.blamed_ns)
    slow = [
        BlameRow(bucket, key.victim, key.root, key.cause, key.path, blamed_ns)
        for bucket, key, blamed_ns in (
            (bucket, blame.keys[at], blamed_ns)
            for bucket, at, blamed_ns in zip(*(one[rows].tolist() for one in columns), strict=True)
        )
    ]
    roots = pc.is_in(states["actor"], pa.array(sorted({row.root for row in slow}), pa.string()))
    known = [StateRow(**row) for row in states.filter(roots).to_pylist()]
    causes[rows] = [row.cause for row in name_small_windows(slow, known)]
    return pa.array(causes, pa.string())
