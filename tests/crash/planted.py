"""Bugs that the crash states have to find: each takes one precaution of the store away."""

from collections.abc import Callable

import pytest

from penstock.base.chance import Chance
from penstock.simulation.machine.disk import SimDisk, SimFile
from penstock.storage.layout.files import Directory, File, write_fully
from penstock.storage.layout.footer import _table_of, make_footer
from penstock.storage.layout.format import (
    BODY,
    BODY_HEAD_BYTES,
    DATA_AT,
    DIRECTORY_BYTES,
    END,
    END_BYTES,
    END_MAGIC,
    REF,
    REF_BYTES,
)
from penstock.storage.layout.record import unsigned
from penstock.storage.layout.scan import Scan, scan
from penstock.storage.layout.segment import Segment
from penstock.storage.log import batch
from penstock.storage.log.batch import Batch
from penstock.storage.log.compaction import Compactor, Copying
from penstock.storage.log.log import MessageLog
from penstock.storage.recovery import old_segment as wreck
from penstock.storage.recovery import recovery
from penstock.storage.recovery.old_segment import OldSegment
from penstock.storage.recovery.older_copies import OlderCopies
from penstock.storage.recovery.recovery import Recovered, recover
from tests.crash.life import CONFIRMED
from tests.crash.planted_reuse import REUSED, Plant
from tests.crash.rig import Rig


def missing_sync(patch: pytest.MonkeyPatch) -> None:
    """Files are never synced."""

    def sync(file: SimFile) -> None:
        pass

    patch.setattr(SimFile, "sync", sync)


def missing_directory_sync(patch: pytest.MonkeyPatch) -> None:
    """New names are never synced."""

    def sync(disk: SimDisk) -> None:
        pass

    patch.setattr(SimDisk, "sync", sync)


def confirms_early(patch: pytest.MonkeyPatch) -> None:
    """A batch is confirmed when the disk thread gets it."""
    take = Rig.take

    def take_and_confirm(self: Rig, must_sync: bool = True) -> Batch | None:
        entries = list(self._open)
        taken = take(self, must_sync)
        if taken is not None and must_sync:
            self.note(CONFIRMED, [each for each in entries if each not in self._settled])
        return taken

    patch.setattr(Rig, "take", take_and_confirm)


def confirms_the_next_batch(patch: pytest.MonkeyPatch) -> None:
    """A confirm for many covers what has come since the batch was taken."""
    run = Rig.run

    def run_and_confirm(self: Rig, taken: Batch | None) -> None:
        run(self, taken)
        self.note(CONFIRMED, [each for each in self._open if each not in self._settled])

    patch.setattr(Rig, "run", run_and_confirm)


def removes_before_copies_are_safe(patch: pytest.MonkeyPatch) -> None:
    """A compacted segment goes as soon as its copies are written."""

    def is_safe(self: Compactor, copying: Copying) -> bool:
        return True

    patch.setattr(Compactor, "is_safe", is_safe)


def removes_with_the_last(patch: pytest.MonkeyPatch) -> None:
    """A segment goes while one entry still counts."""

    def check_life(self: MessageLog, segment: Segment) -> None:
        if segment.live <= 1 and segment.is_full and not segment.is_gone:
            segment.is_gone = True
            self.dead.append(segment)

    patch.setattr(MessageLog, "_check_life", check_life)


def recovers_without_sync(patch: pytest.MonkeyPatch) -> None:
    """Recovery removes originals before the copies it has found are safe."""

    def sync(file: File) -> None:
        pass

    patch.setattr(wreck, "_sync", sync)


def checks_the_body_only(patch: pytest.MonkeyPatch) -> None:
    """The checksum leaves out the head of a record."""

    def is_whole(segment: Segment, data: bytes, at: int, offset: int) -> bool:
        if not _fits(data, at):
            return False
        start = at + (BODY_HEAD_BYTES if data[at + 12] == BODY else REF_BYTES)
        key = (segment.identity, offset)
        seen = SEEN.setdefault(key, data[start : at + unsigned(data, at + 8)])
        return seen == data[start : at + unsigned(data, at + 8)]

    SEEN.clear()
    _patch_is_whole(patch, is_whole)


