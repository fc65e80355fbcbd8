"""Which publishes of forwarded clients a batch holds as a whole, for the log of a cluster.

A publish for several queues is in the log as a whole when the last of them has it: all that are
left in one batch, or one batch after the other. What cannot be told is left out: then it is sent
again after a failover, and may be there twice. COMPILED.
"""

from typing import Final

from mypy_extensions import i64

from penstock.broker.actors.confirms import Confirms
from penstock.protocol.content import Message
from penstock.replication.seen import Run, encode_runs

RUNS_MAX: Final = 4096
"""Of one batch; one of a publisher mostly."""


class WholePublishes:
    """runs: of each reference, [first, last] one behind the other; count: of all runs; parts: of a
    publish for several queues, how many of them have it by this batch."""

    __slots__ = ("count", "parts", "runs")

    def __init__(self) -> None:
        self.runs: dict[bytes, list[int]] = {}
        self.count: i64 = 0
        self.parts: dict[tuple[bytes, int], int] = {}

    def add(self, reference: bytes, confirms: Confirms, messages: list[Message]) -> None:
        """One queue has `messages` with this batch. confirms: of their publisher; a transaction is
        no business of a failover, as it ends with its broker."""
        if confirms.commits is not None:
            return
        for message in messages:
            sequence: i64 = i64(message.sequence)
            if sequence < 0:
                continue
            left: i64 = confirms.unanswered(sequence)
            if left > 1:
                key = (reference, int(sequence))
                count = self.parts.get(key, 0) + 1
                self.parts[key] = count
                left = 1 if count == left else 0
            if left == 1:
                self._whole(reference, int(confirms.number(sequence)))

    def _whole(self, reference: bytes, number: int) -> None:
        runs = self.runs.get(reference)
        if runs is None:
            runs = self.runs[reference] = []
        elif runs[-1] + 1 == number:
            runs[-1] = number
            return
        if self.count < RUNS_MAX:
            self.count += 1
            runs.append(number)
            runs.append(number)
        elif not runs:
            del self.runs[reference]

    def encoded(self) -> bytes:
        """As `replication/seen` reads it; b"" for none."""
        found: list[Run] = []
        for reference, runs in self.runs.items():
            for at in range(0, len(runs), 2):
                found.append(Run(reference, runs[at], runs[at + 1]))
        return encode_runs(found)
