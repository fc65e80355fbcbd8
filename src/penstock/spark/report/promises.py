"""The promises a run must keep, checked on the tables, whichever engine made them.

Each promise is kept, broken, or unknown (the data to check it is missing). A run whose clients all
behaved and whose broker never failed must show: nothing confirmed is lost, nothing arrives twice,
every held second has a cause, the books balance, time adds up, and a bystander stays fast.
"""

from collections.abc import Iterable
from typing import Final

from penstock.spark.blame.blame import actor_kind
from penstock.spark.schema.formats import EVENT_STREAM, Check, RunDescription
from penstock.spark.schema.rows import DepthRow, LatencyRow, Tables, whole_time

EXPLAINED_SHARE_MIN: Final = 0.95
STATE_SUM_TOLERANCE: Final = 0.01
COUNTS: Final = ("confirmed", "delivered")
"""Of what clients count, what the broker must have counted too."""
# An alarm does nothing, so it has no time to account for.
TIMELESS: Final = frozenset({"alarm"})
# The bystander shares two cores with everything else, so its latency may move by scheduling alone.
BYSTANDER_FACTOR_MAX: Final = 3.0
BYSTANDER_FLOOR_NS: Final = 100_000_000.0


MARKS: Final = {"kept": "✔", "broken": "✘", "unknown": "–"}
"""What stands in front of a promise, by its state."""


Promise = Check


def check(
    tables: Tables,
    run: RunDescription,
    has_events: bool,
    explained_share: float,
    held_ns: int,
) -> tuple[Promise, ...]:
    """Check all promises, in the order in which a reader cares. That of the bystander is only
    for runs that name one, that of counts for those whose clients have counted; what a run has
    checked itself is behind them."""
    promises = (
        _traced(tables, "no confirmed message lost", "confirmed", "lost", "lost"),
        _traced(tables, "no message delivered twice", "delivered", "duplicated", "duplicates"),
        _explained(has_events, explained_share, held_ns),
        _books_balance(tables, has_events),
        _time_adds_up(tables),
    )
    counts = (_counted_alike(tables, run),) if run.clients else ()
    bystander = (_bystander(tables, run),) if run.unrelated_queue else ()
    return (*promises, *counts, *bystander, *run.checks)


def _state(is_kept: bool) -> str:
    return "kept" if is_kept else "broken"


def _traced(tables: Tables, name: str, whole: str, wrong: str, word: str) -> Promise:
    """That the column `wrong` of integrity is 0, beside `whole`. word: for what is wrong."""
    if not tables.integrity:
        return Promise(name, "unknown", "no message traces")
    count, bad = (sum(getattr(row, one) for row in tables.integrity) for one in (whole, wrong))
    return Promise(name, _state(bad == 0), f"{count:,} {whole}, {bad:,} {word}")


def _explained(has_events: bool, explained_share: float, held_ns: int) -> Promise:
    name = "every held second has a cause"
    if not has_events:
        return Promise(name, "unknown", "no flow events")
    if held_ns == 0:
        return Promise(name, "unknown", "nothing was held")
    return Promise(
        name,
        _state(explained_share >= EXPLAINED_SHARE_MIN),
        f"{explained_share:.1%} of {held_ns / 1e9:.1f} s explained",
    )


def _books_balance(tables: Tables, has_events: bool) -> Promise:
    """In every bucket the blame of a victim of a boot is exactly the time it was held, to the
    nanosecond."""
    name = "blame adds up to held time"
    if not has_events:
        return Promise(name, "unknown", "no flow events")
    left: dict[tuple[str, int, str], int] = {
        (row.boot_id, row.bucket_ns, row.actor): row.held_ns for row in tables.held_time
    }
    for row in tables.root_cause:
        key = (row.boot_id, row.bucket_ns, row.victim)
        left[key] = left.get(key, 0) - row.blamed_ns
    if not left:
        return Promise(name, "unknown", "nothing was held")
    wrong = sum(rest_ns != 0 for rest_ns in left.values())
    return Promise(name, _state(wrong == 0), f"{len(left):,} sums checked, {wrong} wrong")


def _time_adds_up(tables: Tables) -> Promise:
    name = "idle + busy + blocked + waiting = 100 %"
    rows = [
        row
        for row in whole_time(tables.time_in_state)
        if row.wall_ns > 0 and actor_kind(row.actor) not in TIMELESS
    ]
    if not rows:
        return Promise(name, "unknown", "no time samples")
    off = [
        abs(sum((row.idle_ns, row.busy_ns, row.blocked_ns, row.waiting_ns)) / row.wall_ns - 1.0)
        for row in rows
    ]
    return Promise(
        name,
        _state(max(off) <= STATE_SUM_TOLERANCE),
        f"{len(rows)} actors, at most {max(off):.2%} off",
    )


def _counted_alike(tables: Tables, run: RunDescription) -> Promise:
    """Clients by themselves, their traces and the broker's queues: three who count one thing."""
    name = "clients and broker count the same"
    traced = {(row.node, f"/{row.queue}") for row in tables.integrity}
    came, went = moved([row for row in tables.queue_depth if (row.node, row.queue) in traced])
    if not came:
        return Promise(name, "unknown", "no samples of queues")
    sent, taken = (sum(one.get(what, 0) for one in run.clients.values()) for what in COUNTS)
    rows = tables.integrity
    confirmed = sum(row.confirmed for row in rows)
    received = sum(row.delivered + row.duplicated for row in rows)
    return Promise(
        name,
        _state(sent == confirmed == came and taken == received == went),
        f"{sent:,} confirmed to clients, {came:,} into queues; {went:,} out of queues, "
        f"{taken:,} received by clients",
    )


def moved(rows: Iterable[DepthRow]) -> tuple[int, int]:
    """Messages that came into queues, and that were done with, by samples of them.

    What the broker says of itself is left out. A counter that falls has begun anew with it. A queue
    whose beginning is not in its events is counted from its first sample on.
    """
    published = acked = 0
    before: dict[tuple[str, str, str], DepthRow] = {}
    for row in sorted(rows):
        # Brokers of one node may have queues of one name at the same time.
        key = (row.node, row.boot_id, row.queue)
        last = before.get(key)
        before[key] = row
        if last is not None and not row.queue.endswith(f"/{EVENT_STREAM}"):
            published += row.published - (last.published if row.published >= last.published else 0)
            acked += row.acked - (last.acked if row.acked >= last.acked else 0)
    return published, acked


def _bystander(tables: Tables, run: RunDescription) -> Promise:
    name = f"unrelated queue {run.unrelated_queue} unaffected"
    calm = _latency(tables, run, run.calm_phase)
    slow = _latency(tables, run, run.slow_phase)
    if calm is None or slow is None:
        return Promise(name, "unknown", "no messages on an unrelated queue in both phases")
    limit_ns = max(BYSTANDER_FACTOR_MAX * calm.p99_ns, BYSTANDER_FLOOR_NS)
    return Promise(
        name,
        _state(slow.p99_ns <= limit_ns),
        f"p99 {calm.p99_ns / 1e6:.1f} ms in {run.calm_phase}, "
        f"{slow.p99_ns / 1e6:.1f} ms in {run.slow_phase}, limit {limit_ns / 1e6:.0f} ms",
    )


def _latency(tables: Tables, run: RunDescription, phase: str) -> LatencyRow | None:
    for row in tables.latency:
        if (row.phase, row.queue, row.measure) == (phase, run.unrelated_queue, "delivery"):
            return row
    return None
