"""Rows of the failure list that hold for the log alone: a disk in memory, in its crash states."""

import os

import pytest

from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import CREATE, REMOVE, RENAME, SimDisk
from penstock.storage.layout.files import read_fully
from penstock.storage.layout.footer import read_footer
from penstock.storage.layout.format import (
    DATA_AT,
    HEADER_BYTES,
    LOG,
    PLACE_OFFSET_BITS,
    PLACE_OFFSET_MASK,
    PLACE_SIZE_MASK,
    log_name,
    number_of,
    parse_header,
)
from penstock.storage.layout.record import is_whole
from penstock.storage.layout.segment import Segment
from penstock.storage.layout.tables import rows_of
from penstock.storage.log.roster import ROSTERS
from tests.crash import histories
from tests.crash.histories import HISTORIES
from tests.crash.rig import Rig, check, contents, recovered_from

LIVES = int(os.environ.get("PENSTOCK_TWO_LIVES", "100"))
"""How many seeds live twice; `make crash` takes 1,000."""


class ShortDisk(SimDisk):
    """Its `number`-th write takes `share` percent of what it is given and says so."""

    def __init__(self, number: int, share: int) -> None:
        super().__init__()
        self.number = number
        self.share = share
        self.count = 0

    def take_room(self, size: int) -> int:
        self.count += 1
        return size * self.share // 100 if self.count == self.number else size


@pytest.mark.parametrize("name", ["one_queue", "large", "compacted"])
def test_f03_one_short_write_anywhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever write takes less than it was given, what was confirmed is there and legible."""
    number = 0
    while True:
        number += 1
        disk = ShortDisk(number, share=number * 37 % 100)
        monkeypatch.setattr(histories, "SimDisk", lambda disk=disk: disk)
        rig = HISTORIES[name]()
        check(end_of(rig).certain(), rig.expected(), rig.segment_bytes)
        if disk.count < number:
            break
    assert number > 10


def end_of(rig: Rig) -> Replay:
    """The disk after everything that was done."""
    replay = Replay(rig.disk)
    while replay.step():
        pass
    return replay


@pytest.mark.parametrize("seed", range(LIVES))
def test_f06_two_lives(seed: int) -> None:
    """Crash, recover, publish a hundred confirmed, crash, recover: all hundred are there, and what
    the first life had confirmed."""
    dice = Dice(seed)
    rig = Rig(SimDisk(), {1, 2}, dice.one_of((700, 1500, 1 << 20)), seed=seed)
    for _ in range(dice.between(3, 12)):
        rig.publish(*dice.one_of(((1,), (2,), (1, 2))), size=dice.below(150))
        if dice.happens(40):
            rig.flush(must_sync=dice.happens(80))
    first = check(torn(rig, dice), rig.expected(), rig.segment_bytes)
    found = contents(first, 1) | contents(first, 2)
    # The second life goes on with the disk that the recovery has left behind.
    disk = first.log.handles.directory
    assert isinstance(disk, SimDisk)
    again = Rig(SimDisk(disk.contents()), {1, 2}, rig.segment_bytes, seed=seed + 1)
    assert contents(again.recovered, 1) | contents(again.recovered, 2) == found
    again.bodies = dict(found)
    again.start.allowed = dict(found)
    again.start.required = dict(found)
    for count in range(100):
        again.publish(1 + count % 2, size=dice.below(60), text="again")
        if count % 10 == 9:
            again.flush()
    image = torn(again, dice)
    expected = again.expected()
    assert len(expected.required) == len(found) + 100
    check(image, expected, rig.segment_bytes)


def torn(rig: Rig, dice: Dice) -> Image:
    """The disk when the power goes now, with one drawn remainder of what was not safe, while one
    more publish is under way."""
    rig.publish(1, size=200)
    batch = rig.take()
    assert batch is not None
    before = len(rig.disk.ops)
    batch.run()
    replay = Replay(rig.disk)
    for _ in range(before + dice.below(len(rig.disk.ops) - before)):
        replay.step()
    return dice.one_of(tuple(replay.states(dice, 6)))


def test_f07_a_crash_just_after_a_new_segment() -> None:
    """What is confirmed in a file that was made for it is there, and so is the file's name."""
    rig = Rig(SimDisk(), {1}, segment_bytes=1024)
    made = 0
    for _ in range(40):
        before = len(rig.disk.ops)
        rig.publish(1, size=150)
        rig.flush()
        if any(op.kind == CREATE for op in rig.disk.ops[before:]):
            made += 1
            check(end_of(rig).certain(), rig.expected(), rig.segment_bytes)
    assert made > 5


