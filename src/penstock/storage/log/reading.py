"""Reading messages back: the next ones of a queue, in order, each checked before it is believed."""

from array import array
from bisect import bisect_left
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.limits import STORE_TABLE_CACHE_BYTES
from penstock.protocol.content import Address, Message
from penstock.storage.layout.files import File, read_fully
from penstock.storage.layout.footer import read_table
from penstock.storage.layout.format import (
    BODY,
    IS_PERSISTENT,
    PLACE_IS_FLEETING,
    PLACE_IS_REF,
    PLACE_OFFSET_BITS,
    PLACE_OFFSET_MASK,
    PLACE_SIZE_MASK,
)
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.record import Record, is_whole, message_of
from penstock.storage.layout.scan import scan
from penstock.storage.layout.segment import Run, Table
from penstock.storage.layout.stored import Stored
from penstock.storage.layout.tables import rebuild
from penstock.storage.log.handles import Handles
from penstock.storage.log.job import Job

CACHE_BYTES: Final = STORE_TABLE_CACHE_BYTES.default
READ_BYTES: Final = 1_048_576
"""At most this much is read at a time, unless one message has more."""
GAP_BYTES: Final = 65_536
"""Records with no more than this between them are read together."""


class TableCache:
    """Tables read from footers, the longest unused first. Only jobs use it."""

    __slots__ = ("bytes", "tables")

    def __init__(self) -> None:
        self.tables: dict[Table, tuple[array[int], array[int]]] = {}
        self.bytes: i64 = 0

    def get(self, table: Table, handles: Handles) -> "tuple[array[int], array[int]]":
        """(positions, places). Where the footer is torn they are found in the records themselves.

        Raises: OSError.
        """
        positions = table.positions
        places = table.places
        if positions is not None and places is not None:
            return positions, places
        found = self.tables.pop(table, None)
        if found is None:
            file = handles.existing(table.segment)
            whole = read_table(table, file)
            if whole is None:
                data = read_fully(file, 0, table.segment.end)
                found = rebuild(table, scan(table.segment, data).records)
            else:
                found = whole
            self.bytes += table.count * 16
            while self.tables and self.bytes > CACHE_BYTES:
                oldest = next(iter(self.tables))
                del self.tables[oldest]
                self.bytes -= oldest.count * 16
        self.tables[table] = found
        return found


class Found:
    """One message that was read. stored_ms: wall clock when the store took it."""

    __slots__ = ("is_persistent", "is_redelivered", "message", "position", "stored_ms")

    def __init__(self, position: i64, message: Message, record: Record, flags: i64) -> None:
        self.position: i64 = position
        self.message = message
        self.stored_ms: i64 = record.stored_ms
        self.is_persistent = flags & IS_PERSISTENT != 0
        self.is_redelivered = False


class Stretch:
    """Positions of one table that are wanted, ascending."""

    __slots__ = ("positions", "table")

    def __init__(self, table: Table) -> None:
        self.table = table
        self.positions: list[int] = []


