"""What a crash has left: which messages are there, what is cut off, and what was lost.

    footer whole          the segment was full and safe: believed, records are checked when read
    no footer             scanned; what is torn at its end is cut off and the cut is synced; then it
                          gets a footer, and a new segment is begun for what comes (F5, F6)
    a hole in the middle  the records behind it are found again; it is damage where everything was
                          safe once, and a torn write where it was not (F11, F13)
    one entry twice       a crash while a segment was compacted: the newer copy counts, and the
                          older is settled; how often it came back, as far as either says, is
                          written beside the newer one
    no acknowledgements   everything in the segment counts: redeliveries
    no header             the newest segment was just begun: nothing in it was safe; in any other,
                          or when a record says that something was, it is damage: set aside
    header of another     the file was to be used again when the power went: nothing in it was safe
    a spare               removed: what is in it is of no segment
    only queues whose     set aside: the catalogue is older than the messages, as after restoring
    number was never      half a backup
    given

Nothing is removed before everything that stays is synced: what a killed process has written may
still be in memory only. A recovery that is cut short is done again by the same rules.
"""

from penstock.base.chance import Chance
from penstock.storage.layout.files import Directory
from penstock.storage.layout.format import (
    ORPHANED,
    OUTBOX_QUEUE_ID,
    PLACE_IS_FLEETING,
    SPARE_SUFFIX,
    acks_name,
    is_spare,
    log_name,
    number_aside,
    number_of,
)
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.segment import Run, Segment
from penstock.storage.layout.tables import rows_of
from penstock.storage.log.log import MessageLog
from penstock.storage.log.roster import IS_ACKED, IS_LOG, Entry
from penstock.storage.recovery.counts import carry_counts
from penstock.storage.recovery.old_segment import OldSegment
from penstock.storage.recovery.older_copies import OlderCopies


def merge(index: QueueIndex, runs: list[Run], directory: Directory, older: OlderCopies) -> None:
    """Give `index` its `runs`, those of newer segments last; what they have twice is noted in
    `older`. Raises: OSError."""
    ordered = sorted(runs, key=_first)
    group: list[Run] = []
    reach = 0
    for run in ordered:
        if group and run.first > reach:
            _settle_group(index, group, directory, older)
            group = []
        reach = max(reach, int(run.last)) if group else int(run.last)
        group.append(run)
    if group:
        _settle_group(index, group, directory, older)


def _first(run: Run) -> int:
    return int(run.first)


def _number(run: Run) -> int:
    return int(run.table.segment.number)


def _settle_group(
    index: QueueIndex, group: list[Run], directory: Directory, older: OlderCopies
) -> None:
    """Runs that overlap: what a newer segment has counts, even if it is settled there."""
    if len(group) > 1:
        _drop_older(group, directory, older)
        group = _cut(group)
    for run in group:
        if run.live > 0:
            index.runs.append(run)
        else:
            run.table.segment.runs.pop(run, None)


def _drop_older(group: list[Run], directory: Directory, older: OlderCopies) -> None:
    seen: set[int] = set()
    for run in sorted(group, key=_number, reverse=True):
        for position in _persistent(run, directory):
            if position not in seen:
                seen.add(position)
            elif run.has(position) and run.clear(position):
                run.table.segment.live -= 1
                older.note(run.table.segment, int(run.table.queue_id), position)


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


class Report:
    """What recovery had to do. cut_bytes: torn ends; old_bytes: ends of files that had been used
    before, torn or of an earlier life; lost: entries that were safe once and are gone, by queue,
    0 where the queue cannot be told; ignored_acks: acknowledgements that were
    damaged or of entries that are not there; unreadable: files whose beginning is damaged, set
    aside under the name given; queue_id_max: of all records, also of queues that do not live;
    orphan_count: files set aside because their queues were never heard of."""

    __slots__ = (
        "cut_bytes",
        "ignored_acks",
        "lost",
        "old_bytes",
        "orphan_count",
        "queue_id_max",
        "unreadable",
    )

    def __init__(self) -> None:
        self.cut_bytes = 0
        self.old_bytes = 0
        self.ignored_acks = 0
        self.lost: dict[int, int] = {}
        self.unreadable: list[str] = []
        self.queue_id_max = 0
        self.orphan_count = 0


class Recovered:
    """log: ready to append; queues: by their number, one for each that was asked for."""

    __slots__ = ("log", "queues", "report")

    def __init__(self, log: MessageLog, queues: dict[int, QueueIndex], report: Report) -> None:
        self.log = log
        self.queues = queues
        self.report = report


