"""How fast does a queue go whose publisher also sends to a queue that stands still?

One connection publishes to `fast`, whose consumer takes everything, and to `slow`, whose consumer
takes 100 a second, or nothing. What `fast` delivers is held against what it delivers alone, in
pairs of runs on one broker. Own sockets, nothing of Penstock's client.

    python bench/outside/head_of_line.py                  # every row, about six minutes
    python bench/outside/head_of_line.py --smoke --json rows.json
    python bench/outside/head_of_line.py --disk --parked-bytes 4194304 --only "no limit"

A row: so many publishes are unconfirmed to `slow` at most, or there is no limit and `slow` is sent
--slow-rate a second without confirms; one channel for both, or one for each. `fast` is sent --rate
a second, 0 for as many as it takes: then the answers one by one, which every broker gives while an
older publish is unanswered, cost this client more than the few for many it gets alone.

With --disk the broker has a data directory, so that a lot larger than its memory goes on there;
--parked-bytes makes that memory smaller, --slow-rate what fills it faster.
"""

import argparse
import json
import statistics
import struct
import sys
import tempfile
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.machine import describe
from bench.outside.broker import LiveBroker
from bench.outside.wire import (
    CONFIRM,
    OUTPUT_MAX,
    Connection,
    Consumer,
    Loop,
    publish_bytes,
)

FAST_WINDOW: Final = 200
SLOW_RATE: Final = 1000.0
BURST: Final = 50
BOUNDED: Final[dict[str, str | int | bool]] = {"x-max-length": 1000, "x-overflow": "backpressure"}


@dataclass(frozen=True, slots=True)
class Row:
    """window: publishes unconfirmed to `slow` at most, 0 for no limit and no confirms; body_bytes:
    of each; channels: 1 or 2; slow: messages a second its consumer takes, 0 for none."""

    window: int
    body_bytes: int
    channels: int
    slow: float

    def name(self) -> str:
        """For people."""
        limit = f"{self.window} unconfirmed" if self.window else "no limit"
        taken = f"{self.slow:g}/s" if self.slow else "dead"
        return f"{limit} of {self.body_bytes} B, {self.channels} channel(s), slow queue {taken}"


ROWS: Final = (
    *(Row(window, 1000, 1, 100.0) for window in (200, 299, 350, 399, 2000, 10_000)),
    Row(10_000, 1000, 1, 0.0),
    Row(399, 1000, 2, 100.0),
    Row(200, 30_000, 1, 100.0),
    Row(1000, 30_000, 1, 0.0),
    Row(0, 1000, 1, 100.0),
    Row(0, 1000, 2, 100.0),
    Row(0, 1000, 2, 0.0),
    Row(0, 30_000, 1, 0.0),
)
SMOKE: Final = (Row(399, 1000, 1, 100.0), Row(0, 1000, 2, 0.0))


class Sender:
    """Publishes to several queues over one channel, each with a window and a rate of its own.

    targets: of each queue the bytes of one publish, its window (0: no confirms) and its rate (0: no
    limit). sent, open: publishes of each, and those without an answer.
    """

    def __init__(
        self,
        loop: Loop,
        connection: Connection,
        channel: int,
        targets: dict[str, tuple[int, float]],
        body: bytes,
    ) -> None:
        self.connection = connection
        has_confirms = any(window for window, _ in targets.values())
        connection.channel(channel, confirms=has_confirms)
        self.has_confirms = has_confirms
        self.names = list(targets)
        self.one = {
            name: publish_bytes(channel, "", name, body, frame_max=connection.frame_max)
            for name in targets
        }
        self.targets = targets
        self.sent = dict.fromkeys(targets, 0)
        self.open = dict.fromkeys(targets, 0)
        self.began = time.monotonic()
        self.order: deque[str] = deque()
        self.first = 1
        self.answered: set[int] = set()
        connection.handlers[channel, *CONFIRM] = self._confirm
        loop.before.append(self.step)

    def step(self, now: float) -> None:
        """A burst to each queue in turn, as far as window, rate and socket allow."""
        for name in self.names:
            if self.connection.outbox_bytes > OUTPUT_MAX or self.connection.closed:
                return
            window, rate = self.targets[name]
            count = BURST
            if window:
                count = min(count, window - self.open[name])
            if rate:
                count = min(count, int((now - self.began) * rate) - self.sent[name])
            if count <= 0:
                continue
            self.sent[name] += count
            if self.has_confirms:
                self.open[name] += count
                self.order.extend([name] * count)
            self.connection.send(self.one[name] * count)

    def _confirm(self, arguments: bytes) -> None:
        tag, is_multiple = struct.unpack(">QB", arguments)
        if is_multiple:
            self.answered.update(
                number for number in range(self.first, tag + 1) if number not in self.answered
            )
        else:
            self.answered.add(tag)
        for number in range(self.first, tag + 1) if is_multiple else (tag,):
            name = self.order[number - self.first]
            if name:
                self.open[name] -= 1
                self.order[number - self.first] = ""
        while self.first in self.answered:
            self.answered.discard(self.first)
            self.order.popleft()
            self.first += 1


