"""What the HTTP API and a scrape cost beside a thousand queues and thousands of connections.

Question: does a page of queues come quickly, and does a client that waits for each of its messages
notice that somebody looks? Expected from a sketch: a listing of 1,000 queues is 20 ms of the
broker's time, in slices below a millisecond, once a second at most; so the client's p99 moves by
less than a millisecond, and a page takes two or three times the listing.

    page     1,000 queues, 5,000 connections: GET /api/queues?page=1&page_size=100, ten a second
    scrape   1,000 queues, 2,000 connections: GET /metrics once a second, beside a broker as large
             that has no management process

The client sends one message every two milliseconds and waits for it. Every repeat measures it once
with and once without requests, in random order. The verdict is on the median over the repeats of
the difference of the p99s, and on the p99 of all requests.

    python bench/http_load.py                       from this checkout, interpreted
    python bench/http_load.py --python PATH         as installed for that interpreter (compiled)
    python bench/http_load.py --smoke               few objects, briefly: does everything answer?
    python bench/http_load.py --only scrape --path /metrics/per-object
"""

import argparse
import base64
import http.client
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

# Run as a program the directory above is not on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.brokers import Broker, BrokerFailed, Target, forget_cache, free_port, penstock_target
from bench.machine import describe
from bench.outside.wire import Connection, Failed, Loop, publish_bytes, short, table

PAGE_MS_MAX: Final = 150.0
CLIENT_MS_MAX: Final = 1.0
"""By how much the client's p99 may grow."""
PING_S: Final = 0.002
QUEUE: Final = "ping"
HTTP_TIMEOUT_S: Final = 30.0
LOGIN: Final = "Basic " + base64.b64encode(b"guest:guest").decode()
READY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Case:
    """path: what is asked for, on the port of metrics if `is_metrics`; pause_s: between requests;
    is_paired: compared with a broker without a management process, else with nobody asking."""

    name: str
    queues: int
    connections: int
    path: str
    pause_s: float
    is_metrics: bool
    is_paired: bool


CASES: Final = (
    Case("page", 1000, 5000, "/api/queues?page=1&page_size=100", 0.1, False, False),
    Case("scrape", 1000, 2000, "/metrics", 1.0, True, True),
)
SMOKE: Final = {"queues": 30, "connections": 20, "pause_s": 0.05}


@dataclass(slots=True)
class Seen:
    """Times in milliseconds. requests: of all; growth: of the client's p99, one a repeat."""

    requests: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    answer_bytes: int = 0

    @property
    def growth(self) -> list[float]:
        return [with_it - without for with_it, without in zip(self.beside, self.alone, strict=True)]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all are not above, 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


# -- the client beside ---------------------------------------------------------------------------


def ping(port: int, seconds: float) -> dict[str, float]:
    """Send a message and wait for it, again and again: milliseconds. Raises: Failed."""
    connection = Connection(Loop(), port, name="ping")
    connection.channel()
    connection.declare(QUEUE)
    connection.call(1, 60, 20, b"\x00\x00" + short(QUEUE) + short("one") + b"\x02" + table({}))
    message = publish_bytes(1, "", QUEUE, b"x" * 16)
    sock = connection.sock
    sock.setblocking(True)
    taken: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        sock.sendall(message)
        got = b""
        # Delivery, header and body come in one piece or in several; the body is last.
        while b"x" * 16 + b"\xce" not in got:
            part = sock.recv(65_536)
            if not part:
                raise Failed("the broker has closed the client's connection")
            got += part
        taken.append((time.perf_counter() - began) * 1000)
        time.sleep(PING_S)
    connection.loop.close()
    return {
        "count": len(taken),
        "p50": percentile(taken, 0.5),
        "p99": percentile(taken, 0.99),
        "max": max(taken),
    }