SEEN: dict[tuple[bytes, int], bytes] = {}


def believes_sizes(patch: pytest.MonkeyPatch) -> None:
    """A record whose size fits is a record."""

    def is_whole(segment: Segment, data: bytes, at: int, offset: int) -> bool:
        return _fits(data, at)

    _patch_is_whole(patch, is_whole)


def _patch_is_whole(
    patch: pytest.MonkeyPatch, is_whole: Callable[[Segment, bytes, int, int], bool]
) -> None:
    patch.setattr("penstock.storage.layout.scan.is_whole", is_whole)
    patch.setattr("penstock.storage.log.reading.is_whole", is_whole)


def _fits(data: bytes, at: int) -> bool:
    left = len(data) - at
    if left < REF_BYTES:
        return False
    size = unsigned(data, at + 8)
    if data[at + 12] == BODY:
        return BODY_HEAD_BYTES <= size <= left
    return data[at + 12] == REF and size == REF_BYTES


def has_no_identity(patch: pytest.MonkeyPatch) -> None:
    """Checksums do not begin with the identity of the segment."""
    create = Segment.__init__

    def without(self: Segment, number: int, identity: bytes, version: int = 1) -> None:
        create(self, number, identity, version)
        self.seed = 0

    patch.setattr(Segment, "__init__", without)


def appends_behind_a_tear(patch: pytest.MonkeyPatch) -> None:
    """The next life goes on in the last segment, behind whatever is at its end."""

    def until_the_tear(segment: Segment, data: bytes) -> Scan:
        found = scan(segment, data)
        if found.holes:
            start = found.holes[0].start
            found.records = [record for record in found.records if record.offset < start]
            found.end = start
            found.holes = []
        return found

    def no_seal(self: OldSegment) -> int:
        self.segment.end = max(self.size, DATA_AT)
        return 0

    def go_on(
        directory: Directory, chance: Chance, segment_bytes: int, queues: set[int], spares_max: int
    ) -> Recovered:
        recovered = recover(directory, chance, segment_bytes, queues)
        log = recovered.log
        segments = [segment for segment in log.segments.values() if not segment.is_sealed]
        if segments:
            last = segments[-1]
            last.is_full = False
            last.taken_to = last.end
            log.active = last
        return recovered

    patch.setattr(wreck, "scan", until_the_tear)
    patch.setattr(OldSegment, "seal", no_seal)
    patch.setattr(recovery, "recover", go_on)


def ends_at_the_first_hole(patch: pytest.MonkeyPatch) -> None:
    """What stands behind a damaged record is cut off with it."""

    def until_the_hole(segment: Segment, data: bytes) -> Scan:
        found = scan(segment, data)
        if found.holes:
            start = found.holes[0].start
            found.records = [record for record in found.records if record.offset < start]
        return found

    patch.setattr(wreck, "scan", until_the_hole)


def takes_a_short_write_for_all(patch: pytest.MonkeyPatch) -> None:
    """How much a write took is not looked at, on a disk that takes little at a time."""

    def write_once(file: File, at: int, data: bytes) -> None:
        file.write(at, data)

    def write_parts_once(file: File, at: int, parts: list[bytes]) -> None:
        file.write_parts(at, parts)

    create = SimDisk.__init__

    def little(self: SimDisk, image: dict[str, bytes] | None = None) -> None:
        create(self, image)
        self.write_max = 100

    patch.setattr(SimDisk, "__init__", little)
    patch.setattr(batch, "write_fully", write_once)
    patch.setattr(batch, "write_all", write_parts_once)


