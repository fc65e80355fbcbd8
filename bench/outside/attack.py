"""What can one client, or one operator's question, do to everybody else?

Beside each attack a ping-pong client sends a message and waits for it, again and again, as it did
for as long before the attack began: its median, 99th percentile and longest pause are the row. The
attacks keep to the documented limits, and run in a process of their own against a broker of their
own. Own sockets, nothing of Penstock's client.

    python bench/outside/attack.py                      # every row, about four minutes
    python bench/outside/attack.py --only topics,bodies --seconds 10
    python bench/outside/attack.py --smoke --json rows.json

The goals, compiled, on two cores: a 99th percentile below 25 ms and no pause of 100 ms. They are
judged in the table and never fail the program, which ends with 1 when an attack or the ping-pong
client could not do its work.
"""

import argparse
import json
import random
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.machine import describe
from bench.outside.broker import LiveBroker
from bench.outside.wire import (
    FRAME_BODY,
    FRAME_HEADER,
    Connection,
    Failed,
    Loop,
    frame,
    method,
    publish_bytes,
    short,
    table,
)
from penstock.server.control.control_client import ask

GOAL_P99_MS: Final = 25.0
GOAL_MAX_MS: Final = 100.0
PAUSE_S: Final = 0.001
BEGUN: Final = "begun"
MIB: Final = 1 << 20
NO_ARGUMENTS: Final = b"\x00" + table({})
"""No wait, and an empty table."""


class Attacker:
    """One attack. scale: of its numbers, 1.0 for the documented ones; until: monotonic seconds at
    which it ends; control: the broker's control socket."""

    def __init__(self, port: int, control: str, seconds: float, scale: float) -> None:
        self.port = port
        self.control = control
        self.scale = scale
        self.seconds = seconds
        self.until = 0.0
        self.loop = Loop()
        self.dice = random.Random(1)

    def connect(self, channels: int = 1) -> Connection:
        """A connection with channels open."""
        made = Connection(self.loop, self.port)
        for number in range(1, channels + 1):
            made.channel(number)
        return made

    def count(self, full: int) -> int:
        """So many, in this scale."""
        return max(4, round(full * self.scale))

    def begin(self) -> None:
        """What was got ready is there: the attack is on from here."""
        self.until = time.monotonic() + self.seconds
        print(BEGUN, flush=True)

    def is_on(self) -> bool:
        return time.monotonic() < self.until

    def push(self, connection: Connection, data: bytes) -> None:
        """Send, and wait while too much is unsent or until the attack is over."""
        connection.send(data)
        self.loop.run(
            1.0 if connection.outbox_bytes > MIB else 0.0,
            lambda: connection.outbox_bytes < MIB or bool(connection.closed),
        )

    def flush(self, connection: Connection) -> None:
        """Until all is sent and something has come back, or the attack is over."""
        self.loop.run(30.0, lambda: not connection.outbox or bool(connection.closed))


def topics(it: Attacker) -> int:
    """Patterns of random `#`, `*` and words; a new key for each publish."""
    link = it.connect()
    link.call(1, 40, 10, bytes(2) + short("t") + short("topic") + NO_ARGUMENTS)
    link.declare("matched", arguments={"x-max-length": 10})
    for _ in range(it.count(3000)):
        words = [it.dice.choice(("#", "*", "a", "b")) for _ in range(20)]
        pattern = short(".".join(words))
        link.call(1, 50, 20, bytes(2) + short("matched") + short("t") + pattern + NO_ARGUMENTS)
    it.begin()
    sent = 0
    while it.is_on() and not link.closed:
        key = ".".join(it.dice.choice("ab") for _ in range(30))
        it.push(link, publish_bytes(1, "t", key, b"x"))
        sent += 1
    return sent


