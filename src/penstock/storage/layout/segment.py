"""One segment of the log as it is kept in memory: where it ends, and what queues have in it.

Segment   a file; its tables say where every entry lies, its runs which of them still count
Table     the places of one queue's entries, in ascending order of position; once the segment
          has its footer they are read from there when they are needed
Run       a stretch of one queue's positions in one table, and which of them count: what came and
          goes in its order is first and last, the rest has one bit for each.
"""

import sys
from array import array
from typing import Final

from mypy_extensions import i64

from penstock.base.wire import BytesWriter, write_i64_le
from penstock.storage.layout.checksum import LOG_VERSION, Extend, log_extend_of
from penstock.storage.layout.format import FLEETING_BIT, PLACE_OFFSET_BITS, PLACE_SIZE_MASK, REF_BIT

GAP_MAX: Final = 4096
"""A table ends where this many positions are missing, so that its bits stay small."""
FRESH_BYTES: Final = 32_768
"""What a table may leave ungathered: every gathering may move what was gathered before."""
NOTHING_FRESH: Final = BytesWriter()


class Table:
    """The places of entries of one queue in one segment.

    first, last: positions; count: entries; fleeting_count: of them those that are not persistent;
    record_bytes: what their records take, a shared body counted with its first entry; shared_bytes:
    of the bodies that the others refer to, 0 where a footer tells of the table; positions,
    places: None when they have to be read from the footer, where at, checksum: they lie; fresh:
    the last entries, as bytes, which are cheaper to add to; `gather` before looking.
    """

    __slots__ = (
        "at",
        "checksum",
        "count",
        "first",
        "fleeting_count",
        "fresh",
        "last",
        "places",
        "positions",
        "queue_id",
        "record_bytes",
        "segment",
        "shared_bytes",
    )

    def __init__(self, segment: "Segment", queue_id: i64) -> None:
        self.segment = segment
        self.queue_id: i64 = queue_id
        self.first: i64 = 0
        self.last: i64 = 0
        self.count: i64 = 0
        self.fleeting_count: i64 = 0
        self.record_bytes: i64 = 0
        self.shared_bytes: i64 = 0
        self.positions: array[int] | None = array("q")
        self.places: array[int] | None = array("q")
        self.fresh = BytesWriter()
        self.at: i64 = 0
        self.checksum: i64 = 0

    def add(self, position: i64, place: i64, record_bytes: i64) -> None:
        """One more entry, behind all the others."""
        if self.count == 0:
            self.first = position
        self.last = position
        self.count += 1
        self.record_bytes += record_bytes
        if place >> FLEETING_BIT != 0:
            self.fleeting_count += 1
        if (place >> REF_BIT) & 1 != 0:
            self.shared_bytes += (place >> PLACE_OFFSET_BITS) & PLACE_SIZE_MASK
        fresh = self.fresh
        write_i64_le(fresh, position)
        write_i64_le(fresh, place)
        if len(fresh) >= FRESH_BYTES:
            self.gather()

    def added(self, first: i64, count: i64, record_bytes: i64) -> None:
        """`count` more entries stand in `fresh`, behind all the others: persistent ones with bodies
        of their own, at ascending positions from `first` on. record_bytes: of all of them."""
        if self.count == 0:
            self.first = first
        self.last = first + count - 1
        self.count += count
        self.record_bytes += record_bytes
        if len(self.fresh) >= FRESH_BYTES:
            self.gather()

    def gather(self) -> None:
        """Put the fresh entries where the others are."""
        fresh = self.fresh
        if len(fresh) == 0:
            return
        assert self.positions is not None and self.places is not None, "the segment is still open"
        numbers = array("q", fresh.getvalue())
        fresh.truncate(0)
        if sys.byteorder != "little":
            numbers.byteswap()
        # Places first: whoever finds a position on another thread finds its place as well.
        self.places.extend(numbers[1::2])
        self.positions.extend(numbers[::2])

    def release(self) -> None:
        """The footer has it now."""
        self.positions = None
        self.places = None
        self.fresh = NOTHING_FRESH


