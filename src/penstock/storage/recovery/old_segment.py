"""One segment of an earlier life: reading it, applying its acknowledgements, giving it a footer."""

from collections.abc import Iterable, Sequence
from errno import EDQUOT, ENOSPC

from penstock.storage.layout.acks import Slot, read_slots, safe_to
from penstock.storage.layout.checksum import LOG_VERSIONS
from penstock.storage.layout.files import Directory, File, SyncFailed, read_fully, write_fully
from penstock.storage.layout.footer import make_footer, read_footer
from penstock.storage.layout.format import (
    ACKS,
    DAMAGED,
    DATA_AT,
    DELIVERED,
    END_BYTES,
    HEADER_BYTES,
    LOG,
    RETURNED,
    SETTLED,
    SLOT_BYTES,
    acks_name,
    footer_identity,
    log_name,
    number_in,
    parse_header,
    was_used,
)
from penstock.storage.layout.scan import scan
from penstock.storage.layout.segment import NO_SEGMENT, Run, Segment
from penstock.storage.layout.tables import lost_of, runs_from, tables_from
from penstock.storage.recovery.headerless import Claims, claims_of


class OldSegment:
    """segment: what it became; lost: (queue, position) of entries that were safe once; tops: for
    each live queue the highest position that the files speak of; delivered: the highest mark of
    each; returned: how often what the segment has came back, by queue and position; fleeting: what
    was only paged, and does not come back; set_aside: what is said of a file that cannot be read,
    "" for none, claims: what it still tells; trusts_footers: what stands behind a footer was safe
    when it was written; footer_at: where one began that was not trusted."""

    __slots__ = (
        "claims",
        "delivered",
        "directory",
        "fleeting",
        "footer_at",
        "ignored_acks",
        "lost",
        "names",
        "number",
        "returned",
        "segment",
        "set_aside",
        "settled",
        "size",
        "slots",
        "tops",
        "trusts_footers",
    )

    def __init__(
        self, number: int, directory: Directory, names: list[str], trusts_footers: bool = True
    ) -> None:
        self.number = number
        self.directory = directory
        self.names = names
        self.segment: Segment = NO_SEGMENT
        self.size = 0
        self.slots: list[Slot] = []
        self.fleeting: list[Run] = []
        self.lost: list[tuple[int, int]] = []
        self.tops: dict[int, int] = {}
        self.delivered: dict[int, int] = {}
        self.returned: dict[int, dict[int, int]] = {}
        self.ignored_acks = 0
        self.set_aside = ""
        self.claims = Claims()
        self.trusts_footers = trusts_footers
        self.footer_at = 0

    def read(self, live_queue_ids: set[int], is_newest: bool, others: Sequence[Segment]) -> bool:
        """Read the segment and its acknowledgements; False when there is none. others: the segments
        before it. Raises: OSError."""
        name = log_name(self.number)
        if name not in self.names:
            return False
        acks = self._read_acks()
        file = self.directory.open(name)
        try:
            self.size = file.size()
            found = identity_of(self.number, file, self.size, acks)
            if found is not None:
                self._read_log(file, found, acks, live_queue_ids)
            is_damaged = found is None and is_beheaded(self.number, file, is_newest, others)
            if is_damaged:
                self.claims = claims_of(read_fully(file, 0, self.size), others)
        finally:
            file.close()
        if found is None:
            if is_damaged:
                self.directory.rename(name, name + DAMAGED)
                self.set_aside = (
                    f"the beginning of {name} is damaged, so nothing in it can be read; it was set "
                    f"aside as {name}{DAMAGED}"
                )
            return False
        self._apply(acks, live_queue_ids)
        return True

    def _read_acks(self) -> bytes:
        name = acks_name(self.number)
        if name not in self.names:
            return b""
        file = self.directory.open(name)
        try:
            return read_fully(file, 0, file.size())
        finally:
            file.close()

    def _read_log(self, file: File, found: tuple[int, bytes], acks: bytes, live: set[int]) -> None:
        segment = Segment(self.number, found[1], found[0])
        is_sealed = self._read_sealed(segment, file, live)
        if is_sealed and not self.trusts_footers:
            self.footer_at = int(segment.end)
        if not is_sealed or not self.trusts_footers:
            segment = Segment(self.number, found[1], found[0])
            slots = self._slots_of(segment, acks)
            told = 0 if slots is None else safe_to(slots[0])
            result = scan(segment, read_fully(file, 0, self.size), told)
            orphans = tables_from(segment, result.records)
            segment.end = result.end
            self.fleeting = []
            self.lost = lost_of(orphans, result.holes, int(result.synced_to))
            for table in segment.tables:
                if table.queue_id in live:
                    runs_from(segment, table, file, self.fleeting)
        for table in segment.tables:
            queue_id = int(table.queue_id)
            if queue_id in live:
                self.tops[queue_id] = max(self.tops.get(queue_id, 0), int(table.last))
        segment.is_created = True
        segment.was_used = has_earlier(self.number, file)
        segment.is_full = True
        segment.taken_to = segment.end
        segment.written_to = segment.end
        segment.synced_to = segment.end
        self.segment = segment

    def _read_sealed(self, segment: Segment, file: File, live: set[int]) -> bool:
        if not read_footer(segment, file, self.size):
            return False
        for table in segment.tables:
            if table.queue_id not in live:
                continue
            if not runs_from(segment, table, file, self.fleeting):
                return False
        segment.is_sealed = True
        return True

    def _slots_of(self, segment: Segment, acks: bytes) -> tuple[list[Slot], int] | None:
        """See read_slots; None when they are those of another segment under this number."""
        head = parse_header(acks[:HEADER_BYTES], ACKS, self.number)
        if head is None and len(acks) >= HEADER_BYTES + SLOT_BYTES:
            # Its slots say by themselves whose they are.
            head = (int(segment.version), segment.identity)
        if head is None or head[1] != segment.identity:
            return None
        return read_slots(segment, acks)

    def _apply(self, acks: bytes, live: set[int]) -> None:
        segment = self.segment
        found = self._slots_of(segment, acks)
        if found is None:
            return
        slots, self.ignored_acks = found
        segment.acks_end = len(acks) // SLOT_BYTES * SLOT_BYTES
        self.slots = slots
        queues = _by_queue(segment.runs)
        fleeting = _by_queue(self.fleeting)
        for slot in slots:
            queue_id = int(slot.queue_id)
            if queue_id in live:
                others = fleeting.get(queue_id, [])
                self._apply_slot(slot, queue_id, queues.get(queue_id, []), others)

    def _apply_slot(self, slot: Slot, queue_id: int, runs: list[Run], fleeting: list[Run]) -> None:
        if slot.kind == DELIVERED:
            self.delivered[queue_id] = max(self.delivered.get(queue_id, 0), int(slot.last))
            self.tops[queue_id] = max(self.tops.get(queue_id, 0), int(slot.last) - 1)
        elif slot.kind == SETTLED:
            self.tops[queue_id] = max(self.tops.get(queue_id, 0), int(slot.last))
            cleared = 0
            for run in runs:
                cleared += _clear_range(run, int(slot.first), int(slot.last))
            self.segment.live -= cleared
            for run in fleeting:
                cleared += _clear_range(run, int(slot.first), int(slot.last))
            if cleared == 0:
                self.ignored_acks += 1
        elif slot.kind == RETURNED:
            self.tops[queue_id] = max(self.tops.get(queue_id, 0), int(slot.last))
            for run in runs:
                self._note_returned(slot, run, self.returned.setdefault(queue_id, {}))

    def _note_returned(self, slot: Slot, run: Run, counts: dict[int, int]) -> None:
        last = min(int(slot.last), int(run.last))
        at = int(run.next_live(max(int(slot.first), int(run.first))))
        while 0 <= at <= last:
            counts[at] = max(counts.get(at, 0), int(slot.count))
            at = int(run.next_live(at + 1))

    def count(self, lost: dict[int, int]) -> None:
        """Add what is lost and was not settled to `lost`, by queue."""
        for queue_id, position in self.lost:
            is_settled = any(
                slot.kind == SETTLED
                and slot.queue_id == queue_id
                and slot.first <= position <= slot.last
                for slot in self.slots
            )
            if not is_settled:
                known = queue_id if queue_id in self.tops else 0
                lost[known] = lost.get(known, 0) + 1

    def remove_strange_acks(self) -> None:
        """A file that nothing could be read of would be in the way of a new one."""
        name = acks_name(self.number)
        if self.segment.acks_end == 0 and name in self.names:
            self.directory.remove(name)

    def seal(self) -> int:
        """Cut off what is torn, sync, and write the footer. Returns the bytes that were torn.

        Without room for a footer the segment goes on without one. Raises: OSError, SyncFailed.
        """
        segment = self.segment
        file = self.directory.open(log_name(self.number))
        try:
            cut = max(self.size - int(segment.end), 0)
            if cut > 0:
                file.truncate(int(segment.end))
            if self.footer_at == segment.end:
                cut = 0
            _sync(file)
            write_fully(file, segment.end, make_footer(segment))
            _sync(file)
        except SyncFailed:
            raise
        except OSError as error:
            if error.errno not in (ENOSPC, EDQUOT):
                raise
            return cut
        finally:
            file.close()
        segment.is_sealed = True
        for table in segment.tables:
            table.release()
        return cut


