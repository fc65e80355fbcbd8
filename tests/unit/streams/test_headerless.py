"""Stream segments whose headers are gone: told, never removed where they had been safe, and their
offsets are not given to other messages."""

import pytest

from penstock.simulation.machine.dice import Dice
from penstock.storage.check.findings import Findings
from penstock.streams.check import check_streams
from penstock.streams.format import DATA_AT, MARK
from penstock.streams.headerless import claims_of
from penstock.streams.log import StreamLog
from penstock.streams.memory_files import MemoryFile
from penstock.streams.recovery import StreamReport, recover_streams
from tests.unit.streams.test_log import Shelf


def killed(*batches: int, segment_bytes: int = 4000) -> Shelf:
    shelf = Shelf(segment_bytes=segment_bytes)
    for count in batches:
        shelf.write(count)
    return shelf


def behead(shelf: Shelf, name: str, count: int = DATA_AT) -> None:
    shelf.files.files[name]._data[:count] = bytes(count)


def again(shelf: Shelf) -> tuple[StreamLog, StreamReport]:
    logs, report = recover_streams(shelf.files, Dice(2), {1: shelf.retention})
    shelf.log = logs[1]
    return shelf.log, report


def test_f11_the_newest_segment_does_not_vanish_with_its_first_sector() -> None:
    shelf = killed(5, 5, 5, segment_bytes=1 << 20)
    (name,) = shelf.files.names()
    behead(shelf, name)
    log, report = again(shelf)
    assert shelf.files.names() == [name + ".damaged"]
    assert name in report.lines[0] and report.lost == {1: 15}
    assert (log.first(), log.next, log.committed) == (15, 15, 15)
    log, report = again(shelf)
    assert log.next == 15 and report.lost == {}, "nothing was written meanwhile"
    shelf.write(2)
    assert shelf.offsets(0) == [15, 16]


def test_a_segment_that_was_torn_while_it_was_begun_is_no_damage() -> None:
    """Nothing in it says that anything before it was safe."""
    shelf = killed(5)
    (name,) = shelf.files.names()
    behead(shelf, name)
    log, report = again(shelf)
    assert shelf.files.names() == [] and not report.lines and not report.lost
    assert log.next == 0


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_footer_knows_what_the_headers_said(which: int) -> None:
    shelf = killed(*[20] * 12)
    names = shelf.files.names()
    assert len(names) > 3
    again(shelf)
    behead(shelf, names[which])
    log, report = again(shelf)
    assert not report.lines and not report.lost
    assert log.next == 240 and shelf.offsets(0) == list(range(240))


@pytest.mark.parametrize("which", [0, 1, -1])
def test_without_headers_and_footer_its_messages_are_counted_once(which: int) -> None:
    shelf = killed(*[20] * 12)
    names = shelf.files.names()
    again(shelf)
    size = len(shelf.files.files[names[which]]._data)
    firsts = [int(name[11:31]) for name in names] + [240]
    behead(shelf, names[which])
    del shelf.files.files[names[which]]._data[size - 8 :]
    log, report = again(shelf)
    at = range(len(names))[which]
    assert report.lost == {1: firsts[at + 1] - firsts[at]}
    assert log.next == 240
    shelf.write(1)
    kept = [one for one in range(241) if not firsts[at] <= one < firsts[at + 1]]
    assert shelf.offsets(int(log.first())) == kept
    assert names[which] + ".damaged" in shelf.files.names()


def test_claims_are_of_chunks_and_not_of_what_is_in_messages() -> None:
    shelf = killed(5, 5, segment_bytes=1 << 20)
    (name,) = shelf.files.names()
    file = shelf.files.open(name)
    claims = claims_of(file, 0)
    assert (claims.count, claims.next, claims.was_safe) == (10, 10, True)
    assert claims_of(file, 7).next == 7, "offsets before the first one of the segment"
    data = shelf.files.files[name]._data
    second = data.index(MARK, data.index(MARK) + 1)
    data[second:second] = MARK + b"\xff" * 100
    assert claims_of(file, 0).next == 10
    del data[second + 50 :]
    assert (claims_of(file, 0).next, claims_of(file, 0).was_safe) == (5, False)


class Counted(MemoryFile):
    reads = 0

    def read(self, at: int, count: int) -> bytes:
        self.reads += 1
        return super().read(at, count)


def test_what_was_published_may_consist_of_marks() -> None:
    """A start that read a piece of the file for each of them would not end."""
    file = Counted()
    file.write(0, bytes(DATA_AT) + MARK * 50_000)
    assert claims_of(file, 0).count == 0
    # One piece, and the heads for which the end of the file has no room.
    assert file.reads < 100


def test_a_check_tells_what_a_start_will() -> None:
    shelf = killed(5, 5, 5, segment_bytes=1 << 20)
    (name,) = shelf.files.names()
    behead(shelf, name)
    found = Findings()
    check_streams(shelf.files, {1: "s"}, True, found)
    assert found.lost_count == 15 and found.damage_count == 2
    sealed = killed(*[20] * 12)
    again(sealed)
    behead(sealed, sealed.files.names()[1])
    found = Findings()
    check_streams(sealed.files, {1: "s"}, True, found)
    assert (found.lost_count, found.damage_count, found.record_count) == (0, 1, 240)
    torn = killed(5)
    behead(torn, torn.files.names()[0])
    found = Findings()
    check_streams(torn.files, {1: "s"}, True, found)
    assert found.damage_count == 0 and "begun and torn" in found.kept[0].text


def test_streams_that_the_catalogue_has_never_heard_of_are_set_aside() -> None:
    shelf = killed(5)
    (name,) = shelf.files.names()
    found = Findings()
    check_streams(shelf.files, {}, True, found, queue_id_max=0)
    assert found.damage_count == 1 and "older than the messages" in found.kept[0].text
    _, report = recover_streams(shelf.files, Dice(2), {}, queue_id_known=0)
    assert report.orphan_count == 1 and shelf.files.names() == [name + ".orphaned"]
    _, report = recover_streams(shelf.files, Dice(2), {}, queue_id_known=0)
    assert report.orphan_count == 0 and shelf.files.names() == [name + ".orphaned"]
    deleted = killed(5)
    recover_streams(deleted.files, Dice(2), {}, queue_id_known=1)
    assert deleted.files.names() == []
