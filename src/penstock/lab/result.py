"""What one run has shown: counts of its peers, and the figures made of them."""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from statistics import StatisticsError, correlation
from typing import Final

from penstock.lab.workload import ALARM, Workload

SMOOTH: Final = 5
RECOVERED: Final = 0.9
GROWTH: Final = 0.1
LINES: Final = ("sent", "received", "innocent")
BIN_NS: Final = 20_000_000
"""Width of a bin of the rate lines."""
SIMULATED: Final = "sim"
LIVE: Final = "live"
NS_PER_S: Final = 1_000_000_000
BIN_S: Final = BIN_NS / NS_PER_S


def percentile(ordered: Sequence[int], share: float) -> int:
    """The smallest of `ordered` (rising) with at least `share` (0..1) of all at or below it; 0 when
    there are none."""
    if not ordered:
        return 0
    rank = -int(-share * len(ordered) // 1)
    return ordered[min(len(ordered), max(1, rank)) - 1]


def jain(shares: Iterable[float]) -> float:
    """Jain's index of fairness: 1 when all are equal, 1/n when one of n has everything. 1.0 when
    there is nothing to share. Source: Jain, Chiu and Hawe, DEC-TR-301, 1984."""
    values = list(shares)
    squares = sum(value * value for value in values)
    if squares == 0:
        return 1.0
    return sum(values) ** 2 / (len(values) * squares)


def recovery_s(bins: Sequence[int], bin_s: float, begin_s: float, end_s: float) -> float | None:
    """Seconds from `end_s`, the end of a disturbance that began at `begin_s`, until the rate is
    back at 90 % of what it was before, in the mean of `SMOOTH` bins; None when it never is, or
    when there was no rate before. Resolution: one bin."""
    first, last = int(begin_s / bin_s), int(end_s / bin_s)
    before = bins[first // 2 : first]
    usual = sum(before) / len(before) if before else 0.0
    if usual == 0:
        return None
    for at in range(last, len(bins) - SMOOTH + 1):
        if sum(bins[at : at + SMOOTH]) / SMOOTH >= RECOVERED * usual:
            return max(0.0, at * bin_s - end_s)
    return None


def is_growing(bins: Sequence[int], first: int) -> bool:
    """Whether memory was still rising at the end: its highest from bin `first` on is in the last
    fifth, and above everything before by more than GROWTH."""
    measured = bins[first:]
    part = len(measured) // 5
    if part == 0:
        return False
    return max(measured[-part:]) > (1 + GROWTH) * max(measured[:-part])


def fair_shares(demands: Sequence[float], total: float) -> list[float]:
    """Max-min fair parts of `total`: no one gets more than asked for, and what they leave is shared
    equally by the others."""
    shares = [0.0] * len(demands)
    left = total
    order = sorted(range(len(demands)), key=lambda index: demands[index])
    for done, index in enumerate(order):
        shares[index] = min(demands[index], left / (len(order) - done))
        left -= shares[index]
    return shares


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each, 1 for the smallest; equal ones share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    found = [0.0] * len(values)
    at = 0
    while at < len(order):
        stop = at
        while stop + 1 < len(order) and values[order[stop + 1]] == values[order[at]]:
            stop += 1
        for index in order[at : stop + 1]:
            found[index] = (at + stop) / 2 + 1
        at = stop + 1
    return found


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: 1 for the same order, -1 for the reverse; 0.0 when one of them has no order."""
    try:
        return correlation(ranks(first), ranks(second))
    except StatisticsError:
        return 0.0


@dataclass(slots=True)
class PeerTally:
    """Times are nanoseconds of the run's clock. from_ns, to_ns: the measured stretch; lines: per
    name of LINES messages in bins of BIN_NS, the first of which begins at start_ns; confirm_ns:
    from publish to confirm, of all publishes whose wait has touched the measured stretch;
    delivery_ns: of what arrived in it; innocent_ns: the same of innocent traffic alone, whose
    confirms are not counted; arrived: by publisher, messages that reached a consumer."""

    start_ns: int = 0
    from_ns: int = 0
    to_ns: int = 1 << 62
    received: int = 0
    received_bytes: int = 0
    innocent: int = 0
    lines: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in LINES})
    confirm_ns: "array[int]" = field(default_factory=lambda: array("q"))
    delivery_ns: "array[int]" = field(default_factory=lambda: array("q"))
    innocent_ns: "array[int]" = field(default_factory=lambda: array("q"))
    arrived: dict[int, int] = field(default_factory=dict)

    def begin(self, start_ns: int, from_ns: int, to_ns: int) -> None:
        """The run begins: what is measured lies between `from_ns` and `to_ns`."""
        self.start_ns, self.from_ns, self.to_ns = start_ns, from_ns, to_ns

    def count(self, line: str, now_ns: int, messages: int) -> None:
        """`messages` more in a rate line."""
        at = (now_ns - self.start_ns) // BIN_NS
        if at < 0:
            return
        bins = self.lines[line]
        if at >= len(bins):
            bins.extend([0] * (at + 1 - len(bins)))
        bins[at] += messages

    def is_measured(self, now_ns: int) -> bool:
        return self.from_ns <= now_ns < self.to_ns

    def note_confirmed(self, meant_ns: int, now_ns: int) -> None:
        """A publish meant for `meant_ns` was confirmed, or will not be before the end."""
        # By its whole wait: of publishes held for longer than the stretch, few begin in it.
        if meant_ns < self.to_ns and now_ns >= self.from_ns:
            self.confirm_ns.append(max(0, now_ns - meant_ns))

    def note_received(
        self, meant_ns: int, now_ns: int, size_bytes: int, publisher: int, is_innocent: bool
    ) -> None:
        """A message reached the consumer it was for."""
        self.count("innocent" if is_innocent else "received", now_ns, 1)
        if not self.is_measured(now_ns):
            return
        self.received += 1
        self.received_bytes += size_bytes
        self.delivery_ns.append(max(0, now_ns - meant_ns))
        if is_innocent:
            self.innocent += 1
            self.innocent_ns.append(max(0, now_ns - meant_ns))
        else:
            self.arrived[publisher] = self.arrived.get(publisher, 0) + 1


@dataclass(frozen=True, slots=True)
class LatencyMs:
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
    confirm: LatencyMs
    delivery: LatencyMs
    innocent: LatencyMs
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


def latency_of(values: "list[int]") -> LatencyMs:
    """Percentiles of nanoseconds."""
    ordered = sorted(values)
    at = [round(percentile(ordered, share) / 1e6, 3) for share in (0.5, 0.99, 0.999)]
    return LatencyMs(at[0], at[1], at[2])


def result_of(
    workload: Workload,
    profile: str,
    where: str,
    seed: int,
    tally: PeerTally,
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


def _fairness(workload: Workload, tally: PeerTally, seconds: float) -> float:
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
