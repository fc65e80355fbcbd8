"""Tables and runs of a segment that was written in an earlier life, from its records or footer."""

from array import array

from mypy_extensions import i64

from penstock.storage.layout.files import File
from penstock.storage.layout.footer import read_table
from penstock.storage.layout.format import BODY, IS_PERSISTENT, PLACE_IS_FLEETING, place_of
from penstock.storage.layout.record import Record
from penstock.storage.layout.scan import Hole, bodies_of
from penstock.storage.layout.segment import GAP_MAX, Run, Segment, Table


def tables_from(segment: Segment, records: list[Record]) -> list[Record]:
    """Give `segment` tables for `records`. Returns references whose body is not among them."""
    bodies = bodies_of(records)
    orphans: list[Record] = []
    queues: dict[int, dict[int, tuple[int, int]]] = {}
    for record in records:
        body = record if record.kind == BODY else bodies.get(int(record.body_offset))
        if body is None:
            orphans.append(record)
            continue
        is_ref = record.kind != BODY
        place = place_of(body.offset, body.size, is_ref, record.flags & IS_PERSISTENT != 0)
        rows = queues.setdefault(int(record.queue_id), {})
        rows[int(record.position)] = (int(place), int(record.size))
    for queue_id, rows in queues.items():
        table: Table | None = None
        for position in sorted(rows):
            if table is None or position - table.last > GAP_MAX:
                table = Table(segment, queue_id)
                segment.tables.append(table)
            place, size = rows[position]
            table.add(position, place, size)
    return orphans


def rebuild(table: Table, records: list[Record]) -> "tuple[array[int], array[int]]":
    """(positions, places) of one table whose footer is damaged, from the segment's records."""
    found = Segment(table.segment.number, table.segment.identity, table.segment.version)
    tables_from(found, records)
    positions: array[int] = array("q")
    places: array[int] = array("q")
    for other in found.tables:
        other.gather()
        assert other.positions is not None and other.places is not None, "it was made just now"
        if other.queue_id == table.queue_id:
            for position, place in zip(other.positions, other.places, strict=True):
                if table.first <= position <= table.last:
                    positions.append(position)
                    places.append(place)
    return positions, places


def runs_from(segment: Segment, table: Table, file: File, fleeting: list[Run]) -> bool:
    """Give `segment` a run of everything persistent in `table`, and `fleeting` one of everything
    else, which does not come back; False when the table is damaged."""
    run = Run(table, table.first, table.last, bytearray())
    if table.positions is None and table.fleeting_count == 0 and _is_dense(table):
        run.fill()
    else:
        rows = rows_of(table, file)
        if rows is None:
            return False
        others = Run(table, table.first, table.last, bytearray())
        for position, place in zip(rows[0], rows[1], strict=True):
            if place & PLACE_IS_FLEETING == 0:
                run.add(position)
            else:
                others.add(position)
        run.last = table.last
        if others.live > 0:
            fleeting.append(others)
    segment.runs[run] = None
    segment.live += run.live
    return True


def rows_of(table: Table, file: File) -> "tuple[array[int], array[int]] | None":
    """(positions, places) of a table wherever they are; None when they are damaged."""
    table.gather()
    if table.positions is not None and table.places is not None:
        return table.positions, table.places
    return read_table(table, file)


def _is_dense(table: Table) -> bool:
    return table.last - table.first + 1 == table.count


def lost_of(orphans: list[Record], holes: list[Hole], synced_to: i64) -> list[tuple[int, int]]:
    """(queue, position) of what was safe once and is not there; queue 0 when it cannot be said."""
    lost = [(int(hole.queue_id), int(hole.position)) for hole in holes if hole.start < synced_to]
    for record in orphans:
        if record.body_offset < synced_to:
            lost.append((int(record.queue_id), int(record.position)))
    return lost