class Run:
    """Positions first..last of a table, and which of them count.

    solid, solid_end: what came one behind the other and did not go out of its order counts from
    here up to there, and has no bits; bits: of what is before, bit 0 of byte 0 stands for position
    `base`, what is missing does not count; hot: byte hot_at of them, which is looked at
    in place of the one in `bits`, because positions come and go one behind the other, -1 for none;
    live: how many count; ack_first, ack_last: settled positions that are not yet on their way to
    the disk, ack_first 0 for none.
    """

    __slots__ = (
        "ack_first",
        "ack_last",
        "base",
        "bits",
        "first",
        "hot",
        "hot_at",
        "last",
        "live",
        "solid",
        "solid_end",
        "table",
    )

    def __init__(self, table: Table, first: i64, last: i64, bits: bytearray) -> None:
        self.table = table
        self.first: i64 = first
        self.last: i64 = last
        self.base: i64 = first
        self.bits = bits
        self.solid: i64 = first
        self.solid_end: i64 = first
        self.hot: i64 = 0
        self.hot_at: i64 = -1
        self.live: i64 = 0
        self.ack_first: i64 = 0
        self.ack_last: i64 = 0

    def add(self, position: i64) -> None:
        """One more position, behind all the others."""
        if position != self.solid_end:
            self._dissolve(self.solid_end)
            self.solid = position
        self.solid_end = position + 1
        self.last = position
        self.live += 1

    def add_run(self, first: i64, count: i64) -> None:
        """`count` more positions, from `first` on, behind all the others."""
        if first != self.solid_end:
            self._dissolve(self.solid_end)
            self.solid = first
        self.solid_end = first + count
        self.last = first + count - 1
        self.live += count

    def fill(self) -> None:
        """Everything first..last counts."""
        self.solid_end = self.last + 1
        self.live = self.solid_end - self.solid

    def _dissolve(self, end: i64) -> None:
        """What is solid before `end` gets bits."""
        position: i64 = self.solid
        while position < end:
            off: i64 = position - self.base
            at: i64 = off >> 3
            if at != self.hot_at:
                self._heat(at)
            mask: i64 = 1 << (off & 7)
            self.hot |= mask
            position += 1
        self.solid = end

    def has(self, position: i64) -> bool:
        """Whether the position counts."""
        if position < self.first or position > self.last:
            return False
        if position >= self.solid:
            return position < self.solid_end
        off: i64 = position - self.base
        at: i64 = off >> 3
        if at != self.hot_at:
            self._heat(at)
        mask: i64 = 1 << (off & 7)
        return self.hot & mask != 0

    def clear(self, position: i64) -> bool:
        """The position counts no more; False if it did not."""
        if position >= self.solid:
            if position >= self.solid_end:
                return False
            if position > self.solid:
                self._dissolve(position)
            self.solid = position + 1
            self.live -= 1
            return True
        off: i64 = position - self.base
        at: i64 = off >> 3
        if at != self.hot_at:
            self._heat(at)
        mask: i64 = 1 << (off & 7)
        if self.hot & mask == 0:
            return False
        self.hot &= ~mask
        self.live -= 1
        return True

    def clear_run(self, first: i64, last: i64) -> bool:
        """Positions first..last count no more; False if one of them did not."""
        if first >= self.solid and last < self.solid_end:
            if first > self.solid:
                self._dissolve(first)
            self.solid = last + 1
            self.live -= last - first + 1
            return True
        position: i64 = first
        while position <= last:
            if not self.clear(position):
                return False
            position += 1
        return True

    def _heat(self, at: i64) -> None:
        """Have byte `at` in `hot`."""
        self._cool()
        bits = self.bits
        if len(bits) <= at:
            bits.extend(bytes(at + 1 - len(bits)))
        self.hot = i64(bits[at])
        self.hot_at = at

    def _cool(self) -> None:
        """Have all of them in `bits`."""
        if self.hot_at >= 0:
            self.bits[self.hot_at] = int(self.hot)
            self.hot_at = -1

    def next_live(self, position: i64) -> i64:
        """The first position from `position` on that counts, -1 for none."""
        found: i64 = -1
        if position < self.solid:
            found = self._next_bit(position)
        if found >= 0:
            return found
        if position < self.solid:
            position = self.solid
        return position if position < self.solid_end else found

    def _next_bit(self, position: i64) -> i64:
        """The first position from `position` on whose bit is set, -1 for none."""
        off: i64 = position - self.base
        if off < 0:
            off = 0
        bits = self.bits
        at: i64 = off >> 3
        size: i64 = len(bits)
        if at >= size:
            return -1
        if at != self.hot_at:
            self._heat(at)
        byte: i64 = self.hot >> (off & 7) << (off & 7)
        if byte == 0:
            self._cool()
            at += 1
            if at < size and bits[at] == 0:
                # The standard library steps over the zeros of a long settled stretch.
                at = size - len(bits[at:].lstrip(b"\0"))
            if at >= size:
                return -1
            byte = i64(bits[at])
        bit: i64 = 0
        while byte & (1 << bit) == 0:
            bit += 1
        return self.base + at * 8 + bit

    def split(self, position: i64) -> "Run":
        """The part from `position` on as a run of its own; this one keeps what is before."""
        part = Run(self.table, position, self.last, bytearray())
        moved: i64 = self.next_live(position)
        while moved >= 0:
            part.add(moved)
            self.clear(moved)
            moved = self.next_live(moved + 1)
        part.last = self.last
        self.last = position - 1
        self.table.segment.runs[part] = None
        return part

    def trim(self) -> bool:
        """Begin with a position that counts; False, and forgotten, when there is none."""
        if self.live == 0:
            self.table.segment.runs.pop(self, None)
            return False
        self.first = self.next_live(self.first)
        return True

    def live_bytes(self) -> i64:
        """What the entries that count take on disk, from the average of their table."""
        table = self.table
        if table.count == 0:
            return 0
        return table.record_bytes * self.live // table.count


