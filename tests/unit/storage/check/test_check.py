"""A check of a store: every flipped bit is named, no crash is called damage, nothing is changed."""

import pytest

from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.check.check import check
from penstock.storage.check.check_segment import StoreFacts
from penstock.storage.check.findings import FINDINGS_MAX, Finding, Findings
from penstock.storage.check.overlay import OverlayDirectory
from penstock.storage.recovery.recovery import recover
from tests.crash.histories import HISTORIES
from tests.crash.rig import Rig
from tests.unit.storage.making import fill, flush, fresh


def looked_at(
    image: Image, queues: set[int], is_clean: bool, id_max: int = 100, trusts_footers: bool = True
) -> Findings:
    """Check a disk, which must be left as it was."""
    disk = SimDisk(image)
    recovered = recover(OverlayDirectory(disk), Dice(1), 700, queues, trusts_footers)
    facts = StoreFacts(
        {number: f"q{number}" for number in queues},
        id_max,
        recovered.queues,
        is_clean,
        trusts_footers,
    )
    findings = check(disk, facts)
    assert disk.contents() == image and not disk.ops, "a check changes nothing"
    return findings


def damage_of(findings: Findings) -> list[Finding]:
    return [one for one in findings.kept if one.is_damage]


def stopped(name: str) -> Rig:
    rig = HISTORIES[name]()
    rig.stop()
    return rig


@pytest.mark.parametrize("name", HISTORIES)
def test_a_store_that_was_stopped_is_whole(name: str) -> None:
    rig = stopped(name)
    findings = looked_at(rig.disk.contents(), rig.expected().queues, is_clean=True)
    assert not damage_of(findings)
    assert findings.segment_count == sum(one.endswith(".log") for one in rig.disk.names())


@pytest.mark.parametrize("name", HISTORIES)
def test_no_crash_is_called_damage(name: str) -> None:
    """Whatever a loss of power leaves; but a segment that a start sets aside is named."""
    rig = HISTORIES[name]()
    replay = Replay(rig.disk)
    dice = Dice(5)
    count = 0
    while replay.step():
        for image in list(replay.states(dice, 1))[::9]:
            count += 1
            queues = rig.expected().queues
            damaged = {one.file for one in damage_of(looked_at(image, queues, is_clean=False))}
            report = recover(SimDisk(image), Dice(1), 700, queues).report
            assert len(damaged) == len(report.unreadable), f"operation {replay.at}: {damaged}"
    assert count > 20


@pytest.mark.parametrize("name", ["fan_out", "large", "compacted"])
def test_every_flipped_bit_is_named(name: str) -> None:
    """After a clean stop: damage in a log, at least a word about an acknowledgement."""
    rig = stopped(name)
    image = rig.disk.contents()
    queues = rig.expected().queues
    whole = looked_at(image, queues, is_clean=True)
    for file, data in image.items():
        for bit in range(0, len(data) * 8, 211):
            flipped = bytearray(data)
            flipped[bit >> 3] ^= 1 << (bit & 7)
            found = looked_at(image | {file: bytes(flipped)}, queues, is_clean=True)
            if file.endswith(".log"):
                assert damage_of(found), f"bit {bit} of {file}"
                assert {one.file for one in damage_of(found)} == {file}
            else:
                assert found.note_count + found.damage_count > whole.note_count, f"bit {bit}"


def flipped(image: Image, name: str, needle: bytes) -> Image:
    at = image[name].find(needle)
    assert at > 0
    data = bytearray(image[name])
    data[at] ^= 1
    return image | {name: bytes(data)}


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_damaged_message_is_named_with_queue_and_position(is_clean: bool) -> None:
    disk = SimDisk()
    log = fresh(disk, 1 << 20)
    index = log.open_queue(7)
    fill(log, index, 6)
    flush(log)
    fill(log, index, 1)
    if is_clean:
        log.take_last_batch().run()
    else:
        flush(log)
    image = flipped(disk.contents(), "0000000001.log", b"3......")
    (one,) = damage_of(looked_at(image, {7}, is_clean))
    assert (one.file, one.queue_id, one.position, one.is_lost) == ("0000000001.log", 7, 4, True)
    data = disk.contents()["0000000001.log"]
    assert one.offset == data.rfind(b"\xd7REC", 0, data.find(b"3......")), "where it begins"


def test_damage_to_what_was_acknowledged_loses_nothing() -> None:
    disk = SimDisk()
    log = fresh(disk, 1 << 20)
    index = log.open_queue(7)
    fill(log, index, 6)
    flush(log)
    log.settle(index, 4)
    log.take_last_batch().run()
    image = flipped(disk.contents(), "0000000001.log", b"3......")
    (one,) = damage_of(looked_at(image, {7}, True))
    assert (one.position, one.is_lost) == (4, False)
    (one,) = damage_of(looked_at(image, set(), True))
    assert not one.is_lost, "its queue is deleted"


def test_queues_that_the_catalogue_has_not() -> None:
    rig = stopped("fan_out")
    image = rig.disk.contents()
    found = looked_at(image, {1}, True, id_max=9)
    assert not damage_of(found)
    assert any("deleted queues" in one.text for one in found.kept)
    found = looked_at(image, {1}, True, id_max=1)
    assert any("the catalogue is older than the messages" in one.text for one in damage_of(found))


def test_files_that_do_not_belong() -> None:
    image = stopped("one_queue").disk.contents()
    found = looked_at(
        image | {"0000000099.acks": b"", "notes.txt": b"", "0000000001.log.damaged": b"?"},
        {1},
        True,
    )
    said = {one.file: one for one in found.kept}
    assert "without a segment" in said["0000000099.acks"].text
    assert not said["notes.txt"].is_damage
    assert said["0000000001.log.damaged"].is_damage


def test_a_beginning_that_is_gone() -> None:
    image = stopped("one_queue").disk.contents()
    names = sorted(name for name in image if name.endswith(".log"))
    broken = image | {name: bytes(200) + image[name][200:-60] for name in names[:1]}
    broken.pop(names[0].replace("log", "acks"), None)
    (one,) = damage_of(looked_at(broken, {1}, False))
    assert (one.file, one.offset) == (names[0], 0)
    assert "nothing in it can be read" in one.text


def test_findings_are_bounded() -> None:
    findings = Findings()
    for _ in range(FINDINGS_MAX + 5):
        findings.note("file", "text")
    assert (len(findings.kept), findings.note_count) == (FINDINGS_MAX, FINDINGS_MAX + 5)
