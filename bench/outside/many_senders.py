"""Does a queue's depth mark hold with many publishers, and does everybody get his turn?

A broker is started with a small depth mark, N publishers press on one queue with confirms, and a
consumer takes so many bytes a second. From outside, by confirms and acknowledgements alone:

    content    bytes that were confirmed and not yet acknowledged, at most: mark + 10 %
    shares     Jain's index of confirmed bytes after the queue has filled: 0.95 and more
    gap        longest time in which a publisher that waits had no confirm, from the first publish
               on: 3 x its fair turn (its message, times publishers, by bytes drained a second),
               or 2 s where that is less
    drain      of the consumer's own rate: 98 % and more
    large      where one publisher sends 1 MB among 1 kB: how far it is off its share, 10 % at most

    python bench/outside/many_senders.py                      # all cases; about 10 minutes
    python bench/outside/many_senders.py --only 200x1kB --profile adaptive
    python bench/outside/many_senders.py --smoke              # briefly, to see that it runs
"""

import argparse
import json
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.outside.broker import LiveBroker
from bench.outside.wire import Connection, Consumer, Loop, Publisher, jain

KB: Final = 1000
MB: Final = 1_000_000
MARK_BYTES: Final = 10 * MB
CONTENT_MAX: Final = 1.1
JAIN_MIN: Final = 0.95
TURNS_MAX: Final = 3.0
GAP_FLOOR_S: Final = 2.0
DRAIN_MIN: Final = 0.98
LARGE_OFF_MAX: Final = 0.1


@dataclass(frozen=True, slots=True)
class Case:
    """name; sizes: body of each publisher in turn; count: publishers; drain: bytes the consumer
    takes a second; seconds: measured after the queue has filled."""

    name: str
    count: int
    sizes: tuple[int, ...]
    drain: int
    seconds: float

    def size_of(self, index: int) -> int:
        """Body bytes of publisher `index`. One size more than needed goes to the last alone."""
        if len(self.sizes) == 2 and self.sizes[1] == MB:
            return self.sizes[1] if index == self.count - 1 else self.sizes[0]
        return self.sizes[index % len(self.sizes)]


CASES: Final = (
    Case("1x1kB", 1, (KB,), MB, 15),
    Case("10x1kB", 10, (KB,), MB, 15),
    Case("200x1kB", 200, (KB,), MB, 30),
    Case("2000x1kB", 2000, (KB,), MB, 60),
    Case("10x30kB", 10, (30 * KB,), 3 * MB, 15),
    Case("200x30kB", 200, (30 * KB,), 5 * MB, 30),
    Case("2000x30kB", 2000, (30 * KB,), 6 * MB, 60),
    Case("10xmixed", 10, (KB, 30 * KB), 2 * MB, 20),
    Case("200xmixed", 200, (KB, 30 * KB), 3 * MB, 40),
    Case("2000xmixed", 2000, (KB, 30 * KB), 4 * MB, 60),
    Case("11x1MB", 11, (KB, MB), 2 * MB, 90),
)
SMOKE: Final = Case("smoke", 20, (KB, 3 * KB), MB, 6)
SMOKE_MARK_BYTES: Final = MB


@dataclass(frozen=True, slots=True)
class Result:
    """What was seen in one case; see the head of this file. missed: goals that were not met."""

    case: str
    profile: str
    publishers: int
    content_bytes: int
    content_of_mark: float
    jain: float
    gap_s: float
    gap_of_goal: float
    drain_share: float
    large_off: float
    missed: list[str]

    def text(self) -> str:
        """One line."""
        return (
            f"{self.case:12} {self.profile:10} content {self.content_of_mark:5.2f} of mark   "
            f"jain {self.jain:.4f}   gap {self.gap_s:6.2f} s = {self.gap_of_goal:5.2f} of goal   "
            f"drain {self.drain_share:5.1%}   large off {self.large_off:+.1%}   "
            f"{'MISSED ' + ', '.join(self.missed) if self.missed else 'all met'}"
        )


class SizedConnection(Connection):
    """A connection that knows the body sizes of its deliveries, oldest first."""

    def __init__(self, loop: Loop, port: int) -> None:
        self.sizes: deque[int] = deque()
        super().__init__(loop, port)

    def body_begins(self, channel: int, size: int) -> None:
        self.sizes.append(size)


class PacedConsumer(Consumer):
    """Acknowledges so many bytes a second, oldest first; acked_bytes: so far."""

    def __init__(self, loop: Loop, connection: SizedConnection, queue: str, pace: float) -> None:
        self.sizes = connection.sizes
        self.pace = pace
        self.acked_bytes = 0
        self.allowed = 0.0
        self.looked_at = time.monotonic()
        super().__init__(loop, 0, queue, prefetch=0, connection=connection)

    def step(self, now: float) -> None:
        self.allowed = min(self.allowed + (now - self.looked_at) * self.pace, self.pace)
        self.looked_at = now
        count = 0
        while self.acked + count < self.taken and self.sizes[0] <= self.allowed:
            size = self.sizes.popleft()
            self.allowed -= size
            self.acked_bytes += size
            count += 1
        if count:
            self.acknowledge(count)