class Segment:
    """number: of its files; identity: random, in every checksum; end: where the next record goes;
    taken_to, written_to, synced_to: up to where records went into a batch, to the file, to the disk
    for good; live: entries that count; seen_live, seen_end: `live` and `end` when the compactor
    last looked; is_full: takes no more; is_sealed: has a footer; is_created: its file exists;
    was_used: its file was another segment's before, and may be longer than what is in it;
    is_pinned: not to be compacted; is_gone: its file is or will be removed;
    copies: while it is compacted, where an entry went, by queue and position; acks:
    acknowledgements for the next batch, acks_end: where they go, 0 when there is no file."""

    __slots__ = (
        "acks",
        "acks_end",
        "copies",
        "end",
        "extend",
        "identity",
        "is_created",
        "is_full",
        "is_gone",
        "is_pinned",
        "is_sealed",
        "live",
        "number",
        "runs",
        "seed",
        "seen_end",
        "seen_live",
        "synced_to",
        "tables",
        "taken_to",
        "version",
        "was_used",
        "written_to",
    )

    def __init__(self, number: i64, identity: bytes, version: i64 = LOG_VERSION) -> None:
        self.number: i64 = number
        self.identity = identity
        self.version: i64 = version
        self.extend: Extend = log_extend_of(int(version))
        self.seed: i64 = self.extend(0, identity)
        self.end: i64 = 0
        self.taken_to: i64 = 0
        self.written_to: i64 = 0
        self.synced_to: i64 = 0
        self.live: i64 = 0
        self.seen_live: i64 = -1
        self.seen_end: i64 = -1
        self.is_created = False
        self.was_used = False
        self.is_full = False
        self.is_sealed = False
        self.is_pinned = False
        self.is_gone = False
        self.tables: list[Table] = []
        self.runs: dict[Run, None] = {}
        self.copies: dict[int, dict[int, Run]] | None = None
        self.acks: BytesWriter | None = None
        self.acks_end: i64 = 0

    def live_bytes(self) -> i64:
        """What the entries that count take, about: their records, or where that is more the bodies
        one of the queues refers to. Several queues may refer to the same ones."""
        total: i64 = 0
        shared: i64 = 0
        for run in self.runs:
            total += run.live_bytes()
            table = run.table
            if table.shared_bytes > 0:
                bodies: i64 = table.shared_bytes * run.live // table.count
                if bodies > shared:
                    shared = bodies
        return total if total > shared else shared


NO_SEGMENT: Final = Segment(0, b"")
