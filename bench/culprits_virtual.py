"""Is `why` right, whatever the machine does? The culprits of bench/outside in virtual time.

    python -m bench.culprits_virtual --seeds 200 --out results.jsonl

Programs, kinds and scores are those of bench/outside/culprits; sockets are pipes of the simulator,
the broker runs in this process, and time passes only between its turns. So nothing is a matter of
processors: what is wrong here is wrong in the books or in what is made of them. Left out are the
two kinds that need a disk.
"""

import argparse
import json
import selectors
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from random import Random
from subprocess import CompletedProcess
from typing import Final, TextIO, cast

from bench.outside.broker import LiveBroker
from bench.outside.culprit_kinds import DEPTH_BYTES, KINDS
from bench.outside.culprits import Score, chosen, definitions, play, table
from bench.outside.wire import Connection, Failed, Loop
from penstock.base.clock import ManualClock
from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.admin.alarm_watch import AlarmWatch
from penstock.broker.admin.definitions_import import importing
from penstock.broker.admin.views import actor_snapshots
from penstock.broker.broker import Broker
from penstock.broker.connection.phases import PHASE_OPEN
from penstock.broker.connection.standstill import break_standstill
from penstock.explain.asking import Question, ask_why
from penstock.lab.stage import TOTAL_BYTES, HeldBytesProbe
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.network import (
    SimulatedConnection,
    SimulatedOutput,
    SimulatedShell,
)
from penstock.simulation.world.world import FaultLog
from penstock.telemetry.flight import FlightHistory

STEP_NS: Final = 5_000_000
SECOND_NS: Final = 1_000_000_000
PIPE_BYTES: Final = 262_144
BASE_BYTES: Final = 30_000_000
"""What the broker itself uses, or no mark of memory would be reached."""
PACE: Final = 300.0
CLIENT_NS: Final = 50_000
"""What a client needs to read once: an answer to an answer at once would be no wait."""
SLICE_NS: Final = 1_000_000
WITHOUT: Final = frozenset({"slow_disk", "slow_stream"})
ROUNDS_A_BROKER: Final = 10


class PipeSocket:
    """The client's end of a connection, as far as bench/outside/wire uses a socket."""

    def __init__(self, broker: "VirtualBroker", number: int) -> None:
        self.broker = broker
        self.number = number
        self.timeout: float | None = 20.0
        self.link = SimulatedConnection(f"10.0.0.1:{number}", PIPE_BYTES, PIPE_BYTES)
        inner = broker.inner
        self.link.output = SimulatedOutput(
            inner.scheduler.outputs, inner.config.socket_output_high_bytes, self.link.down
        )
        self.link.shell = SimulatedShell(inner, self.link)

    def send(self, data: bytes) -> int:
        """Raises: BlockingIOError while the pipe is full."""
        left = self.link.up.put(data)
        if len(left) == len(data):
            raise BlockingIOError
        return len(data) - len(left)

    def sendall(self, data: bytes) -> None:
        """What is said before the connection is open, which is little."""
        assert not self.link.up.put(data), "a greeting fits into the pipe"

    def recv(self, size: int) -> bytes:
        """Raises: BlockingIOError while there is nothing, unless it may wait."""
        link = self.link
        while self.timeout != 0.0 and not len(link.down) and not link.down.is_ended:
            self.broker.pass_time()
        if len(link.down) or link.down.is_ended:
            return link.down.take(size)
        raise BlockingIOError

    def setblocking(self, is_blocking: bool) -> None:
        self.timeout = 20.0 if is_blocking else 0.0

    def gettimeout(self) -> float | None:
        return self.timeout

    def setsockopt(self, level: int, name: int, value: int) -> None:
        """Pipes have one size."""

    def getsockname(self) -> tuple[str, int]:
        return "10.0.0.1", self.number

    def close(self) -> None:
        self.link.vanish(False)


