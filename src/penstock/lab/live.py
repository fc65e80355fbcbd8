"""One workload under one profile against a running broker, both in processes of their own.

    broker   `penstock serve` on a free port with the slow queues, events and samples of lab/stage
    peers    all programs; told when to begin; sends what it saw      (peers_process)
Both are started here and ended here, by their own handles, whatever happens.
"""

import asyncio
import gc
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Final

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.lab.live_child import OF_TERMINALS
from penstock.lab.peers_process import Go, Ready, play
from penstock.lab.result import LIVE, Memory, PeerTally, Result, result_of
from penstock.lab.run import config_of
from penstock.lab.stage import LOOK_NS, BrokerStage
from penstock.lab.workload import Workload
from penstock.server.boot.node import Node
from penstock.server.machine.machine import resident_bytes
from penstock.simulation.world.world import FaultLog

LOOK_S: Final = LOOK_NS / 1e9
RSS_S: Final = 0.05
RECEIVE_BUFFER_BYTES: Final = 65_536
"""Accepted sockets inherit it. The system would let buffers grow to megabytes, and what waits there
for longer than a run lasts would not be seen by it."""
NS_PER_S: Final = 1_000_000_000
PATIENCE_S: Final = 60.0
"""How long an answer may take beyond the time it is expected at."""
LEAD_NS: Final = 100_000_000


PREPARE: Final = "prepare"
END: Final = "end"
STOP: Final = "stop"


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
        self.log = FaultLog()
        self.rss_first = 0
        self.rss_most = 0
        self.is_over = asyncio.Event()

    async def run(self) -> None:
        """Until STOP."""
        self.loop = asyncio.get_running_loop()
        self.node = Node(self.config, self.loop, self.log)
        self.stage = BrokerStage(self.node.broker, self.workload)
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
        elif isinstance(command, Go):
            self.stage.begin(command.start_ns)
            self.pipe.send(True)
        elif command == END:
            stage = self.stage
            rss = max(0, self.rss_most - self.rss_first)
            alarm_s = stage.alarm_ns / NS_PER_S
            memory = Memory(stage.bytes_max, list(stage.bins), alarm_s, rss)
            self.pipe.send((memory, list(self.log.errors)))
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


class LabProcess:
    """One process of ours and the pipe to it."""

    def __init__(self, name: str, work: Callable[..., None], *arguments: object) -> None:
        context = get_context("spawn")
        self.name = name
        self.pipe: Pipe
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(*arguments, theirs), daemon=True)
        # Ctrl-C is for the command, which then ends this process: what is ignored is inherited.
        before = {number: signal.signal(number, signal.SIG_IGN) for number in OF_TERMINALS}
        try:
            self.process.start()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        theirs.close()

    def tell(self, what: object) -> None:
        """Raises: OperatorError when it is not there any more."""
        try:
            self.pipe.send(what)
        except OSError:
            raise OperatorError(f"lab: {self.name} ended unexpectedly") from None

    def answer(self, seconds: float) -> object:
        """What it says next. Raises: OperatorError when it fails or says nothing in time."""
        wait_s = seconds + PATIENCE_S
        try:
            if not self.pipe.poll(wait_s):
                raise OperatorError(f"lab: {self.name} did not answer within {wait_s:.0f} s")
            said: object = self.pipe.recv()
        except (EOFError, OSError):
            raise OperatorError(f"lab: {self.name} ended unexpectedly") from None
        if isinstance(said, str):
            raise OperatorError(f"lab: {self.name} failed: {said}")
        return said

    def end(self) -> None:
        """Ask it to end, then make it."""
        # It may have ended already, which is all that is wanted.
        with suppress(OSError):
            self.pipe.send(STOP)
        self.process.join(5.0)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(5.0)
        self.pipe.close()


def measure_alone(workload: Workload, seed: int) -> Result | None:
    """Its innocent traffic alone, without flow control; None when it has none."""
    if not workload.has_innocents():
        return None
    return measure(workload.alone(), "none", seed, None)


def measure(workload: Workload, profile: str, seed: int, alone: Result | None) -> Result:
    """One run. Raises: OperatorError when a process fails or does not answer."""
    children: list[LabProcess] = []
    try:
        broker = LabProcess("the broker", serve, config_of(workload, profile), workload)
        children.append(broker)
        port = broker.answer(0.0)
        peers = LabProcess("the programs", play, workload, seed, port)
        children.append(peers)
        peers.answer(0.0)
        broker.tell(PREPARE)
        broker.answer(0.0)
        start_ns = time.monotonic_ns() + LEAD_NS
        from_ns = start_ns + int(workload.warm_up_s * NS_PER_S)
        length_ns = int(workload.seconds * NS_PER_S)
        go = Go(start_ns, from_ns, from_ns + length_ns, from_ns + 2 * length_ns)
        broker.tell(go)
        broker.answer(0.0)
        peers.tell(go)
        said = peers.answer(workload.warm_up_s + workload.seconds)
        assert isinstance(said, Ready), "the measured stretch is over"
        broker.tell(END)
        held = broker.answer(0.0)
        assert isinstance(held, tuple), "the broker answers END with what it held, and its failures"
        tally = peers.answer(workload.seconds)
        assert isinstance(tally, PeerTally), "the programs end with what they saw"
    finally:
        for child in reversed(children):
            child.end()
    memory, failures = held
    if failures:
        raise OperatorError(f"lab: the broker reported: {failures[0]}")
    return result_of(workload, profile, LIVE, seed, tally, memory, alone)