def recover(
    directory: Directory,
    chance: Chance,
    segment_bytes: int,
    live_queue_ids: set[int],
    trusts_footers: bool = True,
    spares_max: int = 0,
    queue_id_known: int = OUTBOX_QUEUE_ID,
) -> Recovered:
    """Bring back what the queues `live_queue_ids` have in `directory`; what others had is removed.

    segment_bytes: of new segments; trusts_footers: no footer was written before what stands before
    it was safe (see MessageLog.make_lazy), otherwise every record is looked at; spares_max: see
    MessageLog; queue_id_known: the highest number that a queue was ever given, as far as the caller
    knows. Raises: OSError; SyncFailed, after which nothing may be written; OperatorError for a
    format that is unknown here.
    """
    log = MessageLog(directory, chance, segment_bytes, spares_max=spares_max)
    report = Report()
    names = directory.names()
    numbers = sorted({number for number in map(number_of, names) if number >= 0})
    wrecks: list[OldSegment] = []
    beheaded: list[OldSegment] = []
    others: list[Segment] = []
    for number in numbers:
        wreck = OldSegment(number, directory, names, trusts_footers)
        if wreck.read(live_queue_ids, number == numbers[-1], others):
            wrecks.append(wreck)
            others.append(wreck.segment)
        elif wreck.set_aside:
            report.unreadable.append(wreck.set_aside)
            beheaded.append(wreck)
    for queue_id in sorted(live_queue_ids):
        log.open_queue(queue_id)
    older = OlderCopies()
    _give_runs(log, wrecks, directory, older)
    for wreck in beheaded:
        _count_claims(log, wreck, report.lost)
    for wreck in wrecks:
        wreck.count(report.lost)
        report.ignored_acks += wreck.ignored_acks
        for table in wreck.segment.tables:
            if table.queue_id < OUTBOX_QUEUE_ID:
                report.queue_id_max = max(report.queue_id_max, int(table.queue_id))
        for queue_id, top in wreck.tops.items():
            index = log.queues[queue_id]
            index.next_position = max(int(index.next_position), top + 1)
            index.delivered_below = max(
                int(index.delivered_below), wreck.delivered.get(queue_id, 0)
            )
            index.delivered_written = index.delivered_below
    _mend(log, wrecks, report, directory)
    carry_counts(log, wrecks, directory, older.settle(wrecks))
    for wreck in wrecks:
        if wreck.segment.live == 0 and _is_orphan(wreck, queue_id_known):
            _set_aside(wreck, directory, names)
            report.orphan_count += 1
    # What was set aside may be given its name again.
    log.next_number = max([0, *numbers, *map(number_aside, names)]) + 1
    _clear(directory, numbers, {int(number) for number in log.segments}, names)
    return Recovered(log, {key: log.queues[key] for key in sorted(live_queue_ids)}, report)


def listed(log: MessageLog, directory: Directory) -> list[Entry]:
    """What the roster of the life that begins says of `log`, which has come out of `recover`.
    Raises: OSError."""
    names = set(directory.names())
    entries: list[Entry] = []
    for number, segment in log.segments.items():
        kind = IS_ACKED if acks_name(number) in names else IS_LOG
        entries.append(Entry(kind, number, 0, 0, segment.live))
    return entries


def _give_runs(
    log: MessageLog, wrecks: list[OldSegment], directory: Directory, older: OlderCopies
) -> None:
    runs: dict[int, list[Run]] = {}
    for wreck in wrecks:
        for run in wreck.segment.runs:
            runs.setdefault(int(run.table.queue_id), []).append(run)
    for queue_id, found in runs.items():
        merge(log.queues[queue_id], found, directory, older)


def _count_claims(log: MessageLog, wreck: OldSegment, lost: dict[int, int]) -> None:
    """Add what a segment had that cannot be read, and no other has a copy of, to `lost`, if it had
    been safe as far as can be told: of those that were begun one after the other when the power
    went an older one may be torn as well."""
    if not wreck.claims.was_safe:
        return
    for queue_id, position in wreck.claims.entries:
        index = log.queues.get(queue_id)
        if index is None:
            continue
        run = index.find(position)
        if run is None or not run.has(position):
            lost[queue_id] = lost.get(queue_id, 0) + 1


def _mend(log: MessageLog, wrecks: list[OldSegment], report: Report, directory: Directory) -> None:
    """Make safe what stays, and forget what does not."""
    for wreck in wrecks:
        segment = wreck.segment
        if segment.live == 0:
            continue
        if not segment.is_sealed:
            cut = wreck.seal()
            if segment.was_used:
                report.old_bytes += cut
            else:
                report.cut_bytes += cut
        wreck.remove_strange_acks()
        log.segments[int(segment.number)] = segment
    if wrecks:
        # New names, too, may be in memory only.
        directory.sync()


def _is_orphan(wreck: OldSegment, queue_id_known: int) -> bool:
    """Whether `wreck` has messages of a queue that was declared after all that is known."""
    tables = wreck.segment.tables
    return any(queue_id_known < table.queue_id < OUTBOX_QUEUE_ID for table in tables)


def _set_aside(wreck: OldSegment, directory: Directory, names: list[str]) -> None:
    for name in (log_name(wreck.number), acks_name(wreck.number)):
        if name in names:
            directory.rename(name, name + ORPHANED)


def _clear(directory: Directory, numbers: list[int], kept: set[int], names: list[str]) -> None:
    """Remove the files of segments that nobody needs, logs before acknowledgements, and spares: a
    loss of power may still undo the names of those that a killed process has left."""
    has_removed = False
    for suffix in (SPARE_SUFFIX, ".log", ".acks"):
        for name in directory.names():
            is_gone = number_of(name) >= 0 and number_of(name) not in kept
            if name.endswith(suffix) and (is_gone or is_spare(name)):
                directory.remove(name)
                has_removed = True
        if has_removed:
            directory.sync()


def empty(directory: Directory) -> None:
    """Remove every file of a store: how a scratch log begins. Raises: OSError."""
    for name in directory.names():
        if number_of(name) >= 0 or is_spare(name):
            directory.remove(name)