class Registered:
    """What a loop is told of its sockets, as a selector is."""

    def __init__(self) -> None:
        self.connections: dict[PipeSocket, tuple[int, Connection]] = {}

    def register(self, sock: PipeSocket, events: int, connection: Connection) -> None:
        self.connections[sock] = (events, connection)

    modify = register

    def unregister(self, sock: PipeSocket) -> None:
        del self.connections[sock]

    def close(self) -> None:
        self.connections.clear()


class VirtualLoop(Loop):
    """Serves clients in virtual time."""

    def __init__(self, broker: "VirtualBroker") -> None:
        super().__init__()
        self.selector.close()
        self.registered = Registered()
        self.selector = cast(selectors.DefaultSelector, self.registered)
        self.broker = broker

    def now(self) -> float:
        return self.broker.clock.monotonic_ns() / SECOND_NS

    def connect(self, port: int, timeout: float) -> socket.socket:
        return cast(socket.socket, self.broker.accept())

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> float:
        began = self.now()
        while self.now() - began < seconds and not until():
            for call in self.before:
                call(self.now())
            self._serve()
            for call in self.after:
                call(self.now())
            self.broker.pass_time()
        self._serve()
        return self.now() - began

    def _serve(self) -> None:
        """Until nothing can be read or written any more."""
        is_moving = True
        while is_moving:
            is_moving = self.broker.serve()
            for sock, (events, connection) in list(self.registered.connections.items()):
                link = sock.link
                if events & selectors.EVENT_READ and (len(link.down) or link.down.is_ended):
                    connection.readable()
                    self.broker.clock.advance(CLIENT_NS)
                    is_moving = True
                if events & selectors.EVENT_WRITE and link.up.room() > 0:
                    connection.flush()
                    is_moving = True


class VirtualProbe(HeldBytesProbe):
    """A machine on which the broker itself uses BASE_BYTES."""

    def memory_used_bytes(self) -> int:
        return BASE_BYTES + super().memory_used_bytes()


class VirtualBroker(LiveBroker):
    """A broker in this process, asked as bench/outside asks one that runs by itself."""

    def __init__(self, profile: str, seed: int) -> None:
        self.loop = None
        self.port = 5672
        self.clock = ManualClock()
        self.log_book = FaultLog()
        self.dice = Dice(seed)
        config = Config(profile=profile, queue_depth_bytes=DEPTH_BYTES, heartbeat_s=0)
        self.inner = Broker(config, self.clock, self.dice, self.log_book, TOTAL_BYTES)
        self.watch = AlarmWatch(self.inner, VirtualProbe(self.inner))
        self.watch.set_memory_high("60%")
        self.history = FlightHistory()
        self.sockets: list[PipeSocket] = []
        self.numbers = 0
        self.second_ns = self.clock.monotonic_ns()

    def stop(self) -> None:
        """Nothing runs on by itself."""

    def make_loop(self) -> Loop:
        return VirtualLoop(self)

    def accept(self) -> PipeSocket:
        self.numbers += 1
        found = PipeSocket(self, self.numbers)
        self.sockets.append(found)
        return found

    # -- time ------------------------------------------------------------------------------------

    def serve(self) -> bool:
        """Let the broker do what it can now; whether it read or wrote anything."""
        is_moving = False
        while self.inner.scheduler.run(SLICE_NS):
            pass
        for sock in self.sockets:
            shell = sock.link.shell
            if shell.is_readable():
                shell.readable(self.dice)
                is_moving = True
            if shell.output.is_writable():
                shell.output.writable()
                is_moving = True
        while self.inner.scheduler.run(SLICE_NS):
            pass
        self.sockets = [one for one in self.sockets if not one.link.shell.is_closed]
        if self.log_book.errors:
            raise Failed(self.log_book.errors[0])
        return is_moving

    def pass_time(self) -> None:
        """A step, with what falls due in it."""
        self.serve()
        self.clock.advance(STEP_NS)
        now_ns = self.clock.monotonic_ns()
        self.inner.dues.fire(now_ns)
        if now_ns - self.second_ns >= SECOND_NS:
            self.second_ns = now_ns
            self.look()

    def look(self) -> None:
        """What a node does once a second."""
        inner, now_ns = self.inner, self.clock.monotonic_ns()
        for connection in list(inner.connections.values()):
            if connection.phase == PHASE_OPEN:
                break_standstill(connection, now_ns)
        inner.watch_hops(now_ns)
        inner.notify_clients(now_ns)
        self.watch.check_memory()
        self.watch.check_disk()
        self.serve()
        if (self.history.newest_ns() or 0) < now_ns:
            self.history.push(now_ns, actor_snapshots(inner))

    # -- asking ----------------------------------------------------------------------------------

    def command(self, *words: str) -> "CompletedProcess[str]":
        """`flow set`, `queues pause`, `queues resume`, `definitions import`."""
        error = ""
        try:
            self._do(list(words))
        except (OperatorError, KeyError) as fault:
            error = str(fault)
        self.serve()
        return CompletedProcess(words, 1 if error else 0, "", error)

    def _do(self, words: list[str]) -> None:
        if words[:2] == ["flow", "set"]:
            key, _, value = words[2].partition("=")
            if key == "memory.high":
                self.watch.set_memory_high(value)
            elif key == "disk.free_min":
                self.watch.set_disk_free_min(value)
            else:
                self.inner.settings.write(key, value)
        elif words[0] == "queues" and words[1] in ("pause", "resume"):
            queue = words[2].removeprefix("/")
            self.inner.vhosts["/"].queues[queue].pause(words[1] == "pause")
        elif words[:2] == ["definitions", "import"]:
            for _ in importing(self.inner, json.loads(Path(words[2]).read_text())):
                pass
        else:
            raise OperatorError(f"cannot do {' '.join(words)}")

    def why(self, *words: str, window_s: float) -> dict[str, object]:
        """As LiveBroker. Raises: OperatorError."""
        self.look()
        answer = ask_why(self.history, Question(words[0], words[1], window_s))
        return cast(dict[str, object], json.loads(json.dumps(answer.explanation)))


