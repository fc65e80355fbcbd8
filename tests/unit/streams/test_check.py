"""A check of streams names every kind of damage, counts what is lost, and calls no crash damage."""

from penstock.storage.check.findings import Findings
from penstock.storage.layout.files import write_fully
from penstock.streams.check import check_streams
from penstock.streams.format import DATA_AT, FOOT_BYTES
from penstock.streams.memory_files import MemoryDirectory, MemoryFile
from tests.unit.streams.test_log import Shelf

NAMES = {1: "events"}


def checked(files: MemoryDirectory, has_catalogue: bool = True) -> Findings:
    findings = Findings()
    check_streams(files, NAMES if has_catalogue else {}, has_catalogue, findings)
    return findings


def written() -> Shelf:
    """Thirty-six messages in twelve chunks and several segments, the last of them open."""
    shelf = Shelf(segment_bytes=1000)
    for _ in range(12):
        shelf.write(3)
    assert len(shelf.log.segments) > 2
    return shelf


def data_of(shelf: Shelf, index: int) -> tuple[MemoryFile, bytes]:
    file = shelf.files.files[shelf.files.names()[index]]
    return file, file.read(0, file.size())


def flip(file: MemoryFile, at: int) -> None:
    byte = file.read(at, 1)[0]
    write_fully(file, at, bytes([byte ^ 4]))


def test_a_whole_one() -> None:
    found = checked(written().files)
    assert (found.record_count, found.damage_count, found.note_count) == (36, 0, 0)
    assert found.segment_count > 2 and found.byte_count > 36 * 50


def test_a_torn_end_is_no_damage() -> None:
    shelf = written()
    file, data = data_of(shelf, -1)
    file.truncate(len(data) - 5)
    found = checked(shelf.files)
    assert (found.damage_count, found.note_count, found.record_count) == (0, 1, 33)
    assert "torn" in found.kept[0].text


def test_every_byte_of_a_segment_that_was_safe() -> None:
    """Turned over one at a time: something is said, and unless it is a footer or one of two
    headers, exactly the messages of one chunk are lost."""
    shelf = written()
    file, data = data_of(shelf, 0)
    chunks_end = int(shelf.log.segments[0].end)
    for at in range(0, len(data), 7):
        flip(file, at)
        found = checked(shelf.files)
        said = (at, [one.text for one in found.kept])
        assert found.damage_count + found.note_count > 0, said
        if DATA_AT <= at < chunks_end:
            assert found.damage_count == 1 and found.lost_count == 3, said
            assert found.kept[0].queue_id == 1
        elif at < DATA_AT:
            assert found.damage_count == 1 and found.lost_count == 0, said
        else:
            assert found.lost_count == 0, said
        flip(file, at)
    assert checked(shelf.files).damage_count == 0


def test_a_footer_that_is_damaged_costs_a_note() -> None:
    shelf = written()
    file, data = data_of(shelf, 0)
    flip(file, len(data) - FOOT_BYTES)
    found = checked(shelf.files)
    assert (found.damage_count, found.note_count, found.record_count) == (0, 1, 36)


def test_a_segment_that_is_missing_between_two() -> None:
    shelf = written()
    second, third = shelf.log.segments[1:3]
    del shelf.files.files[second.name]
    found = checked(shelf.files)
    assert (found.damage_count, found.lost_count) == (1, third.first - second.first)
    assert found.kept[0].text == (
        f"messages {second.first}..{third.first - 1} of the stream cannot be read"
    )
    # What retention has taken is not missing.
    del shelf.files.files[shelf.log.segments[0].name]
    assert checked(shelf.files).damage_count == 0


def test_files_of_nobody() -> None:
    shelf = written()
    shelf.files.create("0000000009-00000000000000000000.stream")
    shelf.files.create("0000000001-00000000000000000007.stream.damaged")
    shelf.files.create("notes.txt")
    found = checked(shelf.files)
    assert found.damage_count == 1 and "set it aside" in found.kept[0].text
    texts = " ".join(one.text for one in found.kept)
    assert "1 segments are of 1 deleted streams" in texts and "no file of a stream" in texts
    # Without a catalogue nobody knows what was deleted; the empty one is one that was begun.
    unknown = checked(shelf.files, has_catalogue=False)
    assert "deleted" not in " ".join(one.text for one in unknown.kept)
    assert unknown.record_count == 36
