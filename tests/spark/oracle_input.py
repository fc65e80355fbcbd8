"""Event files and traces of a directory, read into memory one line at a time: for the oracle."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.spark.schema.formats import (
    DROPPED,
    EVENT_FILES,
    EVENT_FORMAT,
    TRACE_FILES,
    Header,
    Json,
    TraceLine,
    fields_of,
    header_from_fields,
    header_of_traces,
    input_files,
    trace_from_fields,
)
from tests.spark.flow_events import FlowEvent, event_from_fields


@dataclass(frozen=True, slots=True)
class EventLog:
    """All events of a directory, ordered by (boot_id, seq), without repeats."""

    events: tuple[FlowEvent, ...]
    unreadable_count: int
    missing_count: int


@dataclass(frozen=True, slots=True)
class TraceLog:
    """All trace lines of a directory, in file order."""

    lines: tuple[TraceLine, ...]
    unreadable_count: int


def read_events(directory: Path) -> EventLog:
    """Read every event file of `directory` in plain Python."""
    found: dict[tuple[str, int], FlowEvent] = {}
    unreadable_count = 0
    for path in input_files(directory, EVENT_FILES):
        header = Header()
        for fields in _objects(path):
            if fields is None:
                unreadable_count += 1
            elif fields.get("format") == EVENT_FORMAT:
                header = header_from_fields(fields)
            elif "kind" in fields:
                event = event_from_fields(header, fields)
                found.setdefault((header.boot_id, event.seq), event)
    events = tuple(found[key] for key in sorted(found))
    return EventLog(events, unreadable_count, missing_count(events))


def missing_count(events: tuple[FlowEvent, ...]) -> int:
    """Events that never reached the files: gaps in seq between the first and last of each boot, and
    what a `dropped` event stands for, which has the number of the last one that was lost."""
    spans: dict[str, tuple[int, int, int]] = {}
    for event in events:
        first, here = (event.seq, 1)
        if event.kind == DROPPED:
            first, here = (event.seq - event.amount + 1, 0)
        low, high, count = spans.get(event.boot_id, (first, event.seq, 0))
        spans[event.boot_id] = (min(low, first), max(high, event.seq), count + here)
    return sum(high - low + 1 - count for low, high, count in spans.values())


def read_traces(directory: Path) -> TraceLog:
    """Read every trace file of `directory` in plain Python."""
    lines: list[TraceLine] = []
    unreadable_count, header = 0, header_of_traces(directory)
    for path in input_files(directory, TRACE_FILES):
        for fields in _objects(path):
            if fields is None:
                unreadable_count += 1
                continue
            lines.append(trace_from_fields(fields, header))
    return TraceLog(tuple(lines), unreadable_count)


def _objects(path: Path) -> Iterator[dict[str, Json] | None]:
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in lines:
            # Without its end a line is not finished: the file is being written, or was cut off.
            if line.endswith("\n") and line.strip():
                yield fields_of(line)
