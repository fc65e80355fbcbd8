"""The whole analysis in plain Python: the same tables as Spark makes, for one machine's memory.

The naive twin that the tables of Spark are tested against. Everything is read into memory: about
1 KB a message.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.spark.blame.blame import actor_kind, name_small_windows
from penstock.spark.schema.formats import STATE_FIELDS, TraceLine, read_run
from penstock.spark.schema.rows import (
    CDF_RANKS,
    HELD_BY,
    MEASURES,
    PERCENTILES,
    THROUGHPUT_BUCKET_NS,
    AlarmInterval,
    BlameRow,
    BlockInterval,
    CdfRow,
    DepthRow,
    HeldRow,
    IntegrityRow,
    KindRow,
    LatencyRow,
    StateRow,
    Tables,
    ThroughputRow,
)
from tests.spark.flow_events import FlowEvent
from tests.spark.oracle_blame import Edge, sweep
from tests.spark.oracle_input import EventLog, TraceLog, read_events, read_traces
from tests.spark.oracle_intervals import (
    block_intervals,
    clip,
    edge_rows,
    held_ns,
    members_of_groups,
    unattended_edges,
)


@dataclass(slots=True)
class MessageSpan:
    """Silver message_span: one message; times are the first of their stage, None if never."""

    queue: str = ""
    phase: str = ""
    published_ns: int | None = None
    confirmed_ns: int | None = None
    delivered_ns: int | None = None
    refused: bool = False
    deliveries: int = 0


@dataclass(slots=True)
class _Stages:
    counts: dict[str, int] = field(default_factory=dict)


def analyse(
    events: EventLog,
    traces: TraceLog,
    bucket_ns: int,
    origin_ns: int = 0,
) -> Tables:
    """All gold tables: once a boot and once a node of traces, one behind the other. bucket_ns:
    width of the buckets of blame, > 0; origin_ns: a moment at which a bucket of throughput starts,
    so that no bucket lies in two phases."""
    found: dict[str, list[Any]] = {name: [] for name in Tables._fields}
    intervals: dict[str, list[BlockInterval]] = {}
    for boot_id in sorted({event.boot_id for event in events.events}):
        mine = [event for event in events.events if event.boot_id == boot_id]
        node = mine[0].node
        held = intervals.setdefault(node, [])
        held += block_intervals(mine)
        for name, rows in _of_boot(mine, bucket_ns).items():
            keys = {"node": node, "boot_id": boot_id}
            found[name] += [
                row._replace(**{key: keys[key] for key in keys if key in row._fields})
                for row in rows
            ]
    for node in sorted({line.node for line in traces.lines} | intervals.keys()):
        lines = [line for line in traces.lines if line.node == node]
        spans = message_spans(lines).values()
        for name, rows in (
            ("latency", latency(spans)),
            ("throughput", throughput(lines, origin_ns)),
            ("integrity", integrity(spans)),
            ("stage_cdf", stage_cdf(spans, intervals.get(node, ()))),
        ):
            found[name] += [row._replace(node=node) for row in rows]
    return Tables(**{name: tuple(rows) for name, rows in found.items()})


def _of_boot(events: Sequence[FlowEvent], bucket_ns: int) -> dict[str, Sequence[Any]]:
    """What one life of one broker says, as if there were no other."""
    edges = [Edge(*interval[1:6]) for interval in block_intervals(events)]
    edges.extend(unattended_edges(events))
    buckets = clip(edges, bucket_ns)
    members = members_of_groups(events)
    states = time_in_state(events, bucket_ns)
    blame = [
        BlameRow(bucket, *key, blamed_ns)
        for bucket in sorted(buckets)
        for key, blamed_ns in sorted(sweep(buckets[bucket], members).items())
    ]
    held = [
        HeldRow(bucket, actor, length_ns)
        for bucket in sorted(buckets)
        for actor, length_ns in sorted(held_ns(buckets[bucket]).items())
    ]
    return {
        "who_blocked_whom": edge_rows(buckets),
        "root_cause": name_small_windows(blame, states),
        "held_time": held,
        "time_in_state": states,
        "queue_depth": queue_depth(events),
        "event_kinds": event_kinds(events, bucket_ns),
        "alarms": alarms(events),
    }


def of_directory(directory: Path, bucket_ns: int) -> Tables:
    """All gold tables of event files and traces, with throughput from where the run begins."""
    events, traces = read_events(directory), read_traces(directory)
    return analyse(events, traces, bucket_ns, read_run(directory).origin_ns)


def message_spans(lines: Iterable[TraceLine]) -> dict[str, MessageSpan]:
    """Fold trace lines to one span a message; the order of the lines does not matter."""
    spans: dict[str, MessageSpan] = {}
    for line in lines:
        span = spans.setdefault(line.message_id, MessageSpan())
        if line.stage == "published":
            span.queue, span.phase = line.queue, line.phase
            span.published_ns = _first(span.published_ns, line.t_ns)
        elif line.stage == "confirmed":
            span.confirmed_ns = _first(span.confirmed_ns, line.t_ns)
        elif line.stage == "delivered":
            span.delivered_ns = _first(span.delivered_ns, line.t_ns)
            span.deliveries += 1
        elif line.stage in ("nacked", "returned"):
            span.refused = True
    return spans


def latency(spans: Iterable[MessageSpan]) -> list[LatencyRow]:
    """Percentiles by phase, queue and measure."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for span in spans:
        if span.published_ns is None:
            continue
        for measure, end_ns in zip(MEASURES, (span.confirmed_ns, span.delivered_ns), strict=True):
            if end_ns is not None:
                key = (span.phase, span.queue, measure)
                found.setdefault(key, []).append(end_ns - span.published_ns)
    rows: list[LatencyRow] = []
    for key, values in sorted(found.items()):
        values.sort()
        p50, p90, p99, p999, highest = (percentile(values, part) for part in PERCENTILES)
        rows.append(LatencyRow(*key, len(values), p50, p90, p99, p999, highest))
    return rows


