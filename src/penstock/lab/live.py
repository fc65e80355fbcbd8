"""One workload under one profile against a running broker, both in processes of their own.

    broker   declares nothing, serves; told when to begin and end     (broker_process)
    peers    all programs; told when to begin; sends what it saw      (peers_process)
Both are started here and ended here, by their own handles, whatever happens.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from typing import Final

from penstock.base.errors import OperatorError
from penstock.lab.broker_process import END, PREPARE, STOP, Begin, Held, serve
from penstock.lab.peers_process import Go, Ready, play
from penstock.lab.result import LIVE, Memory, Result, result_of
from penstock.lab.run import config_of
from penstock.lab.tally import Tally
from penstock.lab.workload import Workload

NS_PER_S: Final = 1_000_000_000
PATIENCE_S: Final = 60.0
"""How long an answer may take beyond the time it is expected at."""
LEAD_NS: Final = 100_000_000


class Child:
    """One process of ours and the pipe to it."""

    def __init__(self, name: str, work: Callable[..., None], *arguments: object) -> None:
        context = get_context("spawn")
        self.name = name
        self.pipe: Pipe
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(*arguments, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def answer(self, seconds: float) -> object:
        """What it says next. Raises: OperatorError when it fails or says nothing in time."""
        try:
            if not self.pipe.poll(seconds + PATIENCE_S):
                raise OperatorError(f"lab: {self.name} did not answer in {seconds:.0f} s")
            said: object = self.pipe.recv()
        except EOFError:
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
    children: list[Child] = []
    try:
        broker = Child("the broker", serve, config_of(workload, profile), workload)
        children.append(broker)
        port = broker.answer(0.0)
        peers = Child("the programs", play, workload, seed, port)
        children.append(peers)
        peers.answer(0.0)
        broker.pipe.send(PREPARE)
        broker.answer(0.0)
        start_ns = time.monotonic_ns() + LEAD_NS
        from_ns = start_ns + int(workload.warm_up_s * NS_PER_S)
        length_ns = int(workload.seconds * NS_PER_S)
        go = Go(start_ns, from_ns, from_ns + length_ns, from_ns + 2 * length_ns)
        broker.pipe.send(Begin(start_ns))
        broker.answer(0.0)
        peers.pipe.send(go)
        said = peers.answer(workload.warm_up_s + workload.seconds)
        assert isinstance(said, Ready), "the measured stretch is over"
        broker.pipe.send(END)
        held = broker.answer(0.0)
        assert isinstance(held, Held), "the broker answers END with what it held"
        tally = peers.answer(workload.seconds)
        assert isinstance(tally, Tally), "the programs end with what they saw"
    finally:
        for child in reversed(children):
            child.end()
    if held.failures:
        raise OperatorError(f"lab: the broker reported: {held.failures[0]}")
    memory = Memory(held.bytes_max, held.bins, held.alarm_ns / NS_PER_S, held.rss_bytes)
    return result_of(workload, profile, LIVE, seed, tally, memory, alone)