def run(case: Case, port: int, mark_bytes: int) -> tuple[Result, list[int]]:
    """Run one case against the broker at `port`; the result without its profile, and the confirmed
    bytes of each publisher."""
    loop = Loop()
    admin = Connection(loop, port)
    admin.channel()
    admin.declare("bench")
    window = max(10, min(400, 200_000 // case.count))
    publishers = []
    for index in range(case.count):
        size = case.size_of(index)
        publisher = Publisher(
            loop,
            port,
            "bench",
            body=b"x" * size,
            window=max(2, min(window, 120 * MB // size // case.count)),
        )
        publisher.is_stopped = True
        publishers.append(publisher)
    consumer = PacedConsumer(loop, SizedConnection(loop, port), "bench", case.drain)
    for publisher in publishers:
        publisher.is_stopped = False
    content = 0
    looked_at = 0.0

    def look(now: float) -> None:
        nonlocal content, looked_at
        if now - looked_at >= 0.05:
            looked_at = now
            confirmed = sum(one.confirmed * one.body_bytes for one in publishers)
            content = max(content, confirmed - consumer.acked_bytes)

    loop.before.append(look)
    began = time.monotonic()
    for publisher in publishers:
        publisher.last_answer = began
    loop.run(min(10.0, case.seconds / 2), lambda: content >= mark_bytes * 0.8)
    loop.run(min(5.0, case.seconds / 4))
    before = [one.confirmed for one in publishers]
    acked = consumer.acked_bytes
    took = loop.run(case.seconds)
    shares = [
        (one.confirmed - was) * one.body_bytes for one, was in zip(publishers, before, strict=True)
    ]
    drained = (consumer.acked_bytes - acked) / took
    gap, of_goal = 0.0, 0.0
    for one in publishers:
        turn = one.body_bytes * case.count / max(drained, 1.0)
        longest = one.longest_gap()
        if longest / max(TURNS_MAX * turn, GAP_FLOOR_S) > of_goal:
            gap, of_goal = longest, longest / max(TURNS_MAX * turn, GAP_FLOOR_S)
    has_large = case.sizes[-1] == MB
    equal = sum(shares) / len(shares)
    result = Result(
        case.name,
        "",
        case.count,
        content,
        content / mark_bytes,
        jain([float(one) for one in shares]) if any(shares) else 0.0,
        gap,
        of_goal,
        drained / case.drain,
        shares[-1] / equal - 1 if has_large and equal else 0.0,
        [],
    )
    for one in publishers:
        one.connection.drop()
    consumer.connection.drop()
    admin.drop()
    return result, shares


def judged(result: Result, profile: str) -> Result:
    """With its profile, and what it has missed."""
    missed = []
    if result.content_of_mark > CONTENT_MAX:
        missed.append("content")
    if result.jain < JAIN_MIN:
        missed.append("jain")
    if result.gap_of_goal > 1:
        missed.append("gap")
    if result.drain_share < DRAIN_MIN:
        missed.append("drain")
    if abs(result.large_off) > LARGE_OFF_MAX:
        missed.append("large")
    return Result(**{**asdict(result), "profile": profile, "missed": missed})


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help=f"of: {', '.join(one.name for one in CASES)}")
    parser.add_argument("--profile", default="penstock")
    parser.add_argument("--port", type=int, default=0, help="0 for a free one")
    parser.add_argument("--seconds", type=float, default=0.0, help="instead of the case's own")
    parser.add_argument("--smoke", action="store_true", help="briefly, to see that it runs")
    parser.add_argument("--strict", action="store_true", help="a missed goal fails the run")
    parser.add_argument("--out", default="", help="JSON file for what was seen")
    options = parser.parse_args(words)
    known = {one.name for one in CASES}
    wanted = [name for name in options.only.split(",") if name]
    if not known.issuperset(wanted):
        parser.error(f"--only: one of {', '.join(known)}")
    if options.seconds < 0:
        parser.error("--seconds cannot be negative")
    options.only = wanted
    return options


def main(words: Sequence[str]) -> int:
    options = parse_arguments(words)
    cases = [one for one in CASES if not options.only or one.name in options.only]
    mark_bytes = MARK_BYTES
    if options.smoke:
        cases, mark_bytes = [SMOKE], SMOKE_MARK_BYTES
    results = []
    for case in cases:
        port = options.port or free_port()
        seconds = options.seconds or case.seconds
        one = Case(case.name, case.count, case.sizes, case.drain, seconds)
        with tempfile.TemporaryDirectory() as folder:
            depth = ("--profile", options.profile, "--queue-depth", str(mark_bytes))
            with LiveBroker(Path(folder), port, *depth, is_in_memory=True):
                result, _ = run(one, port, mark_bytes)
        results.append(judged(result, options.profile))
        print(results[-1].text(), flush=True)
    if options.out:
        Path(options.out).write_text(json.dumps([asdict(one) for one in results], indent=1))
    return int(options.strict and any(one.missed for one in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
