"""The whole analysis in plain Python: the same tables as Spark makes, for one machine's memory.

It runs when Spark or Java cannot be had, and it is the naive twin that the Spark tables are tested
against. Everything is read into memory: about 1 KB a message.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.spark.blame import Edge, held_ns, sweep
from penstock.spark.formats import STATE_FIELDS, EventLog, FlowEvent, TraceLine, TraceLog
from penstock.spark.intervals import (
    block_intervals,
    clip,
    edge_rows,
    members_of_groups,
    unattended_edges,
)
from penstock.spark.rows import (
    MEASURES,
    PERCENTILES,
    THROUGHPUT_BUCKET_NS,
    BlameRow,
    DepthRow,
    HeldRow,
    IntegrityRow,
    KindRow,
    LatencyRow,
    StateRow,
    Tables,
    ThroughputRow,
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
    """All gold tables. bucket_ns: width of the buckets of blame, > 0; origin_ns: a moment at which
    a bucket of throughput starts, so that no bucket lies in two phases."""
    edges = [Edge(*interval[1:6]) for interval in block_intervals(events.events)]
    edges.extend(unattended_edges(events.events))
    buckets = clip(edges, bucket_ns)
    members = members_of_groups(events.events)
    spans = message_spans(traces.lines)
    return Tables(
        tuple(edge_rows(buckets)),
        tuple(
            BlameRow(bucket, *key, blamed_ns)
            for bucket in sorted(buckets)
            for key, blamed_ns in sorted(sweep(buckets[bucket], members).items())
        ),
        tuple(
            HeldRow(bucket, actor, length_ns)
            for bucket in sorted(buckets)
            for actor, length_ns in sorted(held_ns(buckets[bucket]).items())
        ),
        tuple(time_in_state(events.events)),
        tuple(latency(spans.values())),
        tuple(throughput(traces.lines, origin_ns)),
        tuple(integrity(spans.values())),
        tuple(queue_depth(events.events)),
        tuple(event_kinds(events.events)),
    )


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
    """The exact percentile with linear interpolation. ordered: ascending, not empty; part: 0..1."""
    position = part * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def throughput(lines: Iterable[TraceLine], origin_ns: int = 0) -> list[ThroughputRow]:
    """Messages by stage, queue and 250 ms bucket."""
    found: dict[tuple[int, str], _Stages] = {}
    for line in lines:
        bucket = line.t_ns - (line.t_ns - origin_ns) % THROUGHPUT_BUCKET_NS
        counts = found.setdefault((bucket, line.queue), _Stages()).counts
        counts[line.stage] = counts.get(line.stage, 0) + 1
    return [
        ThroughputRow(
            *key,
            *(
                stages.counts.get(stage, 0)
                for stage in ("published", "confirmed", "delivered", "acked")
            ),
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
    return [IntegrityRow(queue, *sums) for queue, sums in sorted(found.items())]


def time_in_state(events: Iterable[FlowEvent]) -> list[StateRow]:
    """Where each actor's time went: the sum of the differences between its samples."""
    before: dict[tuple[str, str], FlowEvent] = {}
    sums: dict[str, list[int]] = {}
    for event in events:
        if event.kind != "time_sample":
            continue
        last = before.get((event.boot_id, event.actor))
        before[event.boot_id, event.actor] = event
        if last is None:
            continue
        total = sums.setdefault(event.actor, [0] * 5)
        total[0] += event.t_ns - last.t_ns
        for index, name in enumerate(STATE_FIELDS, 1):
            total[index] += event.numbers.get(name, 0) - last.numbers.get(name, 0)
    return [StateRow(actor, *total) for actor, total in sorted(sums.items())]


def queue_depth(events: Iterable[FlowEvent]) -> list[DepthRow]:
    """All queue samples in order of time."""
    return sorted(
        DepthRow(
            event.t_ns,
            event.actor.removeprefix("queue:"),
            event.numbers.get("ready", 0),
            event.numbers.get("unacked", 0),
            event.numbers.get("consumers", 0),
        )
        for event in events
        if event.kind == "queue_sample"
    )


def event_kinds(events: Iterable[FlowEvent]) -> list[KindRow]:
    """How often each kind of event happened."""
    sums: dict[str, tuple[int, int]] = {}
    for event in events:
        count, amount = sums.get(event.kind, (0, 0))
        sums[event.kind] = (count + 1, amount + event.amount)
    return [KindRow(kind, count, amount) for kind, (count, amount) in sorted(sums.items())]


def _first(known: int | None, t_ns: int) -> int:
    return t_ns if known is None else min(known, t_ns)
