"""What a person sees during the run: one line a phase, live on a terminal, plain elsewhere.

Who is held, and by what, is asked of the broker itself.
"""

from dataclasses import dataclass
from typing import Final

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from penstock.broker.admin.answers_flow import Frame, PublisherRow, TopQueue
from penstock.server.control.control_client import ask

PLAIN_SECONDS: Final = 3.0
LOOK_S: Final = 1.0
SPARKS: Final = "▁▂▃▄▅▆▇█"
HISTORY: Final = 12


@dataclass(frozen=True, slots=True)
class StatusLine:
    """One look at the run. Rates are messages a second since the last look."""

    seconds: float
    phase: str
    published_rate: float
    delivered_rate: float
    confirm_p99_ns: int
    backlog: int
    held_share: float
    cause: str


class Screen:
    """Draws readings; a terminal gets one line that changes, a file gets a line now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._history: list[float] = []
        self._phase: list[StatusLine] = []
        self._shown_at = 0.0

    def open(self) -> None:
        if self._console.is_terminal:
            self._live.start()

    def close(self) -> None:
        """End the live line; what was printed stays."""
        if self._console.is_terminal:
            self._live.stop()
        self._end_phase()

    def say(self, line: str) -> None:
        """Print one line for good. The line is text, never markup."""
        self._console.print(Text(line), soft_wrap=True)

    def show(self, reading: StatusLine) -> None:
        """Draw one reading."""
        if self._phase and self._phase[-1].phase != reading.phase:
            self._end_phase()
        self._phase.append(reading)
        self._history = [*self._history, reading.held_share][-HISTORY:]
        text = line_of(reading, sparkline(self._history))
        if self._console.is_terminal:
            self._live.update(Text(text, overflow="ellipsis", no_wrap=True), refresh=True)
        elif reading.seconds - self._shown_at >= PLAIN_SECONDS:
            self._shown_at = reading.seconds
            self.say(text)

    def _end_phase(self) -> None:
        """Leave one line with the means of the phase."""
        if not self._phase:
            return
        count = len(self._phase)
        last = self._phase[-1]
        causes = [reading.cause for reading in self._phase if reading.cause]
        mean = StatusLine(
            last.seconds,
            last.phase,
            sum(reading.published_rate for reading in self._phase) / count,
            sum(reading.delivered_rate for reading in self._phase) / count,
            max(reading.confirm_p99_ns for reading in self._phase),
            max(reading.backlog for reading in self._phase),
            sum(reading.held_share for reading in self._phase) / count,
            max(causes, key=causes.count) if causes else "",
        )
        shares = [reading.held_share for reading in self._phase]
        if self._console.is_terminal:
            self.say(line_of(mean, sparkline(shares[-HISTORY:])))
        else:
            self.say(line_of(mean, "mean"))
        self._phase = []


def line_of(reading: StatusLine, tail: str) -> str:
    """One line of at most 100 columns or so."""
    minutes, seconds = divmod(int(reading.seconds), 60)
    cause = f"  cause: {reading.cause}" if reading.cause else ""
    return (
        f" t={minutes:02}:{seconds:02} {reading.phase:<14} "
        f"pub {reading.published_rate:5,.0f}/s  con {reading.delivered_rate:5,.0f}/s  "
        f"confirm p99 {reading.confirm_p99_ns / 1e6:5,.0f} ms  waiting {reading.backlog:5,}  "
        f"held {reading.held_share:4.0%}  {tail}{cause}"
    )


def sparkline(shares: list[float]) -> str:
    """Shares of 0..1 as little bars."""
    top = len(SPARKS) - 1
    return "".join(SPARKS[round(min(1.0, max(0.0, share)) * top)] for share in shares)


@dataclass(frozen=True, slots=True)
class HoldsSeen:
    """One look. `share`: 0..1 of the last LOOK_S in which the publisher or queue that was held most
    was held; `cause`: what held it, "" if none was; `waiting`: messages in all queues."""

    share: float
    cause: str
    waiting: int


def look(path: str) -> HoldsSeen:
    """What the broker behind the control socket `path` says, as in `penstock flow top`.
    Raises: OperatorError when it does not answer."""
    asked: dict[str, object] = {"op": "flow", "do": "top", "window_s": LOOK_S, "sort": "blocked"}
    frame = msgspec.convert(ask(path, asked), Frame)
    # A publisher that waits for its confirms is held by no gate: its queue is.
    rows: list[PublisherRow | TopQueue] = [*frame.publishers, *frame.queues]
    most = max(rows, key=lambda one: one.blocked_share, default=None)
    waiting = sum(one.ready + one.unacked for one in frame.queues)
    if most is None or not most.blocked_share:
        return HoldsSeen(0.0, "", waiting)
    return HoldsSeen(most.blocked_share, most.cause, waiting)