@mypyc_attr(allow_interpreted_subclasses=True)
class ReadJob(Job):
    """Reads the messages of some positions. found: the messages, in order; damaged: positions whose
    records do not fit, which must not be taken for settled ones (reliability F14); next_position:
    where to go on, behind everything found and damaged.

    Stops behind `bytes_max` of content, but not before one message was found. Raises: OSError.
    """

    __slots__ = (
        "addresses",
        "bytes_max",
        "cache",
        "damaged",
        "found",
        "found_bytes",
        "handles",
        "index",
        "next_position",
        "stretches",
    )

    def __init__(
        self, handles: Handles, cache: TableCache, index: QueueIndex, bytes_max: i64
    ) -> None:
        self.handles = handles
        self.cache = cache
        self.index = index
        self.bytes_max: i64 = bytes_max
        self.stretches: list[Stretch] = []
        self.found: list[Found] = []
        self.found_bytes: i64 = 0
        self.damaged: list[int] = []
        self.next_position: i64 = 0
        self.addresses: dict[bytes, Address] = {}

    def run(self) -> None:
        for stretch in self.stretches:
            tables = self.cache.get(stretch.table, self.handles)
            if not self._read(stretch, tables[0], tables[1]):
                return

    def _read(self, stretch: Stretch, positions: "array[int]", places: "array[int]") -> bool:
        """Read a stretch; False when it has become enough."""
        wanted: list[int] = []
        rows: list[int] = []
        row = 0
        size = len(positions)
        for position in stretch.positions:
            # Most follow the one before, and nothing needs to be looked for.
            if row == size or positions[row] != position:
                row = bisect_left(positions, position, row)
            if row < size and positions[row] == position:
                wanted.append(position)
                rows.append(places[row])
                row += 1
            else:
                self.damaged.append(position)
                self.next_position = position + 1
        file = self.handles.existing(stretch.table.segment)
        first: i64 = 0
        count: i64 = len(wanted)
        while first < count:
            stop = _together(rows, first, self.bytes_max - self.found_bytes)
            if not self._read_part(stretch, wanted, rows, first, stop, file):
                return False
            first = stop
        return True

    def _read_part(
        self,
        stretch: Stretch,
        wanted: list[int],
        rows: list[int],
        first: i64,
        stop: i64,
        file: File,
    ) -> bool:
        """Read rows first..stop-1, which lie close together; False when it has become enough."""
        start: i64 = i64(rows[first]) & PLACE_OFFSET_MASK
        last: i64 = i64(rows[stop - 1])
        end: i64 = (last & PLACE_OFFSET_MASK) + (last >> PLACE_OFFSET_BITS & PLACE_SIZE_MASK)
        data = read_fully(file, start, end - start)
        row: i64 = first
        while row < stop:
            if self.found and self.found_bytes >= self.bytes_max:
                return False
            place: i64 = i64(rows[row])
            position: i64 = i64(wanted[row])
            if not self._take(stretch.table, position, place, data, start):
                self.damaged.append(int(position))
            self.next_position = position + 1
            row += 1
        return True

    def _take(self, table: Table, position: i64, place: i64, data: bytes, start: i64) -> bool:
        """Believe one record; False when it does not fit its place."""
        offset: i64 = place & PLACE_OFFSET_MASK
        at: i64 = offset - start
        if not is_whole(table.segment, data, at, offset):
            return False
        record = Record(data, at, offset)
        if record.kind != BODY or record.size != place >> PLACE_OFFSET_BITS & PLACE_SIZE_MASK:
            return False
        is_first = place & PLACE_IS_REF == 0
        if is_first and (record.queue_id != table.queue_id or record.position != position):
            return False
        message = message_of(record, data, at, self.addresses)
        stored = Stored()
        stored.segment = table.segment
        stored.offset = offset
        stored.size = record.size
        stored.queue_id = table.queue_id
        stored.position = position
        message.stored = stored
        flags: i64 = 0 if place & PLACE_IS_FLEETING else IS_PERSISTENT
        found = Found(position, message, record, flags)
        found.is_redelivered = position < self.index.delivered_below
        self.found.append(found)
        self.found_bytes += len(message.raw)
        return True


def _together(rows: list[int], first: i64, bytes_left: i64) -> i64:
    """Behind which row to stop reading at once, from row `first` on."""
    limit: i64 = bytes_left if bytes_left < READ_BYTES else READ_BYTES
    place: i64 = i64(rows[first])
    start: i64 = place & PLACE_OFFSET_MASK
    end: i64 = start + (place >> PLACE_OFFSET_BITS & PLACE_SIZE_MASK)
    stop: i64 = first + 1
    count: i64 = len(rows)
    while stop < count:
        place = i64(rows[stop])
        offset: i64 = place & PLACE_OFFSET_MASK
        reach: i64 = offset + (place >> PLACE_OFFSET_BITS & PLACE_SIZE_MASK)
        if offset < end or offset - end > GAP_BYTES or reach - start > limit:
            break
        end = reach
        stop += 1
    return stop


def plan_run(job: ReadJob, run: Run, position: i64, count_max: i64) -> i64:
    """Put positions of `run` into `job`.

    Returns how many, -1 when what follows is in the open batch.
    """
    table = run.table
    table.gather()
    taken_to: i64 = table.segment.taken_to
    is_open = taken_to < table.segment.end
    stretch = Stretch(table)
    at = run.next_live(position if position > run.first else run.first)
    while at >= 0 and at <= run.last and len(stretch.positions) < count_max:
        if is_open and not _is_taken(table, at, taken_to):
            break
        stretch.positions.append(int(at))
        at = run.next_live(at + 1)
    count: i64 = len(stretch.positions)
    if count > 0:
        job.stretches.append(stretch)
    elif at >= 0 and is_open:
        return -1
    return count


def _is_taken(table: Table, position: i64, taken_to: i64) -> bool:
    """Whether the body is in a batch that was made before."""
    positions = table.positions
    places = table.places
    assert positions is not None and places is not None, (
        "a segment with an open batch has no footer"
    )
    place: i64 = i64(places[bisect_left(positions, int(position))])
    offset: i64 = place & PLACE_OFFSET_MASK
    return offset + (place >> PLACE_OFFSET_BITS & PLACE_SIZE_MASK) <= taken_to
