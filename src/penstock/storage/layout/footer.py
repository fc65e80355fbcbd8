"""The footer of a full segment: where everything in it lies, so that nobody has to look for it."""

import sys
from array import array

from penstock.storage.layout.checksum import VERSION_CRC32
from penstock.storage.layout.files import File, read_fully
from penstock.storage.layout.format import (
    DATA_AT,
    DIRECTORY_BYTES,
    DIRECTORY_ROW,
    END,
    END_BYTES,
    END_MAGIC,
    U32,
)
from penstock.storage.layout.segment import Segment, Table


def make_footer(segment: Segment) -> bytes:
    """The footer of `segment`, whose tables are still in memory; tells them where they will lie."""
    parts: list[bytes] = []
    rows: list[bytes] = []
    at = int(segment.end)
    seed = int(segment.seed)
    for table in segment.tables:
        data = _table_bytes(table)
        checksum = segment.extend(seed, data) ^ (at & 0xFFFFFFFF)
        table.at = at
        table.checksum = checksum
        rows.append(_directory_row(table))
        parts.append(data)
        at += len(data)
    parts.extend(rows)
    number = int(segment.number)
    end = END.pack(END_MAGIC, segment.identity, int(segment.end), at, len(rows), number)
    checksum = segment.extend(seed, b"".join(rows) + end)
    parts.append(end)
    parts.append(U32.pack(checksum))
    return b"".join(parts)


def _table_bytes(table: Table) -> bytes:
    table.gather()
    assert table.positions is not None and table.places is not None, "a table has one footer"
    if sys.byteorder == "little":
        return table.positions.tobytes() + table.places.tobytes()
    swapped = table.positions + table.places
    swapped.byteswap()
    return swapped.tobytes()


def _directory_row(table: Table) -> bytes:
    return DIRECTORY_ROW.pack(
        int(table.queue_id),
        int(table.first),
        int(table.last),
        int(table.record_bytes),
        int(table.at),
        int(table.count),
        int(table.fleeting_count),
        int(table.checksum),
    )


def read_footer(segment: Segment, file: File, size: int) -> bool:
    """Give `segment` its end and its tables from the footer; False when there is no whole one.

    size: of the file in bytes.
    """
    end_at = size - END_BYTES
    if end_at < DATA_AT:
        return False
    end = read_fully(file, end_at, END_BYTES)
    if len(end) < END_BYTES:
        return False
    magic, identity, data_end, directory_at, count, number = END.unpack(end[: END.size])
    if magic != END_MAGIC or identity != segment.identity:
        return False
    # An earlier life of the file had another number; versions 1 and 2 have none here.
    if number != segment.number and (number != 0 or segment.version > VERSION_CRC32):
        return False
    if not DATA_AT <= data_end <= directory_at or directory_at + count * DIRECTORY_BYTES != end_at:
        return False
    directory = read_fully(file, directory_at, end_at - directory_at)
    wanted = U32.unpack(end[END.size : END.size + 4])[0]
    if segment.extend(int(segment.seed), directory + end[: END.size]) != wanted:
        return False
    for at in range(0, len(directory), DIRECTORY_BYTES):
        segment.tables.append(_table_of(segment, directory[at : at + DIRECTORY_BYTES]))
    segment.end = data_end
    return True


def _table_of(segment: Segment, row: bytes) -> Table:
    queue_id, first, last, record_bytes, at, count, fleeting, checksum = DIRECTORY_ROW.unpack(row)
    table = Table(segment, queue_id)
    table.first = first
    table.last = last
    table.record_bytes = record_bytes
    table.at = at
    table.count = count
    table.fleeting_count = fleeting
    table.checksum = checksum
    table.release()
    return table


def read_table(table: Table, file: File) -> "tuple[array[int], array[int]] | None":
    """(positions, places) of a table from its footer; None when they are damaged."""
    segment = table.segment
    count = int(table.count)
    data = read_fully(file, table.at, count * 16)
    if len(data) != count * 16:
        return None
    if segment.extend(int(segment.seed), data) ^ (int(table.at) & 0xFFFFFFFF) != table.checksum:
        return None
    positions = array("q")
    positions.frombytes(data[: count * 8])
    places = array("q")
    places.frombytes(data[count * 8 :])
    if sys.byteorder != "little":
        positions.byteswap()
        places.byteswap()
    return positions, places
