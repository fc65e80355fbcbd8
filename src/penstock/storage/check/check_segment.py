"""One segment and its acknowledgements, looked at byte by byte."""

from collections.abc import Mapping, Sequence

from penstock.storage.check.findings import Finding, Findings
from penstock.storage.layout.acks import Slot, safe_to, slot_at
from penstock.storage.layout.files import Directory, File, read_fully
from penstock.storage.layout.footer import read_footer, read_table
from penstock.storage.layout.format import (
    ACKS,
    BODY,
    DATA_AT,
    HEADER_BYTES,
    LOG,
    MARK,
    PLACE_IS_FLEETING,
    PLACE_IS_REF,
    PLACE_OFFSET_BITS,
    PLACE_OFFSET_MASK,
    PLACE_SIZE_MASK,
    SETTLED,
    SLOT_BYTES,
    acks_name,
    log_name,
    parse_header,
)
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.record import Record
from penstock.storage.layout.scan import Hole, Scan, bodies_of, scan
from penstock.storage.layout.segment import NO_SEGMENT, Segment
from penstock.storage.layout.tables import tables_from
from penstock.storage.recovery.headerless import claims_of
from penstock.storage.recovery.old_segment import has_earlier, identity_of, is_beheaded


class StoreFacts:
    """What the rest of the data directory says about a store. names: of its queues, by number;
    queue_id_max: the highest number that was ever given; indexes: what a start would find for each
    queue; is_clean: the last stop was; trusts_footers: see recovery;
    has_catalogue: whether `names` and `queue_id_max` say anything."""

    __slots__ = ("has_catalogue", "indexes", "is_clean", "names", "queue_id_max", "trusts_footers")

    def __init__(
        self,
        names: Mapping[int, str],
        queue_id_max: int,
        indexes: Mapping[int, QueueIndex],
        is_clean: bool,
        trusts_footers: bool = True,
        has_catalogue: bool = True,
    ) -> None:
        self.has_catalogue = has_catalogue
        self.names = names
        self.queue_id_max = queue_id_max
        self.indexes = indexes
        self.is_clean = is_clean
        self.trusts_footers = trusts_footers


