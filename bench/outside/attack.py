"""What can one client, or one operator's question, do to everybody else?

Beside each attack a ping-pong client sends a message and waits for it, again and again, as it did
for as long before the attack began: its median, 99th percentile and longest pause are the row. The
attacks keep to the documented limits, and run in a process of their own against a broker of their
own. Own sockets, nothing of Penstock's client.

    python bench/outside/attack.py                      # every row, about four minutes
    python bench/outside/attack.py --only topics,bodies --seconds 10
    python bench/outside/attack.py --smoke --json rows.json

The goals, compiled, on two cores: a 99th percentile below 25 ms and no pause of 100 ms; beside junk
on the port of TLS a 99th percentile at most 5 ms above that without it. They are judged in the
table and never fail the program, which ends with 1 when an attack or the ping-pong client could not
do its work.
"""

import argparse
import json
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
from bench.outside.attacks import ATTACKS, BEGUN, TLS_BEHIND, Attacker
from bench.outside.broker import CLI, LiveBroker
from bench.outside.wire import Connection, Failed, Loop, publish_bytes, short, table

GOAL_P99_MS: Final = 25.0
GOAL_MAX_MS: Final = 100.0
PAUSE_S: Final = 0.001
MOVED_P99_MS: Final = 5.0
TLS: Final = ("handshakes",)
ON_DISK: Final = ("fanout", "commits", "rollbacks", "transactions", "leases")


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
        if self.name in TLS:
            is_good = is_good and self.attacked.p99_ms - self.quiet.p99_ms < MOVED_P99_MS
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


def tls_words(name: str, folder: str, port: int) -> list[str]:
    """Options of the broker that the attack `name` is made on. Raises: CalledProcessError."""
    if name not in TLS:
        return []
    certs = Path(folder) / "certs"
    subprocess.run([*CLI, "tls", "selfsigned", str(certs)], check=True, capture_output=True)
    key, cert = str(certs / "server.key"), str(certs / "server.pem")
    return ["--tls-port", str(port + TLS_BEHIND), "--tls-cert", cert, "--tls-key", key]


def measured(name: str, port: int, seconds: float, scale: float) -> Row:
    """One row, with a broker of its own. Raises: Failed."""
    with (
        tempfile.TemporaryDirectory() as folder,
        LiveBroker(
            Path(folder), port, *tls_words(name, folder, port), is_in_memory=name not in ON_DISK
        ) as broker,
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