def ping_apart(port: int, seconds: float) -> dict[str, float]:
    """The same in a process of its own, whose time is not shared with who asks over HTTP.
    Raises: Failed."""
    command = [sys.executable, __file__, "--ping", str(port), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    if done.returncode != 0:
        raise Failed(f"the client beside: {done.stderr[-500:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


# -- who asks ------------------------------------------------------------------------------------


class Asker:
    """Sends one request after the other on one connection, on a thread, while it is entered."""

    def __init__(self, port: int, case: Case) -> None:
        self.port = port
        self.case = case
        self.taken_ms: list[float] = []
        self.answer_bytes = 0
        self.fault = ""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> "Asker":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _work(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HTTP_TIMEOUT_S)
        try:
            while not self._end.is_set():
                began = time.perf_counter()
                self.answer_bytes = len(asked(connection, self.case.path))
                taken_s = time.perf_counter() - began
                self.taken_ms.append(taken_s * 1000)
                self._end.wait(max(0.0, self.case.pause_s - taken_s))
        except (OSError, Failed, http.client.HTTPException) as error:
            self.fault = f"GET {self.case.path}: {error}"
        finally:
            connection.close()


def asked(connection: http.client.HTTPConnection, path: str) -> bytes:
    """The body of an answer. Raises: Failed, OSError."""
    connection.request("GET", path, headers={"Authorization": LOGIN})
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise Failed(f"status {answer.status}: {body[:200]!r}")
    return body


# -- a broker with many objects ------------------------------------------------------------------


@contextmanager
def crowded(target: Target, case: Case, has_management: bool) -> Iterator[tuple[Broker, int]]:
    """A broker with the queues and connections of `case`, and the port to ask at, 0 for none.
    Raises: BrokerFailed, Failed."""
    ports = (free_port(), free_port())
    words = ("--http-port", str(ports[0]), "--metrics-port", str(ports[1]))
    options = ("--management", *words) if has_management else ("--no-management",)
    broker = replace(target, arguments=(*target.arguments, *options)).start()
    loop = Loop()
    try:
        maker = Connection(loop, broker.port, name="maker")
        maker.channel()
        for number in range(case.queues):
            name = f"orders.{number:04}"
            maker.declare(name)
            maker.send(publish_bytes(1, "", name, b"x" * 100))
        for number in range(case.connections - 2):
            Connection(loop, broker.port, name=f"client-{number}").channel()
        port = ports[1 if case.is_metrics else 0] if has_management else 0
        if has_management:
            await_http(port, case.path)
        yield broker, port
    finally:
        loop.close()
        broker.stop()


def await_http(port: int, path: str) -> None:
    """Wait until it answers. Raises: Failed."""
    end = time.monotonic() + READY_S
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HTTP_TIMEOUT_S)
        try:
            asked(connection, path)
            return
        except OSError as error:
            if time.monotonic() > end:
                raise Failed(f"the management process does not answer: {error}") from error
            time.sleep(0.1)
        finally:
            connection.close()


# -- measuring -----------------------------------------------------------------------------------


def measured(target: Target, case: Case, options: argparse.Namespace) -> Seen:
    """`repeats` times the client with and without requests. Raises: BrokerFailed, Failed."""
    chance = random.Random(options.seed)
    seen = Seen()
    with ExitStack() as stack:
        broker, port = stack.enter_context(crowded(target, case, True))
        other = broker
        if case.is_paired:
            other, _ = stack.enter_context(crowded(target, case, False))
        ping_apart(broker.port, min(0.2, options.seconds))
        for _ in range(options.repeats):
            for is_asked in chance.sample((True, False), 2):
                if not is_asked:
                    seen.alone.append(ping_apart(other.port, options.seconds)["p99"])
                    continue
                with Asker(port, case) as asker:
                    beside = ping_apart(broker.port, options.seconds)
                if asker.fault:
                    raise Failed(asker.fault)
                seen.beside.append(beside["p99"])
                seen.requests += asker.taken_ms
                seen.answer_bytes = asker.answer_bytes
    return seen


def line(case: Case, seen: Seen) -> str:
    """One row of the report."""
    growth = statistics.median(seen.growth)
    return (
        f"{case.name:<7} {len(seen.requests)} requests of {seen.answer_bytes:,} B: "
        f"p50 {percentile(seen.requests, 0.5):.1f} ms, p99 {percentile(seen.requests, 0.99):.1f}, "
        f"max {max(seen.requests):.1f}; client's p99 alone {statistics.median(seen.alone):.2f} ms "
        f"({min(seen.alone):.2f} to {max(seen.alone):.2f}), beside "
        f"{statistics.median(seen.beside):.2f} ({min(seen.beside):.2f} to {max(seen.beside):.2f}): "
        f"{growth:+.2f} ms ({min(seen.growth):+.2f} to {max(seen.growth):+.2f})   "
        f"{'within' if is_within(case, seen) else 'ABOVE'} {PAGE_MS_MAX:.0f} and "
        f"+{CLIENT_MS_MAX:.0f} ms"
    )


def is_within(case: Case, seen: Seen) -> bool:
    """Whether both promises hold; that about requests is about pages."""
    is_quick = case.is_metrics or percentile(seen.requests, 0.99) <= PAGE_MS_MAX
    return is_quick and statistics.median(seen.growth) <= CLIENT_MS_MAX


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--python", default="", help="interpreter with penstock installed")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="page,scrape")
    parser.add_argument("--path", default="", help="another address to ask for")
    parser.add_argument("--queues", type=int, default=0)
    parser.add_argument("--connections", type=int, default=0)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--ping", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args(words)
    unknown = set(options.only.split(",")) - {case.name for case in CASES}
    if unknown or options.repeats < 1 or options.seconds <= 0:
        parser.error(f"unknown cases {sorted(unknown)}, or a number that makes no sense")
    return options


def cases_of(options: argparse.Namespace) -> list[Case]:
    """Those that were asked for, as large as was asked for."""
    changes: dict[str, Any] = dict(SMOKE) if options.smoke else {}
    for name in ("queues", "connections", "path"):
        if getattr(options, name):
            changes[name] = getattr(options, name)
    return [replace(case, **changes) for case in CASES if case.name in options.only.split(",")]


def main(words: Sequence[str]) -> int:
    """Run it; 0 within the promises, 1 above them, 2 when it cannot run."""
    options = parsed(words)
    if options.ping:
        print(json.dumps(ping(options.ping, options.seconds)))
        return 0
    if options.smoke:
        options.repeats, options.seconds = 1, 0.5
    found: dict[str, object] = {}
    is_good = True
    try:
        target = penstock_target(options.python)
        print(f"{target.version}; {', '.join(f'{key} {val}' for key, val in describe().items())}")
        for case in cases_of(options):
            seen = measured(target, case, options)
            print(line(case, seen), flush=True)
            is_good = is_good and (options.smoke or is_within(case, seen))
            found[case.name] = {
                "requests_ms": seen.requests,
                "client_p99_ms": {"alone": seen.alone, "beside": seen.beside},
            }
    except (BrokerFailed, Failed) as failure:
        print(failure, file=sys.stderr)
        return 2
    finally:
        forget_cache()
    if options.out:
        facts = {"machine": describe(), "version": target.version, "cases": found}
        options.out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
