"""What a person sees during the run: one line a phase, live on a terminal, plain elsewhere.

`EventTail` reads the event files as they grow, and says who was held since the last look.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from penstock.spark.blame.blame import HELD_KINDS, Edge, actor_kind, sweep
from penstock.spark.blame.intervals import GateTracker
from penstock.spark.input.intake import fresh, read_range
from penstock.spark.schema.formats import EVENT_FILES, event_from_line

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


@dataclass(frozen=True, slots=True)
class HoldsSeen:
    """One look. `share`: 0..1 of the time since the last look in which at least one publisher was
    held; `cause`: the greatest root cause, "" if none was held; `waiting`: messages in all queues
    at their last samples."""

    share: float
    cause: str
    waiting: int


@dataclass(slots=True)
class EventTail:
    """Reads what was appended since the last look. directory: where the broker writes."""

    directory: Path
    _taken: dict[str, int] = field(default_factory=dict)
    _tracker: GateTracker = field(default_factory=lambda: GateTracker(""))
    _seen_ns: int = 0
    _depths: dict[str, int] = field(default_factory=dict)

    def look(self, now_ns: int) -> HoldsSeen:
        """Read on and say who was held since the last look; the first look starts the clock."""
        ended = []
        for line in self._new_lines():
            event = event_from_line("", line)
            if event is None:
                continue
            if event.kind == "queue_sample":
                numbers = event.numbers
                self._depths[event.actor] = numbers.get("ready", 0) + numbers.get("unacked", 0)
            else:
                ended.extend(self._tracker.feed(event))
        since_ns, self._seen_ns = self._seen_ns, now_ns
        waiting = sum(self._depths.values())
        if not since_ns or now_ns <= since_ns:
            return HoldsSeen(0.0, "", waiting)
        edges = [
            Edge(*interval[1:4], max(interval.start_ns, since_ns), min(interval.end_ns, now_ns))
            for interval in (*ended, *self._tracker.cut(now_ns))
        ]
        share, cause = summarise(edges, now_ns - since_ns)
        return HoldsSeen(share, cause, waiting)

    def _new_lines(self) -> list[str]:
        found = fresh(self.directory, EVENT_FILES, lambda name: self._taken.get(name, 0))
        self._taken.update(found.marks)
        data = b"".join(read_range(one) for one in found.ranges)
        return data.decode(errors="replace").split("\n")


def summarise(edges: list[Edge], window_ns: int) -> tuple[float, str]:
    """The share of `window_ns` in which any publisher was held, and the greatest root cause."""
    causes: dict[str, int] = {}
    for key, blamed_ns in sweep(edges, {}).items():
        if actor_kind(key.victim) in HELD_KINDS:
            causes[key.cause] = causes.get(key.cause, 0) + blamed_ns
    if not causes:
        return 0.0, ""
    # One imaginary actor that is held whenever a publisher is: its blame is the union.
    union = [
        Edge("any", "any", "", edge.start_ns, edge.end_ns)
        for edge in edges
        if actor_kind(edge.actor) in HELD_KINDS
    ]
    union_ns = sum(sweep(union, {}).values())
    return min(1.0, union_ns / window_ns), max(causes, key=lambda key: (causes[key], key))
