"""What a run without Spark can promise: the clients' own traces, message by message.

With Spark the promises are checked on the tables, of which these are a part.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.spark.report.promises import Promise, check
from penstock.spark.schema.formats import (
    TRACE_FILES,
    RunDescription,
    TraceLine,
    fields_of,
    input_files,
    trace_from_fields,
)
from penstock.spark.schema.rows import PERCENTILES, IntegrityRow, LatencyRow, Tables


@dataclass(slots=True)
class Sent:
    """One message. Times are monotonic ns, 0 for what has not happened."""

    queue: str = ""
    phase: str = ""
    published_ns: int = 0
    delivered_ns: int = 0
    deliveries: int = 0
    is_confirmed: bool = False
    is_refused: bool = False


def traced(directory: Path, run: RunDescription) -> tuple[Promise, ...]:
    """The promises about messages, from the trace files of `directory`. Raises: OSError."""
    messages: dict[str, Sent] = {}
    for line in _lines(directory):
        one = messages.setdefault(line.message_id, Sent())
        if line.stage == "published":
            one.queue, one.phase, one.published_ns = line.queue, line.phase, line.t_ns
        elif line.stage == "delivered":
            one.delivered_ns = min(one.delivered_ns or line.t_ns, line.t_ns)
            one.deliveries += 1
        one.is_confirmed |= line.stage == "confirmed"
        one.is_refused |= line.stage in ("nacked", "returned")
    sent = [one for one in messages.values() if one.published_ns]
    empty = Tables(*((),) * len(Tables._fields))
    tables = empty._replace(integrity=_integrity(sent), latency=_deliveries(sent))
    return tuple(one for one in check(tables, run, False, 1.0, 0) if one.state != "unknown")


def _lines(directory: Path) -> Iterator[TraceLine]:
    for path in input_files(directory, TRACE_FILES):
        with path.open(encoding="utf-8") as file:
            for text in file:
                fields = fields_of(text)
                if fields is not None:
                    yield trace_from_fields(fields)


def _integrity(sent: list[Sent]) -> tuple[IntegrityRow, ...]:
    sums: dict[str, list[int]] = {}
    for one in sent:
        facts = (
            1,
            one.is_confirmed,
            one.is_refused,
            not (one.is_confirmed or one.is_refused),
            one.deliveries > 0,
            one.is_confirmed and not one.deliveries,
            max(0, one.deliveries - 1),
        )
        known = sums.setdefault(one.queue, [0] * len(facts))
        sums[one.queue] = [count + fact for count, fact in zip(known, facts, strict=True)]
    return tuple(IntegrityRow._make((queue, *counts, "")) for queue, counts in sorted(sums.items()))


def _deliveries(sent: list[Sent]) -> tuple[LatencyRow, ...]:
    """Of each phase and queue, how long messages took until they were delivered."""
    found: dict[tuple[str, str], list[float]] = {}
    for one in sent:
        if one.deliveries:
            times = found.setdefault((one.phase, one.queue), [])
            times.append(float(one.delivered_ns - one.published_ns))
    return tuple(
        LatencyRow._make((*key, "delivery", len(times), *percentiles(times), ""))
        for key, times in sorted(found.items())
    )


def percentiles(times: list[float]) -> Iterator[float]:
    """The smallest of `times` with PERCENTILES of all at or below it."""
    times.sort()
    return (times[max(0, math.ceil(part * len(times)) - 1)] for part in PERCENTILES)
