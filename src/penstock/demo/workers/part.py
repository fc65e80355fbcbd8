"""What all workers of the run share: plan, clock, trace file, and talking with the run.

A worker prints one JSON object a line: its numbers, first when it is connected. It reads "go T"
from its input, T in monotonic nanoseconds, and ends when its input ends.

The trace file of a client says which message reached which stage when. Lines are gathered in memory
and written in blocks, so that tracing costs the client little. Ids, names and phases need no
escaping, because this program chooses them.
"""

import asyncio
import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.demo.scenario import DemoPlan, PhasePlan

BLOCK_LINES: Final = 512


class Trace:
    """A trace file that is open until the end of the `with` block."""

    def __init__(self, directory: str, client: str) -> None:
        self._file = (Path(directory) / f"trace-{client}.jsonl").open("w", encoding="utf-8")
        self._client = client
        self._lines: list[str] = []

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, *error: object) -> None:
        self.flush()
        self._file.close()

    def note(self, message_id: str, stage: str, queue: str, phase: str = "") -> int:
        """Note that a message reached a stage now; returns now in monotonic ns."""
        now_ns = time.monotonic_ns()
        self._lines.append(
            f'{{"id":"{message_id}","stage":"{stage}","t":{now_ns},'
            f'"client":"{self._client}","queue":"{queue}","phase":"{phase}"}}\n'
        )
        if len(self._lines) >= BLOCK_LINES:
            self.flush()
        return now_ns

    def flush(self) -> None:
        """Write what was gathered."""
        self._file.write("".join(self._lines))
        self._file.flush()
        self._lines.clear()


@dataclass(slots=True)
class PhaseRates:
    """How many messages are due, by the rates of the phases.

    What could not be published in time is not made up for: at most 100 ms worth is due at once, so
    a held publisher does not come back with a burst that was not planned.
    """

    _due: float = 0.0
    _seen_ns: int = 0

    def due(self, now_ns: int, rate: float) -> int:
        """Whole messages due now; take off what was published with `took`."""
        if self._seen_ns:
            self._due += rate * (now_ns - self._seen_ns) / 1e9
        self._seen_ns = now_ns
        self._due = min(self._due, max(1.0, rate * 0.1))
        return int(self._due)

    def took(self, count: int) -> None:
        self._due -= count


@dataclass(slots=True)
class Worker:
    """The plan and the clock of one worker. `start_ns`: when phase one begins, 0 before "go"."""

    plan: DemoPlan
    name: str
    start_ns: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def phase_at(self, now_ns: int) -> PhasePlan | None:
        """The phase at `now_ns`; None before the first and after the last."""
        seconds = (now_ns - self.start_ns) / 1e9
        if seconds < 0:
            return None
        for phase in self.plan.phases:
            if seconds < phase.seconds:
                return phase
            seconds -= phase.seconds
        return None

    def is_over(self, now_ns: int) -> bool:
        """Whether the last publishing phase has ended."""
        return now_ns - self.start_ns >= self.plan.seconds() * 1e9

    def count(self, name: str, more: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + more

    def report(self) -> None:
        """Print the numbers; the first report means ready."""
        sys.stdout.write(json.dumps({"ready": 1, **self.counts}) + "\n")
        sys.stdout.flush()

    def wait_for_go(self) -> bool:
        """Block until "go"; False if the input ended instead."""
        return self.take_line(sys.stdin.readline())

    def take_line(self, line: str) -> bool:
        """Take one line of input: "go T". False at the end of the input."""
        word, _, number = line.strip().partition(" ")
        if word != "go":
            return False
        self.start_ns = int(number)
        return True


def part_from_arguments() -> Worker:
    """The part that the command line names: PLAN NAME."""
    plan, name = sys.argv[1:]
    return Worker(DemoPlan.read(Path(plan)), name)


def play(work: Callable[[Worker, Trace], Coroutine[object, object, None] | None]) -> None:
    """Do the part that the command line names, with a trace of it; a coroutine runs to its end."""
    part = part_from_arguments()
    with Trace(part.plan.directory, part.name) as trace:
        doing = work(part, trace)
        if doing is not None:
            asyncio.run(doing)


def input_ended() -> bool:
    """Whether the run has closed this worker's input; never blocks."""
    readable, _, _ = select.select([sys.stdin.fileno()], [], [], 0)
    return bool(readable) and not os.read(sys.stdin.fileno(), 4096)


def call_when_input_ends(done: threading.Event) -> None:
    """Set `done` when the run closes this worker's input; for a thread of its own."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    done.set()


class InputEnd:
    """Whether the run has closed this worker's input, for a program with an event loop, which this
    reads it in. `part` takes the lines before that."""

    def __init__(self, part: Worker) -> None:
        self._part = part
        self._is_over = asyncio.Event()

    def listen(self) -> None:
        """From now on."""
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)

    def is_over(self) -> bool:
        return self._is_over.is_set()

    async def report_until(self, seconds: float, report: Callable[[], None]) -> None:
        """Call `report` every so many seconds until the input has ended."""
        while not self.is_over():
            try:
                async with asyncio.timeout(seconds):
                    await self._is_over.wait()
            except TimeoutError:
                report()

    def _read(self) -> None:
        if not self._part.take_line(sys.stdin.readline()):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self._is_over.set()


def seconds_until(start_ns: int) -> float:
    """Seconds from now to `start_ns`, at least 0."""
    return max(0.0, (start_ns - time.monotonic_ns()) / 1e9)