def percentile(ordered: Sequence[int], part: float) -> float:
    """The smallest value with at least `part` (0..1) of all at or below it, as the sketches have
    it. ordered: ascending, not empty."""
    rank = math.ceil(part * len(ordered))
    return float(ordered[max(0, rank - 1)])


def stage_cdf(spans: Iterable[MessageSpan], intervals: Iterable[BlockInterval]) -> list[CdfRow]:
    """The distribution of the times of each stage: of messages, and of holds that have ended."""
    found: dict[str, list[int]] = {}
    for span in spans:
        if span.published_ns is not None:
            ends = (span.confirmed_ns, span.delivered_ns)
            for measure, end_ns in zip(MEASURES, ends, strict=True):
                if end_ns is not None:
                    found.setdefault(measure, []).append(end_ns - span.published_ns)
    for one in intervals:
        if one.closed_by != "end_of_data":
            stage = actor_kind(one.actor) + HELD_BY + actor_kind(one.peer)
            found.setdefault(stage, []).append(one.end_ns - one.start_ns)
    return [
        CdfRow(stage, len(values), rank, percentile(ordered, rank))
        for stage, values in sorted(found.items())
        for ordered in (sorted(values),)
        for rank in CDF_RANKS
    ]


def alarms(events: Iterable[FlowEvent]) -> list[AlarmInterval]:
    """When each alarm was set."""
    found: list[AlarmInterval] = []
    open_: dict[tuple[str, str], int] = {}
    last: dict[str, int] = {}
    for event in events:
        last[event.boot_id] = max(last.get(event.boot_id, 0), event.t_ns)
        key = (event.boot_id, event.actor)
        if event.kind in ("alarm_set", "alarm_cleared"):
            start_ns = open_.pop(key, None)
            if start_ns is not None:
                found.append(AlarmInterval(*key, start_ns, event.t_ns, False))
            if event.kind == "alarm_set":
                open_[key] = event.t_ns
    found += [AlarmInterval(*key, start, last[key[0]], True) for key, start in open_.items()]
    return sorted(found)