@dataclass(frozen=True, slots=True)
class Finding:
    """alone, beside: messages a second from `fast`, one of each pair; ratios: beside by alone;
    parked_bytes, disk_bytes: of the connection when the run beside ended, in memory and on disk."""

    row: str
    alone: list[float]
    beside: list[float]
    ratios: list[float]
    parked_bytes: list[int]
    disk_bytes: list[int]


def rate_of_fast(
    broker: LiveBroker,
    row: Row,
    pace: float,
    slow_pace: float,
    seconds: float,
    has_slow: bool,
    is_bounded: bool,
) -> tuple[float, int, int]:
    """Messages a second from `fast`, and bytes parked at the end, in memory and on the disk."""
    loop = Loop()
    suffix = f"{time.monotonic_ns()}"
    fast, slow = f"fast-{suffix}", f"slow-{suffix}"
    try:
        admin = Connection(loop, broker.port, name="admin")
        admin.channel(1)
        expires: dict[str, str | int | bool] = {"x-expires": 120_000}
        admin.declare(fast, arguments=expires)
        # With a data directory a queue would page instead of standing still.
        admin.declare(slow, arguments=expires | (BOUNDED if is_bounded else {}))
        consumer = Consumer(loop, broker.port, fast, no_ack=True)
        if row.slow:
            Consumer(loop, broker.port, slow, prefetch=10, rate=row.slow)
        connection = Connection(loop, broker.port, name=f"shop-{suffix}")
        body = b"x" * row.body_bytes
        wanted = {fast: (FAST_WINDOW if row.window else 0, pace)}
        behind = {slow: (row.window, 0.0 if row.window else slow_pace)} if has_slow else {}
        if row.channels == 1:
            Sender(loop, connection, 1, {**behind, **wanted}, body)
        else:
            Sender(loop, connection, 1, wanted, body)
            if behind:
                Sender(loop, connection, 2, behind, body)
        loop.run(seconds / 4)
        before = consumer.taken
        ran = loop.run(seconds)
        rate = (consumer.taken - before) / ran
        parked = on_disk = 0
        said = broker.command("flow", "accounts", "--format", "json")
        for account in json.loads(said.stdout)["accounts"]:
            if f"shop-{suffix}" in account["name"]:
                parked = account["parked_bytes"]
                on_disk = account["parked_disk_bytes"]
        return rate, parked, on_disk
    finally:
        loop.close()


def measured(
    broker: LiveBroker,
    row: Row,
    pace: float,
    slow_pace: float,
    pairs: int,
    seconds: float,
    is_bounded: bool,
) -> Finding:
    """So many pairs of runs, each with and without the other queue."""
    alone: list[float] = []
    beside: list[float] = []
    parked: list[int] = []
    on_disk: list[int] = []
    for _ in range(pairs):
        alone.append(rate_of_fast(broker, row, pace, slow_pace, seconds, False, is_bounded)[0])
        found, *sizes = rate_of_fast(broker, row, pace, slow_pace, seconds, True, is_bounded)
        beside.append(found)
        parked.append(sizes[0])
        on_disk.append(sizes[1])
    ratios = [one / other if other else 0.0 for one, other in zip(beside, alone, strict=True)]
    return Finding(row.name(), alone, beside, ratios, parked, on_disk)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--profile", default="penstock", help="the broker's profile")
    parser.add_argument("--depth", default="1000000", help="depth mark of the queues, bytes")
    parser.add_argument("--port", type=int, default=5840)
    parser.add_argument("--rate", type=float, default=2000.0, help="to `fast`, a second")
    parser.add_argument(
        "--slow-rate", type=float, default=SLOW_RATE, help="to `slow`, without limit"
    )
    parser.add_argument("--disk", action="store_true", help="with a data directory")
    parser.add_argument("--parked-bytes", type=int, default=0, help="memory of a connection's lot")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run")
    parser.add_argument("--only", default="", help="rows whose name has this")
    parser.add_argument("--smoke", action="store_true", help="two rows, briefly")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    asked = parser.parse_args()
    rows = SMOKE if asked.smoke else tuple(one for one in ROWS if asked.only in one.name())
    pairs, seconds = (1, 1.0) if asked.smoke else (asked.pairs, asked.seconds)
    found: list[Finding] = []
    with tempfile.TemporaryDirectory() as folder:
        options = ("--profile", asked.profile, "--queue-depth", asked.depth)
        settings = f"parked_bytes = {asked.parked_bytes}\n" if asked.parked_bytes else ""
        with LiveBroker(
            Path(folder), asked.port, *options, settings=settings, is_in_memory=not asked.disk
        ) as broker:
            for row in rows:
                one = measured(broker, row, asked.rate, asked.slow_rate, pairs, seconds, asked.disk)
                found.append(one)
                middle = statistics.median(one.ratios)
                spread = f"{min(one.ratios):.0%}-{max(one.ratios):.0%}"
                print(
                    f"{one.row:66} fast {statistics.median(one.beside):8,.0f}/s "
                    f"{middle:5.0%} ({spread}) of alone, "
                    f"{max(one.parked_bytes) / 1e6:.1f} MB parked in memory, "
                    f"{max(one.disk_bytes) / 1e6:.1f} MB on disk",
                    flush=True,
                )
    if asked.json is not None:
        facts = {"machine": describe(), "profile": asked.profile, "pairs": pairs}
        asked.json.write_text(json.dumps({**facts, "rows": [asdict(one) for one in found]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
