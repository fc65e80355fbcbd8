"""What can be seen of flow control while the run goes on: the event files, as they grow."""

from dataclasses import dataclass, field
from pathlib import Path

from penstock.spark.blame.blame import HELD_KINDS, Edge, actor_kind, sweep
from penstock.spark.blame.intervals import GateTracker
from penstock.spark.schema.formats import EVENT_FILES, event_from_line, input_files


@dataclass(frozen=True, slots=True)
class Held:
    """One look. `share`: 0..1 of the time since the last look in which at least one publisher was
    held; `cause`: the greatest root cause, "" if nobody was held; `waiting`: messages in all queues
    at their last samples."""

    share: float
    cause: str
    waiting: int


@dataclass(slots=True)
class _File:
    offset: int = 0
    rest: str = ""


@dataclass(slots=True)
class EventTail:
    """Reads what was appended since the last look. directory: where the broker writes."""

    directory: Path
    _files: dict[Path, _File] = field(default_factory=dict)
    _tracker: GateTracker = field(default_factory=lambda: GateTracker(""))
    _seen_ns: int = 0
    _depths: dict[str, int] = field(default_factory=dict)

    def look(self, now_ns: int) -> Held:
        """Read on and say who was held since the last look; the first look starts the clock."""
        ended = []
        for path in input_files(self.directory, EVENT_FILES):
            for line in self._new_lines(path):
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
            return Held(0.0, "", waiting)
        edges = [
            Edge(*interval[1:4], max(interval.start_ns, since_ns), min(interval.end_ns, now_ns))
            for interval in (*ended, *self._tracker.cut(now_ns))
        ]
        share, cause = summarise(edges, now_ns - since_ns)
        return Held(share, cause, waiting)

    def _new_lines(self, path: Path) -> list[str]:
        known = self._files.setdefault(path, _File())
        with path.open("rb") as file:
            file.seek(known.offset)
            data = file.read()
        known.offset += len(data)
        *lines, known.rest = (known.rest + data.decode(errors="replace")).split("\n")
        return lines


def summarise(edges: list[Edge], window_ns: int) -> tuple[float, str]:
    """The share of `window_ns` in which any publisher was held, and the greatest root cause."""
    causes: dict[str, int] = {}
    for key, blamed_ns in sweep(edges, {}).items():
        if actor_kind(key.victim) in HELD_KINDS:
            causes[key.cause] = causes.get(key.cause, 0) + blamed_ns
    if not causes:
        return 0.0, ""
    # One imaginary actor that is held whenever a publisher is: its blame is the union.
    anybody = [
        Edge("any", "any", "", edge.start_ns, edge.end_ns)
        for edge in edges
        if actor_kind(edge.actor) in HELD_KINDS
    ]
    union_ns = sum(sweep(anybody, {}).values())
    return min(1.0, union_ns / window_ns), max(causes, key=lambda key: (causes[key], key))
