"""One queue's runs out of all segments: in order, disjoint, every position once."""

from penstock.storage.layout.files import Directory
from penstock.storage.layout.format import PLACE_IS_FLEETING, log_name
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.segment import Run
from penstock.storage.layout.tables import rows_of


def merge(index: QueueIndex, runs: list[Run], directory: Directory) -> None:
    """Give `index` its `runs`, those of newer segments last. Raises: OSError."""
    ordered = sorted(runs, key=_first)
    group: list[Run] = []
    reach = 0
    for run in ordered:
        if group and run.first > reach:
            _settle_group(index, group, directory)
            group = []
        reach = max(reach, int(run.last)) if group else int(run.last)
        group.append(run)
    if group:
        _settle_group(index, group, directory)


def _first(run: Run) -> int:
    return int(run.first)


def _number(run: Run) -> int:
    return int(run.table.segment.number)


def _settle_group(index: QueueIndex, group: list[Run], directory: Directory) -> None:
    """Runs that overlap: what a newer segment has counts, even if it is settled there."""
    if len(group) > 1:
        _drop_older(group, directory)
        group = _cut(group)
    for run in group:
        if run.live > 0:
            index.runs.append(run)
        else:
            run.table.segment.runs.pop(run, None)


def _drop_older(group: list[Run], directory: Directory) -> None:
    seen: set[int] = set()
    for run in sorted(group, key=_number, reverse=True):
        for position in _persistent(run, directory):
            if position not in seen:
                seen.add(position)
            elif run.has(position) and run.clear(position):
                run.table.segment.live -= 1


def _persistent(run: Run, directory: Directory) -> list[int]:
    """Positions that the run's table has in its stretch, settled or not."""
    file = directory.open(log_name(run.table.segment.number))
    try:
        rows = rows_of(run.table, file)
    finally:
        file.close()
    if rows is None:
        # Those that count are all that can be said.
        return _live(run)
    found: list[int] = []
    for position, place in zip(rows[0], rows[1], strict=True):
        if place & PLACE_IS_FLEETING == 0 and run.first <= position <= run.last:
            found.append(position)
    return found


def _live(run: Run) -> list[int]:
    found: list[int] = []
    at = int(run.next_live(run.first))
    while 0 <= at <= run.last:
        found.append(at)
        at = int(run.next_live(at + 1))
    return found


def _cut(group: list[Run]) -> list[Run]:
    """The same positions in runs that do not overlap."""
    owners: list[tuple[int, Run]] = []
    for run in group:
        for position in _live(run):
            owners.append((position, run))
        run.table.segment.runs.pop(run, None)
    owners.sort(key=_position)
    result: list[Run] = []
    before: Run | None = None
    for position, run in owners:
        if run is not before:
            part = Run(run.table, position, position, bytearray())
            run.table.segment.runs[part] = None
            result.append(part)
            before = run
        result[-1].add(position)
    return result


def _position(owner: tuple[int, Run]) -> int:
    return owner[0]
