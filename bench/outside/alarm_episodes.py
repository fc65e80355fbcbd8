"""Ten memory alarms in a row, seen from outside: what is left of the rate of those not at fault.

    python bench/outside/alarm_episodes.py                        # about two minutes
    python bench/outside/alarm_episodes.py --profile adaptive --out result.json
    python bench/outside/alarm_episodes.py --smoke                # two episodes of a small broker

Culprits publish without confirms, as fast as their sockets take it, each to a queue of its own
whose consumer is stopped: the broker's memory passes its mark. When culprits are told
connection.blocked, their consumers wait for --held seconds, then run until all culprits are told
connection.unblocked, and stop again: one episode.
Innocents publish with confirms at a steady rate to queues that are read. Their rate is counted in
bins of half a second, no bin above what they had alone, so that what is made up for after a
standstill does not hide it.

Exit code 1: the episodes did not come about, or the innocents kept less than --lowest.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.brokers import Broker, penstock_target  # noqa: E402
from bench.outside.wire import Connection, Consumer, Loop, Publisher  # noqa: E402

BIN_S: Final = 0.5
INNOCENT_BODY: Final = b"i" * 1_000
INNOCENT_WINDOW: Final = 100
DEPTH: Final = "1000000000"
"""The queues of the culprits have no depth mark that would stop them before the alarm does."""


@dataclass(frozen=True, slots=True)
class Scale:
    """memory_high: mark of the broker; culprits, innocents: connections; rate: publishes a second
    of each innocent; solo_s: how long they are alone; episode_s: the longest one."""

    memory_high: str
    culprits: int
    innocents: int
    rate: float
    episodes: int
    solo_s: float
    episode_s: float


FULL: Final = Scale("240MB", 8, 4, 200.0, 10, 8.0, 45.0)
SMOKE: Final = Scale("120MB", 4, 2, 50.0, 2, 3.0, 45.0)


@dataclass(slots=True)
class Result:
    """kept_pct: of the innocents' rate alone, over all bins; worst_pct: of the worst bin; gap_s:
    longest time without a confirm of any innocent; told: times an innocent heard
    connection.blocked; rss_max: greatest resident memory seen, bytes; stops: times a culprit
    heard connection.blocked."""

    episodes: int
    seconds: float
    solo_per_s: float
    kept_pct: float
    worst_pct: float
    gap_s: float
    told: int
    stops: int
    drained: int
    rss_max: int


class Bins:
    """Confirms of all innocents in bins of BIN_S; on_bin is called at the end of each."""

    def __init__(self, loop: Loop, innocents: list[Publisher], broker: Broker) -> None:
        self.innocents = innocents
        self.broker = broker
        self.counts: list[int] = []
        self.last = self._sum()
        self.due = time.monotonic() + BIN_S
        self.rss_max = 0
        loop.before.append(self.step)

    def _sum(self) -> int:
        return sum(one.confirmed for one in self.innocents)

    def begin(self) -> None:
        """Forget what was."""
        self.counts = []
        self.last = self._sum()
        self.due = time.monotonic() + BIN_S

    def step(self, now: float) -> None:
        """Close the bin if it is over."""
        if now < self.due:
            return
        late = (now - self.due + BIN_S) / BIN_S
        total = self._sum()
        # A late look counts for the bins it covers.
        for _ in range(int(late)):
            self.counts.append(round((total - self.last) / int(late)))
        self.last = total
        self.due += BIN_S * int(late)
        self.rss_max = max(self.rss_max, self.broker.rss_bytes())


class Culprits:
    """Publishers to queues whose consumers are stopped."""

    def __init__(self, loop: Loop, port: int, count: int, body: bytes) -> None:
        self.publishers: list[Publisher] = []
        self.consumers: list[Consumer] = []
        for number in range(count):
            queue = f"heap-{number}"
            connection = Connection(loop, port, name=f"culprit-{number}")
            publisher = Publisher(loop, port, queue, body=body, connection=connection)
            publisher.is_stopped = True
            connection.declare(queue)
            consumer = Consumer(loop, port, queue, prefetch=200, name=f"drain-{number}")
            consumer.is_stopped = True
            self.publishers.append(publisher)
            self.consumers.append(consumer)

    def are_stopped(self) -> bool:
        """Whether any of them is told so."""
        return any(one.connection.blocked for one in self.publishers)

    def drain(self, is_running: bool) -> None:
        """Let the consumers run, or stop them."""
        for one in self.consumers:
            one.is_stopped = not is_running

    def stops(self) -> int:
        """How often one was told connection.blocked."""
        return sum(
            len([1 for _, text in one.connection.blocked_log if text]) for one in self.publishers
        )


def judge(broker: Broker, scale: Scale, options: argparse.Namespace) -> Result:
    """The whole program on a running broker. Raises: SystemExit when an episode does not come."""
    loop = Loop()
    innocents: list[Publisher] = []
    for number in range(scale.innocents):
        queue = f"calm-{number}"
        connection = Connection(loop, broker.port, name=f"innocent-{number}")
        publisher = Publisher(
            loop,
            broker.port,
            queue,
            body=INNOCENT_BODY,
            window=INNOCENT_WINDOW,
            rate=scale.rate,
            connection=connection,
        )
        publisher.is_stopped = True
        connection.declare(queue)
        Consumer(loop, broker.port, queue, name=f"reader-{number}")
        innocents.append(publisher)
    culprits = Culprits(loop, broker.port, scale.culprits, b"c" * options.culprit_bytes)
    for one in innocents:
        one.began = time.monotonic()
        one.is_stopped = False
    bins = Bins(loop, innocents, broker)
    loop.run(1.0)
    bins.begin()
    loop.run(scale.solo_s)
    solo = sum(bins.counts) / len(bins.counts)
    bins.begin()
    for one in innocents:
        one.gap_s = 0.0
    began = time.monotonic()
    for one in culprits.publishers:
        one.is_stopped = False
    for number in range(scale.episodes):
        begin = time.monotonic()
        loop.run(scale.episode_s, culprits.are_stopped)
        rung = time.monotonic()
        if not culprits.are_stopped():
            raise SystemExit(f"episode {number}: no alarm within {scale.episode_s:.0f} s")
        loop.run(options.held)
        culprits.drain(True)
        loop.run(scale.episode_s, lambda: not culprits.are_stopped())
        if culprits.are_stopped():
            raise SystemExit(f"episode {number}: not over within {scale.episode_s:.0f} s")
        culprits.drain(False)
        if not options.smoke:
            over = time.monotonic()
            print(
                f"episode {number}: rang after {rung - begin:.2f} s, lasted {over - rung:.2f} s, "
                f"innocents so far {_kept(bins.counts, solo):.1f} %"
            )
    seconds = time.monotonic() - began
    counts = bins.counts or [0]
    return Result(
        scale.episodes,
        round(seconds, 2),
        solo / BIN_S,
        _kept(counts, solo),
        100 * min(counts) / solo,
        max(one.longest_gap() for one in innocents),
        sum(len([1 for _, text in one.connection.blocked_log if text]) for one in innocents),
        culprits.stops(),
        sum(one.taken for one in culprits.consumers),
        bins.rss_max,
    )


def _kept(counts: list[int], solo: float) -> float:
    return 100 * sum(min(one, solo) for one in counts) / (solo * max(1, len(counts)))


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line. Exits with 2 for values that make no sense."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="penstock", help="flow profile of the broker")
    parser.add_argument("--python", default="", help="interpreter of another installation")
    parser.add_argument("--mode", default="", choices=("", "targeted", "all"), help="alarm_mode")
    parser.add_argument("--culprit-bytes", type=int, default=20_000, help="their bodies")
    parser.add_argument(
        "--held", type=float, default=1.5, help="seconds from an alarm until its queues are read"
    )
    parser.add_argument("--lowest", type=float, default=95.0, help="percent innocents must keep")
    parser.add_argument("--out", default="", help="write the figures as JSON to this file")
    parser.add_argument("--smoke", action="store_true", help="two episodes of a small broker")
    arguments = parser.parse_args(words)
    if not 0 <= arguments.lowest <= 100:
        parser.error("--lowest is a percentage")
    if arguments.culprit_bytes < 1 or arguments.held < 0:
        parser.error("--culprit-bytes is 1 or more, --held 0 or more")
    return arguments


def main(words: Sequence[str] | None = None) -> int:
    """0 when the innocents kept their rate."""
    arguments = parse_arguments(words)
    scale = SMOKE if arguments.smoke else FULL
    settings = Path(f"/tmp/alarm-episodes-{time.monotonic_ns()}.toml")
    text = f'memory_high = "{scale.memory_high}"\n'
    if arguments.mode:
        text += f'alarm_mode = "{arguments.mode}"\n'
    settings.write_text(text, encoding="ascii")
    options = ("--config", str(settings), "--queue-depth", DEPTH, "--profile", arguments.profile)
    broker = penstock_target(arguments.python, options).start()
    try:
        result = judge(broker, scale, arguments)
        if broker.directory is not None and not arguments.smoke:
            print((broker.directory / "output.log").read_text(encoding="utf-8")[-6000:])
    finally:
        broker.stop()
        settings.unlink()
    print(
        f"{result.episodes} alarms in {result.seconds:.1f} s: innocents kept "
        f"{result.kept_pct:.1f} % of {result.solo_per_s:.0f}/s, worst bin "
        f"{result.worst_pct:.0f} %, longest gap {result.gap_s:.2f} s, told blocked "
        f"{result.told} times; culprits stopped {result.stops} times; "
        f"{result.rss_max / 1e6:.0f} MB at most"
    )
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(asdict(result)), encoding="ascii")
    return 0 if result.kept_pct >= arguments.lowest else 1


if __name__ == "__main__":
    sys.exit(main())
