"""A running broker for the lab: `penstock serve` in a process of its own, with slow queues.

The same node as the server's, on a free port. What the lab adds is what the simulator adds too (see
lab/stage): queues that need time for each message, events, and samples of what is held.
"""

import asyncio
import gc
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Final

from penstock.base.config import Config
from penstock.broker.broker import Log
from penstock.lab.stage import LOOK_NS, Stage
from penstock.lab.workload import Workload
from penstock.server.boot.node import Node
from penstock.server.machine.machine import resident_bytes

LOOK_S: Final = LOOK_NS / 1e9
RSS_S: Final = 0.05
RECEIVE_BUFFER_BYTES: Final = 65_536
"""Accepted sockets inherit it. The system would let buffers grow to megabytes, and what waits there
for longer than a run lasts would not be seen by it."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The programs begin at `start_ns` of the machine's monotonic clock."""

    start_ns: int


@dataclass(frozen=True, slots=True)
class Held:
    """What the broker held in the measured stretch; see Stage. rss_bytes: growth of its process."""

    bytes_max: int
    bins: list[int]
    alarm_ns: int
    rss_bytes: int
    failures: list[str]


PREPARE: Final = "prepare"
END: Final = "end"
STOP: Final = "stop"


class FailureLog(Log):
    """Keeps what went wrong in the broker; the rest says nothing about a run."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def error(self, text: str, error: BaseException) -> None:
        self.failures.append(f"{text}: {type(error).__name__}: {error}")


def serve(config: Config, workload: Workload, pipe: Pipe) -> None:
    """Be the broker until STOP comes, or the other end of `pipe` is gone. First the port is sent;
    then every command is answered."""
    with tempfile.TemporaryDirectory(prefix="penstock-lab-") as folder:
        control = str(Path(folder) / "control")
        asyncio.run(
            LabBroker(replace(config, port=0, control_socket=control), workload, pipe).run()
        )


class LabBroker:
    """One node and its stage, driven by commands."""

    def __init__(self, config: Config, workload: Workload, pipe: Pipe) -> None:
        self.config = config
        self.workload = workload
        self.pipe = pipe
        self.log = FailureLog()
        self.rss_first = 0
        self.rss_most = 0
        self.is_over = asyncio.Event()

    async def run(self) -> None:
        """Until STOP."""
        self.loop = asyncio.get_running_loop()
        self.node = Node(self.config, self.loop, self.log)
        self.stage = Stage(self.node.broker, self.workload)
        # What counts as memory here is what the broker holds, the same as in the simulator.
        self.node.watch = self.stage.watch
        await self.node.start()
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 1000)
        sys.setswitchinterval(0.0005)
        listener = self.node.listener
        assert listener is not None, "a node that has started listens"
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self.loop.add_reader(self.pipe.fileno(), self._command)
        self.pipe.send(listener.port)
        await self.is_over.wait()
        self.loop.remove_reader(self.pipe.fileno())
        await self.node.stop()

    def _command(self) -> None:
        try:
            command = self.pipe.recv()
        except EOFError:
            command = STOP
        if command == STOP:
            self.is_over.set()
            return
        now_ns = self.node.clock.monotonic_ns()
        if command == PREPARE:
            self.stage.prepare(now_ns)
            self._every(LOOK_S, self._look)
            self.rss_first = resident_bytes()
            self._every(RSS_S, self._see_memory)
            self.pipe.send(True)
        elif isinstance(command, Begin):
            self.stage.begin(command.start_ns)
            self.pipe.send(True)
        elif command == END:
            stage = self.stage
            rss = max(0, self.rss_most - self.rss_first)
            failures = list(self.log.failures)
            self.pipe.send(Held(stage.bytes_max, list(stage.bins), stage.alarm_ns, rss, failures))
            stage.end(now_ns)
            self.node.poller.request()

    def _every(self, seconds: float, work: Callable[[], None]) -> None:
        def again() -> None:
            if not self.is_over.is_set():
                self.loop.call_later(seconds, again)
                work()

        again()

    def _look(self) -> None:
        now_ns = self.node.clock.monotonic_ns()
        if now_ns >= self.stage.start_ns:
            self.stage.look(now_ns)
            self.node.poller.request()

    def _see_memory(self) -> None:
        self.rss_most = max(self.rss_most, resident_bytes())