def pairs_of(seeds: range, only: str) -> list[tuple[str, str]]:
    """What each seed chooses. only: this kind instead of the first, "" for none."""
    kinds = [kind for kind in KINDS if kind not in WITHOUT]
    pairs = [chosen(Random(-seed - 1), kinds) for seed in seeds]
    return [(only, second) for _, second in pairs] if only else pairs


def run(
    seeds: range, pairs: list[tuple[str, str]], profile: str, pace: float, out: TextIO | None
) -> list[Score]:
    """Every seed; a broker of its own for each ROUNDS_A_BROKER. pairs: of the seeds, in order."""
    scores: list[Score] = []
    for at in range(0, len(seeds), ROUNDS_A_BROKER):
        broker = VirtualBroker(profile, seeds[at])
        with tempfile.TemporaryDirectory() as folder:
            done = broker.command("definitions", "import", str(definitions(Path(folder))))
        if done.returncode != 0:
            raise Failed(done.stderr)
        for index in range(at, min(at + ROUNDS_A_BROKER, len(seeds))):
            for score in play(broker, [seeds[index]], [pairs[index]], pace):
                scores.append(score)
                if out is not None:
                    out.write(json.dumps({**asdict(score), "right": score.is_right()}) + "\n")
                    out.flush()
    return scores


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--profile", default="penstock")
    parser.add_argument("--pace", type=float, default=PACE, help="messages a second of a victim")
    parser.add_argument("--only", default="", help="this kind beside random ones")
    parser.add_argument("--out", help="a line of JSON for each answer")
    asked = parser.parse_args(arguments)
    seeds = range(asked.first, asked.first + asked.seeds)
    pairs = pairs_of(seeds, asked.only)
    if asked.out is None:
        scores = run(seeds, pairs, asked.profile, asked.pace, None)
    else:
        with open(asked.out, "w") as out:
            scores = run(seeds, pairs, asked.profile, asked.pace, out)
    print(table(scores))
    wrong = [one for one in scores if not one.is_right()]
    for one in wrong:
        print(json.dumps(asdict(one)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
