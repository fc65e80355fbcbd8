"""Flow events to intervals, in plain Python: who was held when, and which queue had no consumer.

This is the naive twin of `holds.py`: the same rules, one event at a time. An interval starts at
`gate_closed` and ends at the first of `gate_opened` of the same (actor, peer, reason), `actor_down`
of the actor or the peer, or the end of the data. A `gate_opened` whose `gate_closed` was lost still
tells the interval, because its amount is the time the gate was closed.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby

from penstock.spark.blame.blame import NOBODY, group_of, is_group
from penstock.spark.schema.rows import BlockedByRow, BlockInterval
from tests.spark.flow_events import FlowEvent
from tests.spark.oracle_blame import Edge


def block_intervals(events: Iterable[FlowEvent]) -> list[BlockInterval]:
    """Every interval in which a gate was closed. events: ordered by (boot_id, seq)."""
    found: list[BlockInterval] = []
    for boot_id, group in groupby(events, key=lambda event: event.boot_id):
        tracker = GateTracker(boot_id)
        node, last_ns = "", 0
        mine: list[BlockInterval] = []
        for event in group:
            mine.extend(tracker.feed(event))
            node, last_ns = event.node, max(last_ns, event.t_ns)
        mine.extend(tracker.cut(last_ns))
        found += [interval._replace(node=node) for interval in mine]
    return [interval for interval in found if interval.end_ns > interval.start_ns]


class GateTracker:
    """The gates that are closed now, of one boot; fed with events in order."""

    def __init__(self, boot_id: str) -> None:
        self._boot_id = boot_id
        self._closed_at: dict[tuple[str, str, str], int] = {}
        self._ended_at: dict[tuple[str, str, str], int] = {}

    def feed(self, event: FlowEvent) -> list[BlockInterval]:
        """Take one event; returns the intervals that it ends."""
        triple = (event.actor, event.peer, event.reason)
        if event.kind == "gate_closed":
            self._closed_at.setdefault(triple, event.t_ns)
            return []
        if event.kind == "gate_opened":
            return [self._end(triple, event, self._opened_since(triple, event))]
        if event.kind == "actor_down":
            gone = [key for key in self._closed_at if event.actor in key[:2]]
            return [self._end(key, event, self._closed_at[key]) for key in gone]
        return []

    def cut(self, now_ns: int) -> list[BlockInterval]:
        """The intervals still open, as if they ended at `now_ns`; the gates stay closed."""
        return [
            BlockInterval(self._boot_id, *triple, start_ns, now_ns, "end_of_data")
            for triple, start_ns in self._closed_at.items()
        ]

    def _opened_since(self, triple: tuple[str, str, str], event: FlowEvent) -> int:
        start_ns = self._closed_at.get(triple)
        if start_ns is not None:
            return start_ns
        return max(event.t_ns - max(event.amount, 0), self._ended_at.get(triple, 0))

    def _end(
        self,
        triple: tuple[str, str, str],
        event: FlowEvent,
        start_ns: int,
    ) -> BlockInterval:
        self._closed_at.pop(triple, None)
        self._ended_at[triple] = event.t_ns
        return BlockInterval(self._boot_id, *triple, start_ns, event.t_ns, event.kind)


def members_of_groups(events: Iterable[FlowEvent]) -> dict[str, tuple[str, ...]]:
    """`consumers:/orders` -> its consumers, from every event that names a consumer and a queue."""
    found: dict[str, set[str]] = {}
    for event in events:
        for consumer, other in ((event.actor, event.peer), (event.peer, event.actor)):
            group = group_of(other)
            if consumer.startswith("consumer:") and group:
                found.setdefault(group, set()).add(consumer)
    return {group: tuple(sorted(consumers)) for group, consumers in sorted(found.items())}


def unattended_edges(events: Iterable[FlowEvent]) -> list[Edge]:
    """Times in which a queue had no consumer, as edges from its group to NOBODY.

    A queue counts as unattended from a sample with 0 consumers until its next sample; when it was
    made anew between the two is not known.
    """
    edges: list[Edge] = []
    before: dict[tuple[str, str], FlowEvent] = {}
    for event in events:
        key = (event.boot_id, event.actor)
        if event.kind in ("actor_up", "actor_down"):
            before.pop(key, None)
        if event.kind != "queue_sample":
            continue
        last = before.get(key)
        if last is not None and last.numbers.get("consumers") == 0:
            edges.append(Edge(group_of(event.actor), NOBODY, "no consumer", last.t_ns, event.t_ns))
        before[key] = event
    return edges


def clip(edges: Iterable[Edge], bucket_ns: int) -> dict[int, list[Edge]]:
    """Cut edges at the borders of buckets; the key is the start of the bucket."""
    buckets: dict[int, list[Edge]] = {}
    for edge in edges:
        start_ns = edge.start_ns
        while start_ns < edge.end_ns:
            bucket = start_ns - start_ns % bucket_ns
            end_ns = min(edge.end_ns, bucket + bucket_ns)
            buckets.setdefault(bucket, []).append(
                Edge(edge.actor, edge.peer, edge.reason, start_ns, end_ns)
            )
            start_ns = end_ns
    return buckets


def edge_rows(buckets: Mapping[int, Iterable[Edge]]) -> list[BlockedByRow]:
    """The table who_blocked_whom from clipped edges; groups are no victims and are left out."""
    totals: dict[tuple[int, str, str, str], int] = {}
    for bucket_ns, edges in buckets.items():
        for edge in edges:
            if not is_group(edge.actor):
                key = (bucket_ns, edge.actor, edge.peer, edge.reason)
                totals[key] = totals.get(key, 0) + edge.end_ns - edge.start_ns
    return [BlockedByRow(*key, blocked_ns) for key, blocked_ns in sorted(totals.items())]


def held_ns(edges: Iterable[Edge]) -> dict[str, int]:
    """How long each actor had at least one closed gate: the other side of the books."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for edge in edges:
        if edge.end_ns > edge.start_ns and not is_group(edge.actor):
            spans.setdefault(edge.actor, []).append((edge.start_ns, edge.end_ns))
    return {actor: _union_ns(found) for actor, found in spans.items()}


def _union_ns(spans: list[tuple[int, int]]) -> int:
    total_ns = 0
    reached_ns = 0
    for start_ns, end_ns in sorted(spans):
        total_ns += max(0, end_ns - max(start_ns, reached_ns))
        reached_ns = max(reached_ns, end_ns)
    return total_ns
