"""Finding the records of a segment that has no footer, past whatever is torn or damaged in it."""

from mypy_extensions import i64

from penstock.base.wire import read_i64_be
from penstock.storage.layout.format import (
    BODY,
    DATA_AT,
    IS_GROUP_FIRST,
    IS_GROUP_LAST,
    IS_GROUPED,
    MARK,
    REF_BYTES,
)
from penstock.storage.layout.record import Record, is_whole, unsigned
from penstock.storage.layout.segment import Segment


class Hole:
    """Bytes start..end-1 that are no record. queue_id, position: what stands where those of the
    lost record would be, not to be relied on; 0 when it cannot be one record."""

    __slots__ = ("end", "position", "queue_id", "start")

    def __init__(self, data: bytes, start: i64, end: i64) -> None:
        self.start: i64 = start
        self.end: i64 = end
        self.queue_id: i64 = 0
        self.position: i64 = 0
        if end - start >= REF_BYTES and unsigned(data, start + 8) == end - start:
            self.queue_id = read_i64_be(data, start + 20)
            self.position = read_i64_be(data, start + 28)


class Scan:
    """records: the whole ones, in the order of the file; holes: between them; end: behind the last;
    synced_to: the highest offset below which everything was once safe."""

    __slots__ = ("end", "holes", "records", "synced_to")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.holes: list[Hole] = []
        self.end: i64 = DATA_AT
        self.synced_to: i64 = DATA_AT


def scan(segment: Segment, data: bytes, safe_to: int = 0) -> Scan:
    """Every whole record in `data`, the bytes of the file of `segment`. safe_to: everything before
    this offset was once safe, whatever the records say."""
    result = Scan()
    if safe_to > result.synced_to:
        result.synced_to = safe_to
    at: i64 = DATA_AT
    size: i64 = len(data)
    # A body may be full of what looks like records: trying them all must not take for ever. This
    # is a few seconds for a segment of the usual size.
    budget: i64 = size * 1024
    while at < size:
        if is_whole(segment, data, at, at):
            record = Record(data, at, at)
            result.records.append(record)
            if record.synced_to > result.synced_to:
                result.synced_to = record.synced_to
            at += record.size
            result.end = at
            continue
        found, budget = _next_record(segment, data, at + 1, budget)
        if found < 0:
            break
        result.holes.append(Hole(data, at, found))
        at = found
    if at < result.synced_to:
        result.holes.append(Hole(data, at, size))
    _drop_torn_groups(result, data)
    return result


def _next_record(segment: Segment, data: bytes, start: i64, budget: i64) -> tuple[i64, i64]:
    """(offset of the next whole record, what is left of `budget`); -1 for none."""
    at: i64 = data.find(MARK, start)
    size: i64 = len(data)
    while at >= 0:
        if at + REF_BYTES <= size:
            claimed: i64 = unsigned(data, at + 8)
            if claimed <= size - at:
                budget -= claimed
                if budget < 0:
                    return -1, 0
                if is_whole(segment, data, at, at):
                    return at, budget
        at = data.find(MARK, at + 1)
    return -1, budget


def _drop_torn_groups(result: Scan, data: bytes) -> None:
    """Groups of which something is missing count as not written at all. Below synced_to they were
    whole, so that what is missing there is damage, and the rest stays."""
    kept: list[Record] = []
    torn: list[Record] = []
    group: list[Record] = []
    is_sound = False
    end: i64 = DATA_AT
    for record in result.records:
        is_next = record.offset == end
        end = record.offset + record.size
        if record.flags & IS_GROUPED == 0:
            _end_torn(group, kept, torn, result.synced_to)
            group = []
            kept.append(record)
            continue
        is_first = record.flags & IS_GROUP_FIRST != 0
        if is_first or not is_next or not group:
            _end_torn(group, kept, torn, result.synced_to)
            group = []
            is_sound = is_first
        group.append(record)
        if record.flags & IS_GROUP_LAST != 0:
            if is_sound:
                kept.extend(group)
            else:
                _end_torn(group, kept, torn, result.synced_to)
            group = []
    _end_torn(group, kept, torn, result.synced_to)
    if not torn:
        return
    result.records = kept
    result.end = kept[-1].offset + kept[-1].size if kept else i64(DATA_AT)
    for record in torn:
        result.holes.append(Hole(data, record.offset, record.offset + record.size))
    result.holes.sort(key=_hole_start)
    # What stands behind the last record is no hole but a torn end.
    behind: i64 = result.end if result.end > result.synced_to else result.synced_to
    result.holes = [hole for hole in result.holes if hole.start < behind]


def _end_torn(group: list[Record], kept: list[Record], torn: list[Record], synced_to: i64) -> None:
    for record in group:
        if record.offset < synced_to:
            kept.append(record)
        else:
            torn.append(record)


def _hole_start(hole: Hole) -> int:
    return int(hole.start)


def bodies_of(records: list[Record]) -> dict[int, Record]:
    """The records with bodies, by offset."""
    return {int(record.offset): record for record in records if record.kind == BODY}
