"""Finding the records of a segment that has no footer, past whatever is torn or damaged in it."""

from mypy_extensions import i64

from penstock.base.wire import read_i64_be
from penstock.storage.format import BODY, DATA_AT, MARK, REF_BYTES
from penstock.storage.record import Record, is_whole, unsigned
from penstock.storage.segment import Segment


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


def scan(segment: Segment, data: bytes) -> Scan:
    """Every whole record in `data`, the bytes of the file of `segment`."""
    result = Scan()
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


def bodies_of(records: list[Record]) -> dict[int, Record]:
    """The records with bodies, by offset."""
    return {int(record.offset): record for record in records if record.kind == BODY}