def identity_of(number: int, file: File, size: int, acks: bytes) -> tuple[int, bytes] | None:
    """(version, identity) of a log of `size` bytes: it is written in four places. acks: what its
    file of acknowledgements holds. None when none of them can be read. Raises: OSError."""
    for at in (0, HEADER_BYTES):
        found = parse_header(read_fully(file, at, HEADER_BYTES), LOG, number)
        if found is not None:
            return found
    return parse_header(acks[:HEADER_BYTES], ACKS, number) or _footer(number, file, size)


def _footer(number: int, file: File, size: int) -> tuple[int, bytes] | None:
    if size < DATA_AT + END_BYTES:
        return None
    identity = footer_identity(read_fully(file, size - END_BYTES, END_BYTES))
    for version in LOG_VERSIONS:
        if identity and read_footer(Segment(number, identity, version), file, size):
            return version, identity
    return None


def is_beheaded(number: int, file: File, is_newest: bool, others: Sequence[Segment]) -> bool:
    """Whether `file`, whose headers cannot be read, was damaged after it had been safe. A crash
    while the newest segment was begun leaves the like, and nothing in it was safe; nor was it where
    an earlier life of the file begins it. others: as for claims_of. Raises: OSError."""
    size = file.size()
    if size <= DATA_AT or is_of_earlier(number, file):
        return False
    return not is_newest or claims_of(read_fully(file, 0, size), others).was_safe


def is_of_earlier(number: int, file: File) -> bool:
    """Whether `file` begins with the header of another segment, whose file it was. Raises:
    OSError."""
    return any(number_in(head) not in (-1, number) for head in _heads(file))


def has_earlier(number: int, file: File) -> bool:
    """Whether something of another segment may stand in `file`, segment `number`. Raises:
    OSError."""
    return any(number_in(head) == number and was_used(head) for head in _heads(file))


def _heads(file: File) -> list[bytes]:
    return [read_fully(file, at, HEADER_BYTES) for at in (0, HEADER_BYTES)]


def _sync(file: File) -> None:
    try:
        file.sync()
    except OSError as error:
        raise SyncFailed(error.errno, "syncing the message store failed") from error


def _by_queue(runs: Iterable[Run]) -> dict[int, list[Run]]:
    found: dict[int, list[Run]] = {}
    for run in runs:
        found.setdefault(int(run.table.queue_id), []).append(run)
    return found


def _clear_range(run: Run, first: int, last: int) -> int:
    cleared = 0
    at = int(run.next_live(max(first, int(run.first))))
    while 0 <= at <= min(last, int(run.last)):
        run.clear(at)
        cleared += 1
        at = int(run.next_live(at + 1))
    return cleared
