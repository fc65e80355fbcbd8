"""Messages a second, by samples of queues: so they exist for every broker, without traces."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from penstock.spark.report.scales import SECOND_NS
from penstock.spark.schema.formats import EVENT_STREAM
from penstock.spark.schema.rows import DepthRow, Tables

PANELS_MAX: Final = 3
SPAN_MIN_NS: Final = 5_000_000_000
SPANS_MAX: Final = 40


class MessageRates(NamedTuple):
    """Messages a second from start_ns to end_ns: what came in, and what was done with."""

    start_ns: int
    end_ns: int
    published: float
    acked: float


Queue = tuple[str, str]
"""(node, name)"""


def by_queue(tables: Tables) -> dict[Queue, list[DepthRow]]:
    """Samples of each queue in order; what the broker says of itself is left out."""
    found: dict[Queue, list[DepthRow]] = {}
    for row in sorted(tables.queue_depth):
        if not row.queue.endswith(f"/{EVENT_STREAM}"):
            found.setdefault((row.node, row.queue), []).append(row)
    return found


def paces(rows: Iterable[DepthRow], least_ns: int = SPAN_MIN_NS) -> list[MessageRates]:
    """Of the samples of one queue in order of time, boot after boot: SPANS_MAX spans of `least_ns`
    at least; or as many as there are of another `least_ns`. Where a counter falls another life has
    begun.

    A consumer that works in batches acknowledges all of one at once, so shorter ones say nothing.
    """
    boots: dict[str, list[DepthRow]] = {}
    for row in rows:
        boots.setdefault(row.boot_id, []).append(row)
    return [one for samples in boots.values() for one in _paces(samples, least_ns)]


def _paces(rows: Sequence[DepthRow], least_ns: int) -> Iterator[MessageRates]:
    wide_ns = (rows[-1].t_ns - rows[0].t_ns) // SPANS_MAX if least_ns == SPAN_MIN_NS else 0
    span_ns = max(least_ns, wide_ns)
    before = rows[0]
    for number, row in enumerate(rows[1:], 1):
        is_reset = row.published < before.published or row.acked < before.acked
        wall_ns = row.t_ns - before.t_ns
        is_last = number == len(rows) - 1
        if is_reset or wall_ns <= 0:
            before = row
        elif wall_ns >= span_ns or (is_last and wall_ns >= span_ns // 2):
            seconds = wall_ns / SECOND_NS
            published, acked = row.published - before.published, row.acked - before.acked
            yield MessageRates(before.t_ns, row.t_ns, published / seconds, acked / seconds)
            before = row


def shown_queues(tables: Tables) -> list[Queue]:
    """Those that were stopped longest, then those that most came into."""
    held: dict[Queue, int] = {}
    for one in tables.held_time:
        name = (one.node, one.actor.removeprefix("queue:"))
        held[name] = held.get(name, 0) + one.held_ns
    most = {name: max(row.published for row in rows) for name, rows in by_queue(tables).items()}
    busy = [name for name in most if most[name]]
    return sorted(busy, key=lambda name: (-held.get(name, 0), -most[name], name))[:PANELS_MAX]


def unbroken(series: Iterable[MessageRates]) -> list[list[MessageRates]]:
    parts: list[list[MessageRates]] = []
    for one in series:
        if parts and parts[-1][-1].end_ns == one.start_ns:
            parts[-1].append(one)
        else:
            parts.append([one])
    return parts
