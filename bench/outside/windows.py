"""Adaptive windows against fixed ones on running brokers, in five workloads that hurt them.

    python bench/outside/windows.py                                    # about 10 minutes
    python bench/outside/windows.py --only slow-disk --profiles adaptive,static-400 --repeats 3
    python bench/outside/windows.py --smoke

    slow-disk      40 publishers of persistent messages, 100 unconfirmed each; every sync takes
                   15 ms longer
    slow-disk-400  the same with 400 unconfirmed each
    alternating    a consumer that is fast for a second and slow for a second
    bulk-rpc       one connection: a channel with bulk for a slow consumer, one with calls
    pausing        a consumer that stops for one second of three

Each workload runs under all profiles, one after the other, and that again for every repeat, so that
a busy minute hits them all. Rates are acknowledged messages, latencies those of confirms, both
medians of the repeats; `calls` is what the calls kept of their rate. `of best` is first the rate
relative to the best of the fixed windows, then the p99 relative to the shortest of a fixed window
that has at least RATE_GOAL of the best rate. `us/msg` is processor time of the broker for each
confirmed publish, which a busy machine changes least.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.brokers import free_port  # noqa: E402
from bench.outside.broker import LiveBroker  # noqa: E402
from bench.outside.wire import Connection, Consumer, Loop, Publisher  # noqa: E402

FIXED: Final = tuple(f"static-{n}" for n in (25, 50, 100, 200, 400, 800, 1600, 3200))
RATE_GOAL: Final = 0.97
SYNC_S: Final = 0.015
DEPTH: Final = "--queue-depth"
CALLS_PER_S: Final = 50.0
WORKLOADS: Final = ("slow-disk", "slow-disk-400", "alternating", "bulk-rpc", "pausing")


@dataclass(frozen=True, slots=True)
class Run:
    """One workload under one profile. calls: share of CALLS_PER_S that was confirmed, 1 where there
    are none; cpu_us: processor time of the broker for each confirmed publish."""

    profile: str
    per_s: float
    p50_ms: float
    p99_ms: float
    calls: float
    cpu_us: float


class Stage:
    """The clients of one workload, and how its consumer changes."""

    def __init__(self, name: str, loop: Loop, port: int) -> None:
        self.name = name
        self.loop = loop
        self.calls: Publisher | None = None
        asking = Connection(loop, port)
        asking.channel(1)
        is_durable = is_slow_disk(name)
        asking.declare("work", durable=is_durable)
        self.consumer = Consumer(loop, port, "work", prefetch=500 if is_durable else 50)
        if is_durable:
            each = 400 if name == "slow-disk-400" else 100
            self.publishers = [
                Publisher(loop, port, "work", body=b"x" * 1000, window=each, is_persistent=True)
                for _ in range(40)
            ]
        elif name == "bulk-rpc":
            asking.declare("calls")
            self.answering = Consumer(loop, port, "calls")
            self.consumer.rate = 300.0
            bulk = Publisher(loop, port, "work", body=b"x" * 8000, window=200)
            self.publishers = [bulk]
            self.calls = Publisher(
                loop, port, "calls", body=b"x" * 200, window=50, rate=CALLS_PER_S,
                connection=bulk.connection, channel=2,
            )  # fmt: skip
        else:
            self.publishers = [
                Publisher(loop, port, "work", body=b"x" * 1000, window=200) for _ in range(4)
            ]
        self.began = self.consumer.began
        loop.before.append(self._pace)

    def _pace(self, now: float) -> None:
        at = now - self.began
        if self.name == "alternating":
            rate = 4000.0 if int(at) % 2 == 0 else 200.0
            if rate != self.consumer.rate:
                self.consumer.rate = rate
                self.consumer.began = now - self.consumer.acked / rate
        elif self.name == "pausing":
            self.consumer.is_stopped = at % 3.0 < 1.0

    def measure(self, profile: str, seconds: float, broker: LiveBroker) -> Run:
        """Let it run for so long, and say what came of it."""
        for one in self.publishers:
            one.latencies.clear()
        acked = self.consumer.acked
        confirmed = sum(one.confirmed for one in self.publishers)
        used_s = broker.processor_s()
        called = 0 if self.calls is None else self.calls.confirmed
        took = self.loop.run(seconds)
        used_s = broker.processor_s() - used_s
        confirmed = sum(one.confirmed for one in self.publishers) - confirmed
        ordered = sorted(s for one in self.publishers for s in one.latencies) or [0.0]
        calls = 1.0
        if self.calls is not None:
            calls = (self.calls.confirmed - called) / took / CALLS_PER_S
        return Run(
            profile,
            (self.consumer.acked - acked) / took,
            ordered[len(ordered) // 2] * 1000,
            ordered[int(0.99 * len(ordered))] * 1000,
            calls,
            used_s / max(1, confirmed) * 1e6,
        )


def is_slow_disk(name: str) -> bool:
    """Whether it is about persistent messages."""
    return name.startswith("slow-disk")


def run(name: str, profile: str, seconds: float, settle_s: float) -> Run:
    """One workload under one profile, on a broker of its own. Raises: Failed."""
    is_durable = is_slow_disk(name)
    options = () if is_durable else (DEPTH, str(1024 * 1024))
    with tempfile.TemporaryDirectory() as folder:
        settings = f'profile = "{profile}"\n'
        broker = LiveBroker(
            Path(folder), free_port(), *options, settings=settings, is_in_memory=not is_durable
        )
        with broker:
            loop = Loop()
            stage = Stage(name, loop, broker.port)
            if is_durable and broker.has_slow_sync:
                broker.slow_disk(SYNC_S)
            loop.run(settle_s)
            return stage.measure(profile, seconds, broker)


def median_of(runs: Sequence[Run]) -> Run:
    """Of each figure by itself."""
    return Run(
        runs[0].profile,
        statistics.median(one.per_s for one in runs),
        statistics.median(one.p50_ms for one in runs),
        statistics.median(one.p99_ms for one in runs),
        statistics.median(one.calls for one in runs),
        statistics.median(one.cpu_us for one in runs),
    )


def shown(name: str, runs: Sequence[Run]) -> list[str]:
    """A line for each profile; relative to the fixed windows where there are any."""
    fixed = [one for one in runs if one.profile.startswith("static-")] or list(runs)
    best = max(one.per_s for one in fixed)
    quick = min(one.p99_ms for one in fixed if one.per_s >= RATE_GOAL * best)
    head = f"{name:<14} {'msg/s':>8} {'of best':>8} {'p50 ms':>8} {'p99 ms':>8} {'of best':>8}"
    lines = [f"{head}  calls  us/msg"]
    for one in runs:
        lines.append(
            f"{one.profile:<14} {one.per_s:>8.0f} {one.per_s / max(best, 1e-9):>8.2f} "
            f"{one.p50_ms:>8.1f} {one.p99_ms:>8.1f} {one.p99_ms / max(quick, 1e-9):>8.2f}  "
            f"{one.calls:>5.0%} {one.cpu_us:>7.1f}"
        )
    return lines


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default=",".join(WORKLOADS), help=f"of: {', '.join(WORKLOADS)}")
    parser.add_argument("--profiles", default=",".join(("adaptive", *FIXED)))
    parser.add_argument("--seconds", type=float, default=6.0, help="of one measurement")
    parser.add_argument("--settle", type=float, default=4.0)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="briefly, to see that it runs")
    options = parser.parse_args(words)
    options.workloads = [name for name in options.only.split(",") if name]
    unknown = [name for name in options.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"unknown workload '{unknown[0]}'; one of: {', '.join(WORKLOADS)}")
    if options.repeats < 1 or options.seconds <= 0 or options.settle < 0:
        parser.error("--repeats and --seconds are positive, --settle is not negative")
    return options


def main(words: Sequence[str]) -> int:
    options = parse_arguments(words)
    profiles = [name for name in options.profiles.split(",") if name]
    seconds, settle_s = options.seconds, options.settle
    if options.smoke:
        seconds, settle_s, profiles = 0.5, 0.5, profiles[:1]
    for name in options.workloads:
        found: dict[str, list[Run]] = {profile: [] for profile in profiles}
        for _ in range(options.repeats):
            for profile in profiles:
                found[profile].append(run(name, profile, seconds, settle_s))
        print("\n".join(shown(name, [median_of(runs) for runs in found.values()])), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