class SegmentCheck:
    """strangers: records of queues that the catalogue does not have, by their number; was_used: the
    file was another segment's before."""

    def __init__(
        self,
        number: int,
        directory: Directory,
        is_newest: bool,
        facts: StoreFacts,
        findings: Findings,
    ) -> None:
        self.number = number
        self.directory = directory
        self.is_newest = is_newest
        self.facts = facts
        self.findings = findings
        self.name = log_name(number)
        self.slots: list[Slot] = []
        self.strangers: dict[int, int] = {}
        self.was_used = False

    def run(self, has_acks: bool, others: Sequence[Segment]) -> Segment:
        """Read everything; what identifies its records. others: the segments before it. Raises:
        OSError."""
        acks = self._bytes(acks_name(self.number)) if has_acks else b""
        file = self.directory.open(self.name)
        try:
            segment = self._run(file, acks, others)
        finally:
            file.close()
        self.findings.segment_count += 1
        return segment

    def _bytes(self, name: str) -> bytes:
        file = self.directory.open(name)
        try:
            return read_fully(file, 0, file.size())
        finally:
            file.close()

    def _run(self, file: File, acks: bytes, others: Sequence[Segment]) -> Segment:
        size = file.size()
        self.findings.byte_count += size + len(acks)
        known = identity_of(self.number, file, size, acks)
        if known is None:
            self._unreadable(file, size, others)
            return NO_SEGMENT
        data = read_fully(file, 0, size)
        for at in (0, HEADER_BYTES):
            if parse_header(data[at : at + HEADER_BYTES], LOG, self.number) is None:
                self._torn_or_damaged(
                    self.name, at, "a copy of the header does not fit; it is written more than once"
                )
        self.was_used = has_earlier(self.number, file)
        segment = Segment(self.number, known[1], known[0])
        self._read_acks(segment, acks)
        if self.facts.trusts_footers and read_footer(segment, file, size):
            self._sealed(segment, file, data)
        else:
            self._open(Segment(self.number, known[1], known[0]), data)
        segment.end = size
        return segment

    def _unreadable(self, file: File, size: int, others: Sequence[Segment]) -> None:
        """Nothing says which segment this is."""
        is_safe = is_beheaded(self.number, file, self.is_newest, others)
        if not self.facts.is_clean and not is_safe:
            self.findings.note(self.name, f"begun and torn: {size} bytes, nothing of it was safe")
            return
        claims = claims_of(read_fully(file, 0, size), others)
        lost = sum(self._counts(*entry) for entry in claims.entries)
        text = f"its beginning is damaged: nothing in it can be read, {lost} messages or more"
        if self.facts.is_clean or claims.was_safe:
            self.findings.lost_count += lost
        else:
            text += "; it may have been torn before anything in it was safe"
        self.findings.damage(self.name, text, 0)

    def _torn_or_damaged(self, name: str, at: int, text: str) -> None:
        self.findings.add(Finding(self.facts.is_clean, name, at, text))

    # -- acknowledgements ------------------------------------------------------------------------

    def _read_acks(self, segment: Segment, acks: bytes) -> None:
        name = acks_name(self.number)
        if not acks:
            return
        head = parse_header(acks[:HEADER_BYTES], ACKS, self.number)
        if head is None:
            self._torn_or_damaged(name, 0, "its header does not fit; its slots are read anyway")
        elif head[1] != segment.identity:
            self.findings.note(name, "acknowledgements of another segment of this number; ignored")
            return
        end = len(acks) - len(acks) % SLOT_BYTES
        if end < len(acks):
            self.findings.note(name, f"{len(acks) - end} bytes behind the last slot: torn", end)
        for at in range(HEADER_BYTES, end, SLOT_BYTES):
            slot = slot_at(segment, acks, at)
            if slot is None:
                self.findings.note(name, "an acknowledgement does not fit: torn, or damaged", at)
            else:
                self.slots.append(slot)

    def _counts(self, queue_id: int, position: int) -> bool:
        """Whether a message at `position` is expected from this segment and from no other."""
        if queue_id not in self.facts.names:
            return False
        for slot in self.slots:
            is_its = slot.kind == SETTLED and slot.queue_id == queue_id
            if is_its and slot.first <= position <= slot.last:
                return False
        index = self.facts.indexes.get(queue_id)
        run = None if index is None else index.find(position)
        return run is None or run.table.segment.number == self.number or not run.has(position)

    # -- records ---------------------------------------------------------------------------------

    def _damaged(self, at: int, queue_id: int, position: int, text: str) -> None:
        is_lost = self._counts(queue_id, position)
        self.findings.add(Finding(True, self.name, at, text, queue_id, position, is_lost))

    def _scanned(self, segment: Segment, data: bytes, told: int = 0) -> Scan:
        result = scan(segment, data, told)
        self.findings.record_count += len(result.records)
        for record in result.records:
            at = int(record.offset)
            if data[at : at + len(MARK)] != MARK:
                self.findings.damage(self.name, "a record has no mark; it can be read", at)
            queue_id = int(record.queue_id)
            if queue_id not in self.facts.names:
                self.strangers[queue_id] = self.strangers.get(queue_id, 0) + 1
        return result

    def _open(self, segment: Segment, data: bytes) -> None:
        """A segment without a footer: as a crash has left it, or with a damaged one."""
        if self.facts.is_clean:
            self.findings.damage(self.name, "its footer does not fit; a start makes a new one")
        result = self._scanned(segment, data, safe_to(self.slots))
        safe_end = int(result.synced_to)
        for record in tables_from(segment, result.records):
            if record.body_offset < safe_end:
                self._damaged(
                    int(record.offset), int(record.queue_id), int(record.position),
                    f"it refers to a body at {record.body_offset} that is not whole",
                )  # fmt: skip
        for hole in result.holes:
            self._hole(hole, safe_end)
        tail = len(data) - max(int(result.end), *(int(hole.end) for hole in result.holes), DATA_AT)
        if tail > 0 and not self.facts.is_clean:
            torn = "torn, or of an earlier life of the file" if self.was_used else "torn"
            said = f"{tail} bytes behind the last whole record: {torn}"
            if not self.facts.trusts_footers:
                said = f"{tail} bytes behind the records were never synced; a start reads anew"
            self.findings.note(self.name, said, len(data) - tail)

    def _hole(self, hole: Hole, safe_end: int) -> None:
        start, count = int(hole.start), int(hole.end - hole.start)
        if start < safe_end:
            is_named = not self.facts.has_catalogue or int(hole.queue_id) in self.facts.names
            queue_id = int(hole.queue_id) if is_named else 0
            position = int(hole.position) if queue_id else 0
            text = f"{count} bytes were safe and are no record"
            if count <= 0:
                text = f"the file ends here, and was safe up to {safe_end}"
            self._damaged(start, queue_id, position, text)
        else:
            self.findings.note(self.name, f"{count} bytes between records: torn", start)

    def _sealed(self, segment: Segment, file: File, data: bytes) -> None:
        """A full segment: its records are those that its footer names, and no others."""
        result = self._scanned(segment, data[: segment.end])
        bodies = bodies_of(result.records)
        refs = {
            (int(one.queue_id), int(one.position), int(one.body_offset))
            for one in result.records
            if one.kind != BODY
        }
        named: set[tuple[int, int]] = set()
        bad: list[int] = []
        is_whole = True
        for table in segment.tables:
            rows = read_table(table, file)
            if rows is None:
                is_whole = False
                self._torn_or_damaged(
                    self.name,
                    int(table.at),
                    f"the table of {self._queue(int(table.queue_id))} in the footer does not fit; "
                    "what it says is found from the records",
                )
                continue
            queue_id = int(table.queue_id)
            for position, place in zip(rows[0], rows[1], strict=True):
                named.add((queue_id, position))
                at = place & PLACE_OFFSET_MASK
                if not _has_body(queue_id, position, place, bodies):
                    bad.append(at)
                    text = "a record does not fit its checksum"
                    is_lost = place & PLACE_IS_FLEETING == 0 and self._counts(queue_id, position)
                    self.findings.add(
                        Finding(True, self.name, at, text, queue_id, position, is_lost)
                    )
                elif place & PLACE_IS_REF and (queue_id, position, at) not in refs:
                    bad.append(self._lost_reference(result, at, queue_id, position))
        for hole in result.holes:
            if is_whole and not any(hole.start <= at < hole.end for at in bad):
                self._hole(hole, int(result.synced_to))
        for record in result.records if is_whole else []:
            if (int(record.queue_id), int(record.position)) not in named:
                self._damaged(
                    int(record.offset), int(record.queue_id), int(record.position),
                    "a record is not in the footer",
                )  # fmt: skip

    def _lost_reference(self, result: Scan, at: int, queue_id: int, position: int) -> int:
        """A reference is damaged, which the footer can do without. Where it was, -1 if unknown."""
        found = -1
        for hole in result.holes:
            if hole.queue_id == queue_id and hole.position == position:
                found = int(hole.start)
        text = f"a reference to the body at {at} does not fit its checksum; it can be read"
        self.findings.add(Finding(True, self.name, found, text, queue_id, position))
        return found

    def _queue(self, queue_id: int) -> str:
        name = self.facts.names.get(queue_id)
        if name is not None:
            return f"queue '{name}'"
        return f"{'deleted ' if self.facts.has_catalogue else ''}queue number {queue_id}"


def _has_body(queue_id: int, position: int, place: int, bodies: dict[int, Record]) -> bool:
    """Whether the entry of a footer has its body."""
    body = bodies.get(place & PLACE_OFFSET_MASK)
    if body is None or body.size != place >> PLACE_OFFSET_BITS & PLACE_SIZE_MASK:
        return False
    return bool(place & PLACE_IS_REF or (body.queue_id == queue_id and body.position == position))
