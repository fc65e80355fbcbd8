"""What one run has shown, ready for tables, files and verdicts."""

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from penstock.lab.measure import (
    fair_shares,
    is_growing,
    jain,
    percentile,
    recovery_s,
)
from penstock.lab.tally import BIN_NS, LINES, Tally
from penstock.lab.workload import ALARM, Workload

SIMULATED: Final = "sim"
LIVE: Final = "live"
NS_PER_S: Final = 1_000_000_000
BIN_S: Final = BIN_NS / NS_PER_S


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds; 0 when nothing was measured."""

    p50_ms: float
    p99_ms: float
    p999_ms: float


@dataclass(frozen=True, slots=True)
class Memory:
    """bytes_max: most that the broker held; bins: of BIN_NS, the most in each; alarm_s: seconds the
    alarm was set; rss_bytes: growth of the resident memory of a running broker, 0 in the
    simulator."""

    bytes_max: int
    bins: list[int]
    alarm_s: float = 0.0
    rss_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """One workload under one profile. Rates are messages a second that reached their consumer.

    innocent_share, innocent_slowdown: the innocent traffic's rate and p99 relative to running
    alone, None where there is none; recovery_s: None when nothing was disturbed or it never came
    back; alarm_s: seconds the memory alarm was set;
    is_growing: what the broker held was still rising when the run ended."""

    workload: str
    profile: str
    where: str
    seed: int
    seconds: float
    throughput_per_s: float
    bytes_per_s: float
    innocent_per_s: float
    confirm: Latency
    delivery: Latency
    innocent: Latency
    memory_bytes_max: int
    rss_bytes: int
    fairness: float
    is_growing: bool
    innocent_share: float | None = None
    innocent_slowdown: float | None = None
    recovery_s: float | None = None
    is_disturbed: bool = False
    alarm_s: float = 0.0
    bin_s: float = BIN_S
    lines: dict[str, list[int]] = field(default_factory=dict)


def latency_of(values: "list[int]") -> Latency:
    """Percentiles of nanoseconds."""
    ordered = sorted(values)
    at = [round(percentile(ordered, share) / 1e6, 3) for share in (0.5, 0.99, 0.999)]
    return Latency(at[0], at[1], at[2])


def result_of(
    workload: Workload,
    profile: str,
    where: str,
    seed: int,
    tally: Tally,
    memory: Memory,
    alone: Result | None,
) -> Result:
    """Put a run's numbers together. alone: the same profile with nothing but the innocent
    traffic."""
    seconds = (tally.to_ns - tally.from_ns) / NS_PER_S
    innocent = latency_of(list(tally.innocent_ns))
    innocent_per_s = tally.innocent / seconds
    share = slowdown = None
    if alone is not None and alone.innocent_per_s > 0:
        share = innocent_per_s / alone.innocent_per_s
        slowdown = innocent.p99_ms / max(alone.innocent.p99_ms, 0.001)
    disturbance = workload.disturbance_s()
    recovery = None
    if disturbance is not None:
        # An alarm stops senders; what was stored meanwhile keeps consumers busy.
        is_alarm = any(event.what == ALARM for event in workload.events)
        names = ("sent",) if is_alarm else ("received", "innocent")
        some = [tally.lines[name] for name in names]
        bins = [sum(counts) for counts in zip_longest(*some, fillvalue=0)]
        recovery = recovery_s(bins, BIN_S, *disturbance)
    return Result(
        workload.name,
        profile,
        where,
        seed,
        seconds,
        tally.received / seconds,
        tally.received_bytes / seconds,
        innocent_per_s,
        latency_of(list(tally.confirm_ns)),
        latency_of(list(tally.delivery_ns)),
        innocent,
        memory.bytes_max,
        memory.rss_bytes,
        _fairness(workload, tally, seconds),
        is_growing(memory.bins, round(workload.warm_up_s / BIN_S)),
        share,
        slowdown,
        recovery,
        disturbance is not None,
        memory.alarm_s,
        lines={**{name: list(tally.lines[name]) for name in LINES}, "memory": memory.bins},
    )


def _fairness(workload: Workload, tally: Tally, seconds: float) -> float:
    """Jain's index over the publishers of traffic that is not innocent: what arrived of each,
    relative to its max-min fair part, so that asking for little is not unfair."""
    arrived = []
    demands = []
    number = 0
    for spec in workload.publishers:
        targets = [target for target in spec.targets if not target.is_innocent]
        for _ in range(spec.count):
            if targets:
                arrived.append(float(tally.arrived.get(number, 0)))
                demands.append(spec.rate_per_s * seconds * len(targets) / len(spec.targets))
            number += 1
    parts = fair_shares(demands, sum(arrived))
    return jain(one / part for one, part in zip(arrived, parts, strict=True) if part > 0)
