"""What a person sees during the run: one line a phase, live on a terminal, plain elsewhere."""

from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

PLAIN_SECONDS: Final = 3.0
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
