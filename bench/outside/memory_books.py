"""Whether the books of memory add up to what the system says, and whether the forecast comes true.

    python bench/outside/memory_books.py            # all cases and ramps, about 8 minutes
    python bench/outside/memory_books.py --smoke    # one of each, small: does it run?

Everything is judged from outside: own sockets, and VmRSS of /proc/PID/status.

    books    a load is left in queues; what `why memory` says messages and the broker itself take,
             against VmRSS; and the parts of the queues against what messages hold
    ramps    a load goes on; after some seconds `why memory` is asked when the alarm will ring, and
             then it is waited for: connection.blocked is the truth

Exit code 1: it failed or, with --strict, a goal was missed.
"""

import argparse
import json
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, cast

ROOT: Final = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.outside.broker import LiveBroker  # noqa: E402
from bench.outside.wire import (  # noqa: E402
    Connection,
    Consumer,
    Loop,
    Publisher,
    publish_bytes,
    short,
    table,
)

BOOKS_GOAL: Final = 0.10
RAMP_GOAL: Final = 0.30
NO_HOLDS: Final = 'queue_depth_bytes = 100_000_000_000\nalarm_mode = "all"\n'
ROUND_S: Final = 2.5
"""Snapshots are taken once a second: after this long what is asked for is in one."""
FAN: Final = 20


@dataclass(frozen=True)
class BooksResult:
    """Bytes. error: of messages and broker together, as a share of rss; queues: what the shown
    queues hold, None where there are more than are shown."""

    name: str
    rss: int
    messages: int
    broker: int
    error: float
    queues: int | None


@dataclass(frozen=True)
class RampResult:
    """Seconds. foretold None: that it will not ring; came None: that it did not in time."""

    name: str
    foretold: float | None
    came: float | None
    error: float