def acknowledges_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Acknowledgements speak of positions, in whatever segment, and positions are used again."""
    apply = OldSegment._apply

    def forget_tops(self: OldSegment, acks: bytes, live: set[int]) -> None:
        tops = dict(self.tops)
        apply(self, acks, live)
        self.tops = tops

    give = recovery._give_runs

    def give_settled(
        log: object, wrecks: list[OldSegment], directory: Directory, older: OlderCopies
    ) -> None:
        for one in wrecks:
            for other in wrecks:
                for run in list(other.segment.runs):
                    for slot in one.slots:
                        if slot.queue_id == run.table.queue_id and slot.kind == 1:
                            first, last = int(slot.first), int(slot.last)
                            other.segment.live -= wreck._clear_range(run, first, last)
        give(log, wrecks, directory, older)  # type: ignore[arg-type]  # it is the log

    patch.setattr(OldSegment, "_apply", forget_tops)
    patch.setattr(recovery, "_give_runs", give_settled)


def writes_footers_first(patch: pytest.MonkeyPatch) -> None:
    """A footer is written together with the records, not behind safe ones."""

    def footers(self: Batch) -> None:
        for segment in self.full:
            file = self.handles.log(segment)
            write_fully(file, int(segment.end), make_footer(segment))

    sync = Batch.sync

    def footers_then_sync(self: Batch) -> None:
        footers(self)
        sync(self)

    patch.setattr(Batch, "sync", footers_then_sync)
    patch.setattr(Batch, "write_footers", footers)


def trusts_footers(patch: pytest.MonkeyPatch) -> None:
    """A footer is believed whatever its checksums say."""

    def read_footer(segment: Segment, file: File, size: int) -> bool:
        end_at = size - END_BYTES
        end = file.read(end_at, END_BYTES) if end_at >= DATA_AT else b""
        if len(end) < END_BYTES:
            return False
        magic, _, data_end, directory_at, count, _ = END.unpack(end[: END.size])
        if magic != END_MAGIC or directory_at + count * DIRECTORY_BYTES != end_at:
            return False
        for at in range(directory_at, end_at, DIRECTORY_BYTES):
            row = file.read(at, DIRECTORY_BYTES)
            segment.tables.append(_table_of(segment, row))
        segment.end = data_end
        return True

    patch.setattr(wreck, "read_footer", read_footer)


def takes_parts_of_groups(patch: pytest.MonkeyPatch) -> None:
    """What is whole of a torn group counts."""

    def keep_all(result: Scan, data: bytes) -> None:
        pass

    patch.setattr("penstock.storage.layout.scan._drop_torn_groups", keep_all)


PLANTED: dict[str, tuple[Plant, str]] = {
    "missing sync": (missing_sync, "one_queue"),
    "missing directory sync": (missing_directory_sync, "one_queue"),
    "confirms early": (confirms_early, "one_queue"),
    "confirms the next batch": (confirms_the_next_batch, "overlapping"),
    "removes before copies are safe": (removes_before_copies_are_safe, "compacted"),
    "removes with the last": (removes_with_the_last, "compacted"),
    "recovers without sync": (recovers_without_sync, "killed_while_compacting"),
    "believes sizes": (believes_sizes, "one_queue"),
    "has no identity": (has_no_identity, "deleted"),
    "appends behind a tear": (appends_behind_a_tear, "one_queue"),
    "takes a short write for all": (takes_a_short_write_for_all, "large"),
    "acknowledges everywhere": (acknowledges_everywhere, "settled_at_once"),
    "writes footers first": (writes_footers_first, "one_queue"),
    "trusts footers": (trusts_footers, "one_queue"),
    "takes parts of groups": (takes_parts_of_groups, "grouped"),
    **REUSED,
}
"""What finds it: the crash states of a history."""

SECOND_LIFE = {"appends behind a tear", "acknowledges everywhere"}
"""Those that show in a second life only."""

FLIPPED: dict[str, tuple[Plant, str]] = {
    "checks the body only": (checks_the_body_only, "fan_out"),
    "believes sizes": (believes_sizes, "fan_out"),
    "ends at the first hole": (ends_at_the_first_hole, "settled_at_once"),
    "trusts footers": (trusts_footers, "one_queue"),
}
"""What finds it: single bits of a history, turned over."""
