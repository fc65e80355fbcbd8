"""Whether the streams of a virtual host are whole: every chunk of every segment read, none changed.

A torn end is what a crash may leave, and is noted. Damage is a chunk that had been safe and is not
whole, which a footer or a later chunk tells, and offsets that are missing between two segments: a
segment begins when everything before it is safe.
"""

from collections.abc import Mapping

from penstock.storage.check.check import ORPHAN_TEXT
from penstock.storage.check.findings import Finding, Findings
from penstock.storage.layout.files import Directory, File, read_fully
from penstock.storage.layout.format import ORPHANED, OUTBOX_QUEUE_ID
from penstock.storage.log.roster import IS_STREAM, ROSTERS, Entry, read_roster
from penstock.streams.format import (
    DAMAGED,
    DATA_AT,
    HEADER_BYTES,
    SUFFIX,
    parse_name,
    read_header,
)
from penstock.streams.headerless import claims_of, from_footer
from penstock.streams.reading import chunk_at, next_whole
from penstock.streams.recovery import was_safe
from penstock.streams.segment import StreamSegment, read_footer


def check_streams(
    directory: Directory,
    names: Mapping[int, str],
    has_catalogue: bool,
    findings: Findings,
    queue_id_max: int = OUTBOX_QUEUE_ID,
) -> None:
    """Add what is wrong in `directory`. names: of the streams there should be, by number, which
    says something only if has_catalogue; queue_id_max: the highest number that was ever given.
    Raises: OSError."""
    segments: dict[int, list[tuple[int, int, str]]] = {}
    strangers: dict[int, int] = {}
    marks = read_roster(directory).marks()
    for name in directory.names():
        parsed = parse_name(name)
        if name.endswith(SUFFIX + DAMAGED):
            findings.damage(name, "its beginning could not be read; a start has set it aside")
        elif name.endswith(SUFFIX + ORPHANED):
            findings.note(name, ORPHAN_TEXT)
        elif parsed is None and name in ROSTERS:
            continue
        elif parsed is None:
            findings.note(name, "no file of a stream; the broker leaves it alone")
        elif has_catalogue and parsed[0] not in names:
            strangers[parsed[0]] = strangers.get(parsed[0], 0) + 1
        else:
            mark = marks.get(parsed, Entry(IS_STREAM, *parsed))
            found = StreamSegmentCheck(directory, name, mark, findings).run()
            segments.setdefault(parsed[0], []).append((*found, name))
    for queue_id, parts in sorted(segments.items()):
        _check_row(queue_id, sorted(parts), findings)
    deleted = [count for queue_id, count in strangers.items() if queue_id <= queue_id_max]
    if deleted:
        findings.note(
            "streams",
            f"{sum(deleted)} segments are of {len(deleted)} deleted streams; the next start "
            "removes them",
        )
    for queue_id in sorted(strangers):
        if queue_id > queue_id_max:
            findings.damage(
                "metadata.sqlite",
                f"{strangers[queue_id]} segments are of stream number {queue_id}, and the highest "
                f"that was ever given is {queue_id_max}: the catalogue is older than the messages",
            )


def _check_row(queue_id: int, parts: list[tuple[int, int, str]], findings: Findings) -> None:
    """The segments of one stream follow each other without a hole. parts: first, next, name."""
    following = parts[0][0]
    for first, after, name in parts:
        if first > following:
            _missing(findings, name, -1, queue_id, following, first)
        following = max(following, after)


def _missing(findings: Findings, name: str, at: int, queue_id: int, first: int, stop: int) -> None:
    which = f"message {first}" if stop == first + 1 else f"messages {first}..{stop - 1}"
    text = f"{which} of the stream cannot be read"
    findings.add(Finding(True, name, at, text, queue_id, first))
    findings.lost_count += stop - first


class StreamSegmentCheck:
    """One file. mark: what the roster says of it."""

    def __init__(self, directory: Directory, name: str, mark: Entry, findings: Findings) -> None:
        self.directory = directory
        self.name = name
        self.queue_id = int(mark.one)
        self.first = int(mark.two)
        self.mark = mark
        self.findings = findings

    def run(self) -> tuple[int, int]:
        """Its first offset, and the one behind its last. Raises: OSError."""
        file = self.directory.open(self.name)
        try:
            return self._run(file, file.size())
        finally:
            file.close()

    def _run(self, file: File, size: int) -> tuple[int, int]:
        findings = self.findings
        findings.segment_count += 1
        findings.byte_count += size
        head = read_fully(file, 0, DATA_AT)
        found = read_header(head, self.queue_id, self.first)
        if found is None:
            return self._beheaded(file, is_blank=not head.strip(b"\0"))
        if head[:HEADER_BYTES] != head[HEADER_BYTES:DATA_AT]:
            findings.damage(self.name, "one of two copies of its header does not fit", 0)
        segment = StreamSegment(self.queue_id, self.first, found[1], found[0])
        if read_footer(file, segment, size):
            self._chunks(file, segment, int(segment.end), int(segment.next), True)
            return self.first, int(segment.next)
        return self.first, self._chunks(file, segment, size, int(self.mark.safe_next), False)

    def _beheaded(self, file: File, is_blank: bool) -> tuple[int, int]:
        """Without headers there is its footer, or what it looks like. is_blank: all zeros."""
        sealed = from_footer(file, self.queue_id, self.first)
        if sealed is not None:
            text = "its header is damaged, which its footer can do without"
            self.findings.damage(self.name, text, 0)
            self._chunks(file, sealed, int(sealed.end), int(sealed.next), True)
            return self.first, int(sealed.next)
        claims = claims_of(file, self.first)
        claims.believe(self.mark)
        if is_blank and not claims.was_safe:
            self.findings.note(self.name, "begun and torn: nothing of it was safe")
            return self.first, self.first
        self.findings.damage(self.name, "its beginning is damaged: nothing in it can be read", 0)
        if not claims.was_safe:
            return self.first, self.first
        _missing(self.findings, self.name, -1, self.queue_id, self.first, claims.next)
        return self.first, claims.next

    def _chunks(
        self, file: File, segment: StreamSegment, end: int, following: int, is_safe: bool
    ) -> int:
        """Read chunks up to `end`; the offset behind the last. following: the one there should be,
        0 if nothing says it; is_safe: all of it was on the disk for good."""
        at, expected = DATA_AT, self.first
        while at < end:
            chunk = chunk_at(file, segment, at, end)
            if chunk is None:
                later = int(next_whole(file, segment, at + 8, end))
                if later < 0:
                    break
                is_safe = is_safe or was_safe(file, segment, later, end, at)
                if not is_safe and at >= self.mark.safe_to:
                    break
                at = later
                continue
            first = int(chunk.first)
            if first > expected:
                _missing(self.findings, self.name, at, self.queue_id, expected, first)
            expected = int(chunk.next())
            self.findings.record_count += int(chunk.count)
            at += int(chunk.size)
        if following > expected:
            _missing(self.findings, self.name, at, self.queue_id, expected, following)
        elif at < end:
            text = f"{end - at} bytes behind its last whole chunk: torn"
            self.findings.note(self.name, text, at)
        return max(expected, following)