@pytest.mark.parametrize("name", HISTORIES)
def test_f10_no_index_speaks_of_what_is_not_there(name: str) -> None:
    """A record and its place in a queue are one; the only index apart from records is the footer.
    In every state of the disk each place in a whole footer has its whole record."""
    rig = HISTORIES[name]()
    replay = Replay(rig.disk)
    dice = Dice(5)
    places = 0
    while replay.step():
        for number, image in enumerate(replay.states(dice, 1)):
            if number < 80:
                places += check_footers(image)
    assert places > 0


def check_footers(image: Image) -> int:
    """How many places were looked at. Raises: AssertionError for one without its record."""
    disk = SimDisk(image)
    count = 0
    for name, data in image.items():
        head = parse_header(data[:HEADER_BYTES], LOG, number_of(name))
        if not name.endswith(".log") or head is None:
            continue
        segment = Segment(number_of(name), head[1], head[0])
        file = disk.open(name)
        if not read_footer(segment, file, len(data)):
            continue
        whole = read_fully(file, 0, len(data))
        for table in segment.tables:
            rows = rows_of(table, file)
            for place in rows[1] if rows is not None else ():
                offset = place & PLACE_OFFSET_MASK
                size = place >> PLACE_OFFSET_BITS & PLACE_SIZE_MASK
                assert offset >= DATA_AT and offset + size <= segment.end <= len(data)
                assert is_whole(segment, whole, offset, offset), f"{name} has nothing at {offset}"
                count += 1
    return count


@pytest.mark.parametrize("name", ["compacted", "killed_while_compacting", "purged", "deleted"])
def test_f15_a_compaction_cut_short_anywhere_leaks_no_file(name: str) -> None:
    """After every single operation, and in every state that a crash can leave there: nothing is
    lost, and the next start knows every file that it finds or has removed it."""
    rig = HISTORIES[name]()
    replay = Replay(rig.disk)
    expected = rig.start.copy()
    waiting = list(reversed(rig.events))
    count = 0
    while True:
        while waiting and waiting[-1][0] <= replay.at:
            _, kind, entries = waiting.pop()
            expected.happened(kind, entries, rig.bodies)
        for number, image in enumerate(replay.states(Dice(count), 2)):
            if number >= 25:
                break
            count += 1
            recovered = check(image, expected, rig.segment_bytes)
            disk = recovered.log.handles.directory
            known = {log_name(number) for number in recovered.log.segments}
            known |= {name.replace(".log", ".acks") for name in known}
            told = " ".join(recovered.report.unreadable)
            known |= set(ROSTERS)
            strange = [name for name in disk.names() if name not in known and name not in told]
            assert not strange, "files that nobody knows"
        if not replay.step():
            break
    assert any(op.kind in (REMOVE, RENAME) for op in rig.disk.ops), "files went on the way"
    assert count > 300


def test_f09_acknowledgements_of_what_the_disk_never_got() -> None:
    """The file of acknowledgements reached the disk, the end of the log did not: they are counted,
    the queue opens with what is there, and new messages are not taken for settled ones."""
    rig = Rig(SimDisk(), {1}, segment_bytes=4096)
    rig.publish(1)
    rig.flush()
    for _ in range(3):
        rig.publish(1)
    rig.settle(1, 3, 4)
    rig.flush(must_sync=False)
    whole = rig.disk.contents()
    image = whole | {log_name(1): end_of(rig).certain()[log_name(1)]}
    recovered = recovered_from(image, {1}, 4096)
    assert recovered.report.ignored_acks == 1
    assert set(contents(recovered, 1)) == {(1, 1)}
    assert recovered.queues[1].next_position == 5, "positions 3 and 4 are not used again"