def rss_of(pid: int) -> int:
    """VmRSS in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {pid} has no VmRSS")


def bind(connection: Connection, queue: str, exchange: str) -> None:
    """queue.bind with an empty key."""
    head = struct.pack(">H", 0) + short(queue) + short(exchange)
    connection.call(1, 50, 20, head + short("") + b"\x00" + table({}))


def purge(connection: Connection, queue: str) -> None:
    """queue.purge."""
    connection.call(1, 50, 30, struct.pack(">H", 0) + short(queue) + b"\x00")


class Bench:
    """One broker and one loop of clients. Owner: the `with` of a case."""

    def __init__(self, folder: Path, port: int, settings: str, *, has_disk: bool) -> None:
        self.broker = LiveBroker(folder, port, settings=settings, is_in_memory=not has_disk)
        self.port = port
        self.loop = Loop()
        self.admin = Connection(self.loop, port, name="admin")
        self.admin.channel(1)

    def queues(self, count: int, *, is_durable: bool = False) -> list[str]:
        """Queues q0.., each bound to amq.fanout."""
        names = [f"q{number}" for number in range(count)]
        for name in names:
            self.admin.declare(name, durable=is_durable)
            bind(self.admin, name, "amq.fanout")
        return names

    def fill(self, exchange: str, key: str, body: bytes, count: int) -> None:
        """`count` messages, and until they are in their queues."""
        publisher = Connection(self.loop, self.port, name="filler")
        publisher.channel(1)
        one = publish_bytes(1, exchange, key, body, frame_max=publisher.frame_max)
        chunk = max(1, 65_536 // len(one))
        for at in range(0, count, chunk):
            publisher.send(one * min(chunk, count - at))
            self.loop.run(120.0, lambda: publisher.outbox_bytes < 262_144)
        self.loop.run(120.0, lambda: publisher.outbox_bytes == 0)
        # What the broker has read is in its queues when it answers behind it.
        publisher.declare("q0") if key == "" else publisher.declare(key)

    def stop(self) -> None:
        self.loop.close()
        self.broker.stop()


def memory(bench: Bench, window_s: float = 10.0) -> dict[str, object]:
    """What `why memory` says."""
    return bench.broker.why("memory", window_s=window_s)


def judged(name: str, bench: Bench) -> BooksResult:
    """Asks when all is at rest."""
    bench.loop.run(ROUND_S)
    rss = rss_of(bench.broker.process.pid)
    said = memory(bench)
    messages = cast(int, said["held_bytes"])
    base = cast(int, said["base_bytes"])
    queues = cast(Sequence[dict[str, object]], said["queues"])
    total = sum(cast(int, one["bytes"]) for one in queues)
    shares = sum(cast(float, one["share"]) for one in queues)
    return BooksResult(
        name, rss, messages, base, (messages + base) / rss - 1,
        round(total / shares) if shares else None,
    )  # fmt: skip


# -- books -----------------------------------------------------------------------------------------


def books_one_queue(bench: Bench, scale: float) -> None:
    bench.queues(1)
    bench.fill("", "q0", bytes(1000), round(100_000 * scale))


def books_small(bench: Bench, scale: float) -> None:
    bench.queues(1)
    bench.fill("", "q0", bytes(50), round(300_000 * scale))


def books_large(bench: Bench, scale: float) -> None:
    bench.queues(1)
    bench.fill("", "q0", bytes(200_000), round(700 * scale))


def books_fan_out(bench: Bench, scale: float) -> None:
    bench.queues(FAN)
    bench.fill("amq.fanout", "", bytes(10_000), round(14_000 * scale))


def books_fan_out_left(bench: Bench, scale: float) -> None:
    """All but one of the queues are drained."""
    names = bench.queues(FAN)
    bench.fill("amq.fanout", "", bytes(10_000), round(14_000 * scale))
    for name in names[1:]:
        purge(bench.admin, name)


def books_unanswered(bench: Bench, scale: float) -> None:
    """Delivered to a consumer that answers nothing."""
    bench.queues(1)
    bench.fill("", "q0", bytes(5_000), round(25_000 * scale))
    consumer = Consumer(bench.loop, bench.port, "q0", prefetch=0)
    consumer.is_stopped = True
    bench.loop.run(60.0, lambda: consumer.taken >= round(25_000 * scale))


BOOKS: Final[dict[str, Callable[[Bench, float], None]]] = {
    "one queue, 1 kB": books_one_queue,
    "one queue, 50 bytes": books_small,
    "one queue, 200 kB": books_large,
    "fan-out to 20, 10 kB": books_fan_out,
    "fan-out to 20, one left": books_fan_out_left,
    "unanswered, 5 kB": books_unanswered,
}

# -- ramps -----------------------------------------------------------------------------------------


def paced(bench: Bench, key: str, size: int, bytes_per_s: float) -> Publisher:
    """A publisher to queue `key` through the default exchange."""
    return Publisher(
        bench.loop, bench.port, key, body=bytes(size), rate=bytes_per_s / size, name=f"to-{key}"
    )


class FanOut:
    """Publishes to amq.fanout at a pace, without confirms."""

    def __init__(self, bench: Bench, size: int, rate: float) -> None:
        self.connection = Connection(bench.loop, bench.port, name="fan-out")
        self.connection.channel(1)
        self.one = publish_bytes(
            1, "amq.fanout", "", bytes(size), frame_max=self.connection.frame_max
        )
        self.rate = rate
        self.sent = 0
        self.began = time.monotonic()
        bench.loop.before.append(self.step)

    def step(self, now: float) -> None:
        due = int((now - self.began) * self.rate) - self.sent
        if due > 0 and self.connection.outbox_bytes < 262_144 and not self.connection.closed:
            due = min(due, 64)
            self.sent += due
            self.connection.send(self.one * due)


def ramp_steady(bench: Bench, speed: float) -> Connection:
    bench.queues(1)
    return paced(bench, "q0", 1000, speed).connection


def ramp_fan_out(bench: Bench, speed: float) -> Connection:
    bench.queues(FAN)
    return FanOut(bench, 20_000, speed / 20_000).connection


def ramp_three(bench: Bench, speed: float) -> Connection:
    """Three queues at three speeds."""
    bench.queues(3)
    parts = [paced(bench, f"q{at}", 2000, speed * share) for at, share in ((0, 0.6), (1, 0.3))]
    parts.append(paced(bench, "q2", 20_000, speed * 0.1))
    return parts[0].connection


def ramp_after_purge(bench: Bench, speed: float) -> Connection:
    """Much was used before and is kept free."""
    bench.queues(1)
    bench.fill("", "q0", bytes(2000), round(speed * 12 / 2000))
    bench.loop.run(ROUND_S)
    purge(bench.admin, "q0")
    bench.loop.run(ROUND_S)
    return paced(bench, "q0", 2000, speed).connection


def ramp_half_drained(bench: Bench, speed: float) -> Connection:
    """A consumer takes half of it."""
    bench.queues(1)
    publisher = paced(bench, "q0", 2000, 2 * speed)
    Consumer(bench.loop, bench.port, "q0", prefetch=50, rate=speed / 2000)
    return publisher.connection


def ramp_paging(bench: Bench, speed: float) -> Connection:
    """Durable: it pages, so the alarm never rings."""
    bench.queues(1, is_durable=True)
    return Publisher(
        bench.loop, bench.port, "q0", body=bytes(2000), rate=speed / 2000, is_persistent=True
    ).connection


RAMPS: Final[dict[str, Callable[[Bench, float], Connection]]] = {
    "one queue, steady": ramp_steady,
    "fan-out to 20": ramp_fan_out,
    "three queues, three speeds": ramp_three,
    "after a purge": ramp_after_purge,
    "half of it drained": ramp_half_drained,
    "durable, pages": ramp_paging,
}


def ramped(name: str, bench: Bench, speed: float, look_s: float, wait_s: float) -> RampResult:
    """look_s: after so long the forecast is asked; wait_s: how long the alarm is waited for."""
    watched = RAMPS[name](bench, speed)
    bench.loop.run(look_s, lambda: watched.blocked != "")
    asked = time.monotonic()
    foretold = cast("float | None", memory(bench, min(10.0, look_s / 2))["alarm_in_s"])
    bench.loop.run(wait_s, lambda: watched.blocked != "")
    came = watched.blocked_log[0][0] - asked if watched.blocked_log else None
    if came is None or foretold is None:
        error = 0.0 if came is None and foretold is None else float("inf")
    else:
        error = foretold / max(came, 0.001) - 1
    return RampResult(name, foretold, came, error)


# -- all of it -------------------------------------------------------------------------------------


def all_books(folder: Path, port: int, scale: float, names: Sequence[str]) -> list[BooksResult]:
    found = []
    for number, name in enumerate(names):
        place = folder / f"books{number}"
        place.mkdir()
        bench = Bench(place, port, NO_HOLDS + 'memory_high = "20GB"\n', has_disk=False)
        try:
            # The broker itself is known from a look at it before there are messages.
            bench.loop.run(ROUND_S)
            BOOKS[name](bench, scale)
            one = judged(name, bench)
        finally:
            bench.stop()
        found.append(one)
        print(
            f"{name:28} rss {one.rss / 1e6:7.1f} MB = messages {one.messages / 1e6:7.1f} + broker "
            f"{one.broker / 1e6:6.1f}: {one.error:+.1%}; queues {(one.queues or 0) / 1e6:.1f} MB"
        )
    return found


def all_ramps(
    folder: Path, port: int, speed: float, room_s: float, names: Sequence[str]
) -> list[RampResult]:
    """room_s: the mark is so many seconds of a ramp above the broker itself."""
    found = []
    for number, name in enumerate(names):
        place = folder / f"ramp{number}"
        place.mkdir()
        has_disk = name == "durable, pages"
        probe = Bench(place, port, NO_HOLDS + 'memory_high = "20GB"\n', has_disk=has_disk)
        base = rss_of(probe.broker.process.pid)
        probe.stop()
        mark = base + round(room_s * speed)
        holds = NO_HOLDS if not has_disk else 'alarm_mode = "all"\n'
        bench = Bench(place, port, holds + f'memory_high = "{mark}B"\n', has_disk=has_disk)
        try:
            bench.loop.run(ROUND_S)
            one = ramped(name, bench, speed, room_s * 0.4, room_s * 1.6)
        finally:
            bench.stop()
        found.append(one)
        foretold = "not at all" if one.foretold is None else f"{one.foretold:.1f} s"
        came = "not" if one.came is None else f"{one.came:.1f} s"
        print(f"{name:28} foretold {foretold}, came {came}: {one.error:+.1%}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--smoke", action="store_true", help="one of each, small")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a goal is missed")
    parser.add_argument("--port", type=int, default=5911)
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--json", default="", help="write the results there")
    options = parser.parse_args()
    books = [name for name in BOOKS if options.only in name]
    ramps = [name for name in RAMPS if options.only in name]
    scale, speed, room_s = 1.0, 3e6, 45.0
    if options.smoke:
        books, ramps = books[3:4] or books[:1], ramps[:1]
        scale, speed, room_s = 0.2, 2e6, 20.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        added = all_books(folder, options.port, scale, books)
        foretold = all_ramps(folder, options.port, speed, room_s, ramps)
    if options.json:
        results = {
            "books": [asdict(one) for one in added],
            "ramps": [asdict(one) for one in foretold],
        }
        Path(options.json).write_text(json.dumps(results, indent=1))
    missed = [one.name for one in added if abs(one.error) > BOOKS_GOAL]
    missed += [one.name for one in foretold if abs(one.error) > RAMP_GOAL]
    print(f"missed: {', '.join(missed) or 'nothing'}")
    return 1 if missed and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
