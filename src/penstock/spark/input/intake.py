"""What of the input is new: byte ranges of whole lines, never taken twice.

A file grows while the broker writes it. How far each has been read is known to the table that its
lines go to, which is told in the same commit, so a crash between the two cannot happen. A last line
without its end is left for the next time. A stream of events is read in `stream_input`.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from penstock.base.errors import OperatorError
from penstock.spark.schema.formats import (
    EventLog,
    RunDescription,
    TraceLog,
    event_header,
    input_files,
    read_events,
    read_run,
    read_traces,
)

RANGE_BYTES: Final = 4 << 20
"""What one task reads."""

ROUND_BYTES: Final = 320 << 20
"""What is taken in before anything is derived from it: more than two million events."""

TAIL_BYTES: Final = 1 << 16


class Range(NamedTuple):
    """Whole lines of one file: [start, end) in bytes. boot_id, node: of the file's header."""

    path: str
    start: int
    end: int
    boot_id: str
    node: str


class Intake(NamedTuple):
    """marks: how far each file will have been read, by its name; of a stream, by its id.
    has_more: something that was there has no room in this round. What came meanwhile is none of
    that, or a reader of a live broker would never be done."""

    ranges: tuple[Range, ...]
    marks: dict[str, int]
    has_more: bool = False


class PipelineInput:
    """Where event lines come from. Nominal base."""

    def fresh(self, pattern: str, taken: Callable[[str], int]) -> Intake:
        """What may be read now of one kind of file, at most ROUND_BYTES and a range; what was
        found before is not needed any more. taken: how far the input of a name was read, 0 for
        not at all. Raises: OperatorError."""
        raise NotImplementedError

    def run(self) -> RunDescription:
        """What the run says of itself."""
        return RunDescription()

    def events(self) -> EventLog:
        """Every event there is, in memory."""
        raise NotImplementedError

    def traces(self) -> TraceLog:
        """Every line of a trace there is, in memory."""
        return TraceLog((), 0)


class FileInput(PipelineInput):
    """A directory of event files and traces."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def fresh(self, pattern: str, taken: Callable[[str], int]) -> Intake:
        return fresh(self.directory, pattern, taken)

    def run(self) -> RunDescription:
        return read_run(self.directory)

    def events(self) -> EventLog:
        return read_events(self.directory)

    def traces(self) -> TraceLog:
        return read_traces(self.directory)


def as_input(place: Path | PipelineInput) -> PipelineInput:
    """A directory is one of files."""
    return place if isinstance(place, PipelineInput) else FileInput(place)


def fresh(directory: Path, pattern: str, taken: Callable[[str], int]) -> Intake:
    """What may be read now, at most ROUND_BYTES and a range. taken: bytes read so far of the file
    of a name, 0 for none. Raises: OperatorError when a file is shorter than what was read of it.
    """
    ranges: list[Range] = []
    marks: dict[str, int] = {}
    left = ROUND_BYTES
    has_more = False
    for path in input_files(directory, pattern):
        start = taken(path.name)
        with path.open("rb") as file:
            end = _end_of_lines(file, path, start)
            for one in _ranges(file, path, start, end, left):
                ranges.append(one)
                left -= one.end - one.start
                marks[path.name] = one.end
        has_more = has_more or marks.get(path.name, start) < end
    return Intake(tuple(ranges), marks, has_more)


def whole_file(path: Path) -> list[Range]:
    """All of an event file that is not written to any more."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        return list(_ranges(file, path, 0, end, end))


def _ranges(file: BinaryIO, path: Path, start: int, end: int, most: int) -> Iterator[Range]:
    """[start, end) in ranges, of which the last begins within `most` bytes."""
    boot_id, node = event_header(file) if end > start else ("", "")
    stop = start
    while stop < end and stop - start < most:
        begin, stop = stop, _cut(file, stop, end)
        yield Range(str(path.resolve()), begin, stop, boot_id, node)


def read_range(one: Range) -> bytes:
    """The lines of a range. Raises: OSError."""
    with Path(one.path).open("rb") as file:
        file.seek(one.start)
        return file.read(one.end - one.start)


def _end_of_lines(file: BinaryIO, path: Path, start: int) -> int:
    """Behind the last line end at or after `start`; `start` when there is none."""
    size = file.seek(0, os.SEEK_END)
    if size < start:
        raise OperatorError(
            f"{path} has {size} bytes, and {start} were read of it before: it is another file; "
            "analyse it into another --tables directory"
        )
    for begin in _backwards(start, size):
        file.seek(begin)
        found = file.read(min(TAIL_BYTES, size - begin)).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
    return start


def _backwards(start: int, size: int) -> Iterator[int]:
    at = size
    while at > start:
        at = max(start, at - TAIL_BYTES)
        yield at


def _cut(file: BinaryIO, start: int, end: int) -> int:
    if end - start <= RANGE_BYTES:
        return end
    file.seek(start + RANGE_BYTES)
    return start + RANGE_BYTES + len(file.readline())