def headers(it: Attacker) -> int:
    """Bindings with as many arguments as there may be, and messages that agree with nearly all."""
    link = it.connect()
    link.call(1, 40, 10, bytes(2) + short("h") + short("headers") + NO_ARGUMENTS)
    link.declare("matched", arguments={"x-max-length": 10})
    values: dict[str, str | int | bool] = {f"k{number}": number for number in range(250)}
    for number in range(it.count(700)):
        one = table({**values, "last": number})
        link.call(1, 50, 20, bytes(2) + short("matched") + short("h") + short("") + b"\x00" + one)
    it.begin()
    properties = struct.pack(">H", 0x2000) + table({**values, "last": -1})
    message = method(1, 60, 40, bytes(2) + short("h") + short("") + b"\x00")
    message += frame(FRAME_HEADER, 1, struct.pack(">HHQ", 60, 0, 1) + properties)
    message += frame(FRAME_BODY, 1, b"x")
    sent = 0
    while it.is_on() and not link.closed:
        it.push(link, message)
        sent += 1
    return sent


def bodies(it: Attacker) -> int:
    """60 channels with 16 MiB each, one frame short."""
    channels = it.count(60)
    link = it.connect(channels)
    it.begin()
    piece = frame(FRAME_BODY, 1, b"z" * 131_000)[7:]
    sent = 0
    for number in range(1, channels + 1):
        head = method(number, 60, 40, bytes(2) + short("") + short("nowhere") + b"\x00")
        it.push(link, head + frame(FRAME_HEADER, number, struct.pack(">HHQH", 60, 0, 16 * MIB, 0)))
        for _ in range(16 * MIB // 131_000):
            if not it.is_on() or link.closed:
                return sent
            it.push(link, struct.pack(">BHI", FRAME_BODY, number, 131_000) + piece)
            sent += 1
    it.loop.run(max(0.0, it.until - time.monotonic()))
    return sent


def questions(it: Attacker) -> int:
    """Every question at once, of a broker with many queues and connections."""
    link = it.connect()
    for number in range(it.count(20_000)):
        link.declare(f"asked.{number}")
    others = [it.connect() for _ in range(it.count(500))]
    it.begin()
    asked = 0
    while it.is_on() and not link.closed:
        questions: tuple[dict[str, object], ...] = (
            {"op": "why", "subject": "", "name": ""},
            {"op": "queues", "do": "list", "vhost": "/", "sort": "ready", "limit": 1000},
            {"op": "flow", "do": "accounts", "vhost": "", "limit": 1000},
            {"op": "flow", "do": "edges", "vhost": "", "limit": 1000},
            {"op": "status"},
        )
        for question in questions:
            try:
                ask(it.control, question)
            except Exception as refused:
                print(f"{question['op']}: {refused}", file=sys.stderr)
            asked += 1
    return asked + len(others)


def consumers(it: Attacker) -> int:
    """Consumers on one queue, and all of them gone at once."""
    link = it.connect()
    link.declare("consumed")
    it.begin()
    made = 0
    while it.is_on() and made < it.count(60_000) and not link.closed:
        arguments = bytes(2) + short("consumed") + short(f"c{made}") + b"\x02" + table({})
        it.push(link, method(1, 60, 20, arguments))
        made += 1
    link.drop()
    it.loop.run(max(0.0, it.until - time.monotonic()))
    return made


def declares(it: Attacker) -> int:
    """Queues, as many as come in."""
    link = it.connect()
    it.begin()
    made = 0
    while it.is_on() and made < it.count(300_000) and not link.closed:
        it.push(link, method(1, 50, 10, bytes(2) + short(f"d{made}") + b"\x10" + table({})))
        made += 1
    it.flush(link)
    return made


def exclusive(it: Attacker) -> int:
    """Exclusive queues that all end with their connection."""
    link = it.connect()
    made = 0
    for made in range(it.count(100_000)):
        it.push(link, method(1, 50, 10, bytes(2) + short(f"e{made}") + b"\x14" + table({})))
    it.flush(link)
    link.call(1, 50, 10, bytes(2) + short("e0") + b"\x05" + table({}))
    it.begin()
    link.drop()
    it.loop.run(max(0.0, it.until - time.monotonic()))
    return made


def fanout(it: Attacker) -> int:
    """Persistent messages into durable queues, each with one publish."""
    link = it.connect()
    link.call(1, 40, 10, bytes(2) + short("f") + short("fanout") + b"\x02" + table({}))
    for number in range(it.count(10_000)):
        name = f"f{number}"
        link.declare(name, durable=True, arguments={"x-max-length": 10})
        link.call(1, 50, 20, bytes(2) + short(name) + short("f") + short("") + NO_ARGUMENTS)
    confirms = it.connect()
    confirms.call(1, 85, 10, b"\x00")
    answered: list[bytes] = []
    confirms.handlers[(1, 60, 80)] = answered.append
    it.begin()
    sent = 0
    while it.is_on() and not confirms.closed:
        confirms.send(publish_bytes(1, "f", "", b"x" * 100, is_persistent=True))
        sent += 1
        it.loop.run(60.0, lambda: bool(answered) or bool(confirms.closed))
        answered.clear()
    return sent


def guessing(it: Attacker) -> int:
    """Wrong passwords, 50 sockets at a time."""
    it.begin()
    tried = 0
    while it.is_on():
        some: list[socket.socket] = []
        for _ in range(it.count(50)):
            try:
                sock = socket.create_connection(("127.0.0.1", it.port), 2.0)
                sock.sendall(b"AMQP\x00\x00\x09\x01")
                response = b"\x00guest\x00wrong"
                sock.sendall(
                    method(
                        0, 10, 11,
                        struct.pack(">I", 0) + short("PLAIN") + struct.pack(">I", len(response))
                        + response + short("en_US"),
                    )
                )  # fmt: skip
            except OSError:
                continue
            some.append(sock)
            tried += 1
        time.sleep(0.3)
        for sock in some:
            sock.close()
    return tried


def backlog(it: Attacker) -> int:
    """A backlog of many small messages that is purged in one go."""
    link = it.connect()
    link.declare("big")
    sent = it.count(300_000)
    for _ in range(sent):
        it.push(link, publish_bytes(1, "", "big", b"x" * 1000))
    it.flush(link)
    link.call(1, 50, 10, bytes(2) + short("big") + b"\x01" + table({}))
    it.begin()
    link.call(1, 50, 30, bytes(2) + short("big") + b"\x00")
    it.loop.run(max(0.0, it.until - time.monotonic()))
    return sent


ATTACKS: Final[dict[str, Callable[[Attacker], int]]] = {
    one.__name__: one
    for one in (
        *(topics, headers, bodies, questions, consumers, declares, exclusive, fanout),
        *(guessing, backlog),
    )
}


@dataclass(frozen=True, slots=True)
class Times:
    """Of the ping-pong client, in milliseconds. count: messages that came back."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class Row:
    """One attack. did: what it counts; rss_mb: of the broker, before it and the most during it."""

    name: str
    quiet: Times
    attacked: Times
    did: int
    rss_mb: tuple[float, float]

    def verdict(self) -> str:
        is_good = self.attacked.p99_ms < GOAL_P99_MS and self.attacked.max_ms < GOAL_MAX_MS
        return "good" if is_good else "ABOVE THE GOAL"


class PingPong:
    """Sends a message to its own queue and waits until it is back."""

    def __init__(self, port: int) -> None:
        self.loop = Loop()
        self.link = Connection(self.loop, port)
        self.link.channel(1)
        self.link.declare("ping")
        self.link.body_done[1] = self._came
        self.link.handlers[(1, 60, 60)] = _nothing
        self.link.call(1, 60, 20, bytes(2) + short("ping") + short("p") + b"\x02" + table({}))
        self.is_back = False
        self.rss_mb = 0.0

    def _came(self) -> None:
        self.is_back = True

    def play(self, until: Callable[[], bool], pid: int) -> Times:
        """Until then; how long it took each time. Raises: Failed."""
        found: list[float] = []
        self.rss_mb = 0.0
        message = publish_bytes(1, "", "ping", b"ping")
        while not until():
            self.is_back = False
            began = time.perf_counter()
            self.link.send(message)
            self.loop.run(120.0, lambda: self.is_back or bool(self.link.closed))
            found.append((time.perf_counter() - began) * 1000)
            if not self.is_back:
                raise Failed(f"ping-pong: {self.link.closed or 'no answer for 120 s'}")
            self.rss_mb = max(self.rss_mb, rss_mb(pid))
            time.sleep(PAUSE_S)
        found.sort()
        count = len(found)
        return Times(count, found[count // 2], found[int(count * 0.99)], found[-1])


def _nothing(_arguments: bytes) -> None:
    """A delivery has begun."""


def rss_mb(pid: int) -> float:
    """Resident memory, MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def measured(name: str, port: int, seconds: float, scale: float) -> Row:
    """One row, with a broker of its own. Raises: Failed."""
    with (
        tempfile.TemporaryDirectory() as folder,
        LiveBroker(Path(folder), port, is_in_memory=name != "fanout") as broker,
    ):
        pid = broker.process.pid
        words = [sys.executable, __file__, "--attack", name, "--port", str(port)]
        words += ["--control", str(broker.control), "--seconds", str(seconds)]
        words += ["--scale", str(scale)]
        player = PingPong(port)
        end = time.monotonic() + seconds
        quiet = player.play(lambda: time.monotonic() > end, pid)
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as attack:
            assert attack.stdout is not None, "it is a pipe"
            if attack.stdout.readline().strip() != BEGUN:
                raise Failed(f"{name} did not begin")
            before = rss_mb(pid)
            attacked = player.play(lambda: attack.poll() is not None, pid)
            did = attack.stdout.read().split()
        if attack.returncode != 0 or not did:
            raise Failed(f"{name} ended with {attack.returncode}")
        player.loop.close()
        return Row(name, quiet, attacked, int(did[-1]), (before, player.rss_mb))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default="", help=f"some of {','.join(ATTACKS)}")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each attack (8)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the attacks' numbers (1)")
    parser.add_argument("--port", type=int, default=5860)
    parser.add_argument("--json", type=Path, help="write the rows there")
    parser.add_argument("--smoke", action="store_true", help="a second and a fiftieth of each")
    parser.add_argument("--attack", default="", help=argparse.SUPPRESS)
    parser.add_argument("--control", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.smoke:
        options.seconds, options.scale = 1.0, 0.02
    if options.attack:
        attacker = Attacker(options.port, options.control, options.seconds, options.scale)
        print(ATTACKS[options.attack](attacker), flush=True)
        return 0
    names = options.only.split(",") if options.only else list(ATTACKS)
    unknown = [name for name in names if name not in ATTACKS]
    if unknown:
        parser.error(f"no attack {', '.join(unknown)}; there are {', '.join(ATTACKS)}")
    machine = describe()
    print(", ".join(f"{key} {value}" for key, value in machine.items()), end="\n\n", flush=True)
    print(
        f"{'attack':<10} {'p50/p99/max quiet, ms':>24} {'p50/p99/max attacked, ms':>26}"
        "    did  RSS MB"
    )
    rows: list[Row] = []
    faults = 0
    for name in names:
        try:
            row = measured(name, options.port, options.seconds, options.scale)
        except Failed as failure:
            print(f"{name:<10} FAILED: {failure}", flush=True)
            faults += 1
            continue
        rows.append(row)
        quiet, hit = row.quiet, row.attacked
        calm = f"{quiet.p50_ms:.2f} / {quiet.p99_ms:.2f} / {quiet.max_ms:.1f}"
        hard = f"{hit.p50_ms:.2f} / {hit.p99_ms:.2f} / {hit.max_ms:.1f}"
        rss = f"{row.rss_mb[0]:.0f} to {row.rss_mb[1]:.0f}"
        print(f"{name:<10} {calm:>24} {hard:>26} {row.did:>6}  {rss}  {row.verdict()}", flush=True)
    if options.json:
        found = {"machine": machine, "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(found, indent=1, default=str) + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
