"""What of the input is new: byte ranges of whole lines, never taken twice.

A file grows while the broker writes it. How far each has been read is the offset of a query
(`file_source.py`). A last line without its end is left for the next time.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from penstock.base.errors import OperatorError
from penstock.spark.schema.formats import (
    FILES,
    TRACE_FILES,
    event_header,
    header_of_traces,
    input_files,
)

RANGE_BYTES: Final = 4 << 20
"""What one task reads."""

ROUND_BYTES: Final = 320 << 20
"""What is taken in before anything is derived from it: more than two million events."""

TAIL_BYTES: Final = 1 << 16


class Range(NamedTuple):
    """Whole lines of one file: [start, end) in bytes. pattern: which of FILES it is one of;
    boot_id, node, offset_ns: its `Header`."""

    pattern: str
    path: str
    start: int
    end: int
    boot_id: str
    node: str
    offset_ns: int


def fresh(
    directory: Path,
    taken: Mapping[str, int],
    bytes_max: int = ROUND_BYTES,
    ends: Mapping[str, int] | None = None,
) -> list[Range]:
    """What may be read now, at most `bytes_max` and a range. taken: bytes read so far of each file,
    by its name; ends: where each ends, None for where it does by now.

    Raises: OperatorError when a file is shorter than what was read, or is to be read, of it, or no
    line ends where it was read to: another file has its name."""
    ranges: list[Range] = []
    left = bytes_max
    # They have no header of their own.
    of_traces = header_of_traces(directory)
    for pattern, path in _files(directory):
        start = int(taken.get(path.name, 0))
        known = None if ends is None else ends.get(path.name, start)
        if known is not None and known < start:
            raise _another(path, known, start)
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if known is not None and size < known:
                raise _another(path, size, known)
            end = _end_of_lines(file, path, start) if known is None else known
            if end > start and not _is_behind_line(file, start):
                raise OperatorError(
                    f"{path} was read to byte {start}, where no line ends now: it is another file "
                    "of that name; analyse it into another --tables directory"
                )
            if end == start or left <= 0:
                continue
            header = of_traces if pattern == TRACE_FILES else event_header(file)
            while start < end and left > 0:
                begin, start = start, _cut(file, start, end)
                ranges.append(Range(pattern, str(path.resolve()), begin, start, *header))
                left -= start - begin
    return ranges


def ends_of(directory: Path) -> dict[str, int]:
    """Where the whole lines of each file end."""
    found: dict[str, int] = {}
    for _, path in _files(directory):
        with path.open("rb") as file:
            found[path.name] = _end_of_lines(file, path, 0)
    return found


def _files(directory: Path) -> Iterator[tuple[str, Path]]:
    return ((pattern, path) for pattern in FILES for path in input_files(directory, pattern))


def read_range(one: Range) -> bytes:
    """The lines of a range. Raises: OSError."""
    with Path(one.path).open("rb") as file:
        file.seek(one.start)
        return file.read(one.end - one.start)


def _end_of_lines(file: BinaryIO, path: Path, start: int) -> int:
    """Behind the last line end at or after `start`; `start` when there is none."""
    size = file.seek(0, os.SEEK_END)
    if size < start:
        raise _another(path, size, start)
    at = size
    while at > start:
        begin = max(start, at - TAIL_BYTES)
        file.seek(begin)
        found = file.read(at - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        at = begin
    return start


def _is_behind_line(file: BinaryIO, start: int) -> bool:
    """Whether `start` is where a line begins, as it is in a file that only grew."""
    file.seek(max(0, start - 1))
    return start == 0 or file.read(1) == b"\n"


def _another(path: Path, size: int, start: int) -> OperatorError:
    return OperatorError(
        f"{path} has {size} bytes, and {start} were read of it before: it is another file; "
        "analyse it into another --tables directory"
    )


def _cut(file: BinaryIO, start: int, end: int) -> int:
    if end - start <= RANGE_BYTES:
        return end
    file.seek(start + RANGE_BYTES)
    return start + RANGE_BYTES + len(file.readline())