def throughput(lines: Iterable[TraceLine], origin_ns: int = 0) -> list[ThroughputRow]:
    """Messages by stage, queue and 250 ms bucket."""
    found: dict[tuple[int, str], _Stages] = {}
    for line in lines:
        bucket = line.t_ns - (line.t_ns - origin_ns) % THROUGHPUT_BUCKET_NS
        counts = found.setdefault((bucket, line.queue), _Stages()).counts
        counts[line.stage] = counts.get(line.stage, 0) + 1
    return [
        ThroughputRow._make(
            (
                *key,
                *(
                    stages.counts.get(stage, 0)
                    for stage in ("published", "confirmed", "delivered", "acked")
                ),
                "",
            )
        )
        for key, stages in sorted(found.items())
    ]


def integrity(spans: Iterable[MessageSpan]) -> list[IntegrityRow]:
    """What became of the messages of each queue."""
    found: dict[str, list[int]] = {}
    for span in spans:
        if span.published_ns is None:
            continue
        sums = found.setdefault(span.queue, [0] * 7)
        confirmed = span.confirmed_ns is not None
        facts = (
            True,
            confirmed,
            span.refused,
            not confirmed and not span.refused,
            span.deliveries > 0,
            confirmed and span.deliveries == 0,
            max(0, span.deliveries - 1),
        )
        for index, fact in enumerate(facts):
            sums[index] += int(fact)
    return [IntegrityRow._make((queue, *sums, "")) for queue, sums in sorted(found.items())]


def time_in_state(events: Iterable[FlowEvent], bucket_ns: int) -> list[StateRow]:
    """Where each actor's time went: the sum of the differences between its samples. One of the name
    of another that is gone begins anew."""
    before: dict[tuple[str, str], FlowEvent] = {}
    sums: dict[tuple[int, str], list[int]] = {}
    for event in events:
        if event.kind in ("actor_up", "actor_down"):
            before.pop((event.boot_id, event.actor), None)
        if event.kind != "time_sample":
            continue
        last = before.get((event.boot_id, event.actor))
        before[event.boot_id, event.actor] = event
        if last is None:
            continue
        middle_ns = (last.t_ns + event.t_ns) // 2
        total = sums.setdefault((middle_ns - middle_ns % bucket_ns, event.actor), [0] * 5)
        total[0] += event.t_ns - last.t_ns
        for index, name in enumerate(STATE_FIELDS, 1):
            total[index] += event.numbers.get(name, 0) - last.numbers.get(name, 0)
    return [StateRow._make((*key, *total, "", "")) for key, total in sorted(sums.items())]


def queue_depth(events: Iterable[FlowEvent]) -> list[DepthRow]:
    """All queue samples in order of time; a queue that comes into being has counted nothing yet."""
    return sorted(
        DepthRow(
            event.t_ns,
            event.actor.removeprefix("queue:"),
            event.numbers.get("ready", 0),
            event.numbers.get("unacked", 0),
            event.numbers.get("consumers", 0),
            event.numbers.get("paged", 0),
            event.numbers.get("published", 0),
            event.numbers.get("acked", 0),
        )
        for event in events
        if event.kind == "queue_sample"
        or (event.kind == "actor_up" and event.actor.startswith("queue:"))
    )


def event_kinds(events: Iterable[FlowEvent], bucket_ns: int) -> list[KindRow]:
    """How often each kind of event happened."""
    sums: dict[tuple[int, str], tuple[int, int]] = {}
    for event in events:
        key = (event.t_ns - event.t_ns % bucket_ns, event.kind)
        count, amount = sums.get(key, (0, 0))
        sums[key] = (count + 1, amount + event.amount)
    return [KindRow(*key, count, amount) for key, (count, amount) in sorted(sums.items())]


def _first(known: int | None, t_ns: int) -> int:
    return t_ns if known is None else min(known, t_ns)
