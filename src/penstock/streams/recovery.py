"""Streams as they are found at the start: what is whole is kept, a torn end is cut off.

| found | done |
|---|---|
| a segment with its footer | believed; each chunk is checked when it is read |
| one without | its chunks are looked at one by one; it gets its footer |
| bytes that are no chunk, none of the later ones made when they were safe | cut off, synced |
| the same, but a later chunk or the roster says that they were safe | damage: told, passed over |
| headers that cannot be read, a whole footer | the footer says the same |
| neither | the file is renamed to *.damaged, and said so; what was safe keeps its offsets |
| the newest, all zeros where its headers should be, nothing in it ever safe | removed |
| no file where one was when the broker stopped | what it had is lost, its offsets stay taken |
| segments of streams that are not there any more | removed, after everything that stays |
| of streams whose number was never given | set aside: the catalogue is older than they are |

No segment is written to in two lives: the next message begins another. A segment begins when
everything before it is safe, so what is missing between two of them is damage.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from mypy_extensions import i64

from penstock.base.chance import Chance
from penstock.storage.layout.files import Directory, File, read_fully, write_fully
from penstock.storage.layout.format import ORPHANED, OUTBOX_QUEUE_ID
from penstock.storage.log.roster import IS_END, IS_STREAM, Entry, read_roster
from penstock.streams.format import DAMAGED, DATA_AT, parse_name, read_header
from penstock.streams.headerless import StreamClaims, claims_of, from_footer
from penstock.streams.log import Retention, StreamLog
from penstock.streams.reading import chunk_at, next_whole
from penstock.streams.segment import StreamSegment, read_footer

NONE_MISSING: Final[Mapping[int, Sequence[tuple[int, int]]]] = MappingProxyType({})


class StreamReport:
    """What people should know of a recovery. cut_bytes: of torn ends; lost: messages by queue id
    that cannot be read; lines: about files; orphan_count: of files whose streams nobody has heard
    of; aside: first offset and the one behind the last of segments that cannot be read, by queue
    id, those set aside by an earlier start with none before them; queue_id_max: of all files,
    whoever set them aside."""

    def __init__(self) -> None:
        self.cut_bytes = 0
        self.orphan_count = 0
        self.queue_id_max = 0
        self.lost: dict[int, int] = {}
        self.lines: list[str] = []
        self.aside: dict[int, list[tuple[int, int]]] = {}

    def lose(self, queue_id: i64, count: i64) -> None:
        """So many messages of a stream cannot be read."""
        self.lost[int(queue_id)] = self.lost.get(int(queue_id), 0) + int(count)


def recover_streams(
    directory: Directory,
    chance: Chance,
    wanted: dict[int, Retention],
    queue_id_known: int = OUTBOX_QUEUE_ID,
    missing: Mapping[int, Sequence[tuple[int, int]]] = NONE_MISSING,
) -> tuple[dict[int, StreamLog], StreamReport]:
    """The logs of the streams `wanted`, by queue id, and what was found. queue_id_known: the
    highest number that a queue was ever given, as far as the caller knows; missing: by queue id,
    offsets that were given and are in no file: the first, and the one behind the last. Raises:
    OSError."""
    report = StreamReport()
    logs = {queue_id: StreamLog(queue_id, wanted[queue_id], chance) for queue_id in wanted}
    unwanted: list[str] = []
    is_changed = False
    marks = read_roster(directory).marks()
    names = directory.names()
    newest = {found[0]: name for name in names if (found := parse_name(name)) is not None}
    for name in names:
        parsed = parse_name(name.removesuffix(ORPHANED))
        if parsed is not None:
            report.queue_id_max = max(report.queue_id_max, parsed[0])
        parsed = parse_name(name)
        if parsed is None:
            _recall(directory, name, logs, report)
            continue
        log = logs.get(parsed[0])
        if log is None and parsed[0] > queue_id_known:
            directory.rename(name, name + ORPHANED)
            report.orphan_count += 1
            is_changed = True
        elif log is None:
            unwanted.append(name)
        elif _recover_segment(
            directory, log, name, marks.get(parsed, Entry(IS_STREAM, *parsed)),
            name == newest[parsed[0]], report,
        ):  # fmt: skip
            is_changed = True
    if is_changed or unwanted:
        directory.sync()
    for name in unwanted:
        directory.remove(name)
    if unwanted:
        directory.sync()
    for log in logs.values():
        report.aside.setdefault(int(log.queue_id), []).extend(missing.get(int(log.queue_id), ()))
        _join(log, report)
    return logs, report


def listed(logs: Iterable[StreamLog]) -> list[Entry]:
    """What the roster of the life that begins says of the streams `logs`."""
    entries: list[Entry] = []
    for log in logs:
        for one in log.segments:
            entries.append(Entry(IS_STREAM, log.queue_id, one.first, one.end, one.next))
        if log.next > (log.segments[-1].next if log.segments else 0):
            entries.append(Entry(IS_END, log.queue_id, -1, 0, log.next))
    return entries


def _recall(
    directory: Directory, name: str, logs: dict[int, StreamLog], report: StreamReport
) -> None:
    """A file that an earlier start has set aside: its offsets stay taken."""
    parsed = parse_name(name.removesuffix(DAMAGED))
    if parsed is None or parsed[0] not in logs:
        return
    file = directory.open(name)
    try:
        claims = claims_of(file, parsed[1])
    finally:
        file.close()
    if claims.was_safe:
        report.aside.setdefault(parsed[0], []).append((claims.next, claims.next))


def _recover_segment(
    directory: Directory,
    log: StreamLog,
    name: str,
    mark: Entry,
    is_newest: bool,
    report: StreamReport,
) -> bool:
    """One file joins `log`; True if a name was changed. mark: what the roster says of it."""
    first = int(mark.two)
    claims = StreamClaims(first)
    file = directory.open(name)
    try:
        size = file.size()
        head = read_fully(file, 0, DATA_AT)
        found = read_header(head, int(log.queue_id), first)
        if found is not None:
            segment = StreamSegment(log.queue_id, first, found[1], found[0])
            segment.is_created = True
            if not read_footer(file, segment, size):
                _scan(file, segment, size, report, mark)
            if segment.next > segment.first:
                log.segments.append(segment)
                return False
        else:
            sealed = from_footer(file, int(log.queue_id), first)
            if sealed is not None:
                sealed.is_created = True
                log.segments.append(sealed)
                return False
            claims = claims_of(file, first)
        claims.believe(mark)
    finally:
        file.close()
    is_torn = is_newest and not head.strip(b"\0")
    if not claims.was_safe and (found is not None or is_torn):
        # Nothing in it was ever confirmed: its first chunk never got there.
        directory.remove(name)
        return True
    directory.rename(name, name + DAMAGED)
    part = "header" if found is None else "first chunk"
    report.lines.append(
        f"the {part} of stream segment {name} cannot be read; it was renamed to {name}{DAMAGED}"
    )
    if claims.was_safe or not is_newest:
        # Of the newest one a crash may have torn the beginning, before anything was confirmed.
        report.aside.setdefault(int(log.queue_id), []).append((first, claims.next))
    return True


def _scan(file: File, segment: StreamSegment, size: int, report: StreamReport, mark: Entry) -> None:
    """Look at every chunk; cut what is torn; write the footer. What `mark` calls safe was not torn,
    and its offsets stay taken."""
    at: i64 = DATA_AT
    end: i64 = DATA_AT
    while at < size:
        chunk = chunk_at(file, segment, at, size)
        if chunk is None:
            later = next_whole(file, segment, at + 8, size)
            if later < 0 or not (at < mark.safe_to or was_safe(file, segment, later, size, at)):
                break
            at = later
            continue
        if chunk.first < segment.next:
            break
        if chunk.first > segment.next:
            report.lose(segment.queue_id, chunk.first - segment.next)
        segment.note_chunk(chunk.first, at, chunk.first_us)
        segment.next = chunk.next()
        segment.last_us = chunk.time_us(chunk.count - 1)
        segment.last_count = chunk.count
        at += chunk.size
        end = at
    if end < size:
        report.cut_bytes += int(size - end)
        file.truncate(int(end))
    segment.end = end
    if segment.first < segment.next < mark.safe_next:
        offsets = (int(segment.next), int(mark.safe_next))
        report.aside.setdefault(int(segment.queue_id), []).append(offsets)
    file.sync()
    segment.synced_to = segment.end
    segment.synced_next = segment.next
    segment.is_sealed = True
    if segment.next > segment.first:
        write_fully(file, segment.end, segment.footer())


def was_safe(file: File, segment: StreamSegment, later: i64, size: i64, at: i64) -> bool:
    """Whether a chunk from `later` on was made when `at` was on the disk for good."""
    while later >= 0:
        chunk = chunk_at(file, segment, later, size)
        if chunk is None:
            later = next_whole(file, segment, later + 8, size)
            continue
        if chunk.synced_to > at:
            return True
        later += chunk.size
    return False


def _join(log: StreamLog, report: StreamReport) -> None:
    """The segments of one stream, in their order, are its log."""
    log.segments.sort(key=_first_of)
    aside = report.aside.get(int(log.queue_id), [])
    begins = [first for first, behind in aside if first < behind]
    if log.segments:
        begins.append(int(log.segments[0].first))
    following: i64 = min(begins, default=0)
    for segment in log.segments:
        if segment.first > following:
            report.lose(log.queue_id, segment.first - following)
        following = segment.next
        log.disk_bytes += segment.end
        log.written_bytes += segment.end
        log.last_us = segment.last_us
        log.last_first = segment.next - segment.last_count
    for first, behind in aside:
        if behind > following:
            if first < behind:
                report.lose(log.queue_id, behind - following)
            # An offset is given once: readers have noted how far they came.
            following = behind
    log.next = following
    log.committed = following


def _first_of(segment: StreamSegment) -> int:
    return int(segment.first)
