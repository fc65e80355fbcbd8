"""Segments whose headers are gone: damage is told from a torn beginning, and told to people."""

from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.check.check import check
from penstock.storage.check.check_segment import StoreFacts
from penstock.storage.check.findings import Findings
from penstock.storage.layout.files import write_fully
from penstock.storage.layout.format import MARK
from penstock.storage.recovery.headerless import claims_of
from penstock.storage.recovery.recovery import Recovered, recover
from tests.unit.storage.making import fill, flush, fresh, positions, read

NEWEST = "0000000001.log"


def again(disk: SimDisk) -> Recovered:
    return recover(disk, Dice(5), 4096, {1, 2})


def killed(batches: int, size: int = 40) -> SimDisk:
    """A store that was killed with `batches` synced batches of three messages in one segment, two
    for queue 1 and one for queue 2."""
    disk = SimDisk()
    log = fresh(disk)
    for _ in range(batches):
        fill(log, log.open_queue(1), 2, size)
        fill(log, log.open_queue(2), 1, size)
        flush(log)
    return SimDisk(disk.contents())


def behead(disk: SimDisk, count: int = 64) -> None:
    write_fully(disk.open(NEWEST), 0, bytes(count))


def findings_of(disk: SimDisk) -> Findings:
    recovered = again(SimDisk(disk.contents()))
    facts = StoreFacts({1: "q", 2: "r"}, 2, recovered.queues, False)
    return check(SimDisk(disk.contents()), facts)


def test_f11_what_was_safe_does_not_vanish_with_the_first_sector() -> None:
    """F11: it cannot be read any more, but it is told, and nothing is removed."""
    disk = killed(4)
    behead(disk, 512)
    found = findings_of(disk)
    assert found.damage_count == 1 and found.lost_count == 8
    recovered = again(disk)
    assert "set aside" in recovered.report.unreadable[0]
    lost = recovered.report.lost
    assert set(lost) == {1, 2} and sum(lost.values()) == found.lost_count
    assert disk.names() == [f"{NEWEST}.damaged"]
    index = recovered.queues[1]
    fill(recovered.log, index, 3)
    flush(recovered.log)
    assert positions(read(recovered.log, index)) == [1, 2, 3]
    assert f"{NEWEST}.damaged" in disk.names()


def test_a_segment_that_was_torn_while_it_was_begun_is_no_damage() -> None:
    """Nothing in it says that anything before it was safe."""
    disk = killed(1)
    behead(disk)
    assert findings_of(disk).damage_count == 0
    recovered = again(disk)
    assert recovered.report.unreadable == [] and not recovered.report.lost
    assert disk.names() == []


def test_a_clean_stop_has_a_footer_that_says_all() -> None:
    disk = SimDisk()
    log = fresh(disk)
    fill(log, log.open_queue(1), 5)
    log.take_last_batch().run()
    behead(disk)
    recovered = again(SimDisk(disk.contents()))
    assert positions(read(recovered.log, recovered.queues[1])) == [1, 2, 3, 4, 5]


def test_claims_are_of_records_and_not_of_what_is_in_messages() -> None:
    disk = killed(3)
    data = disk.contents()[NEWEST]
    claims = claims_of(data, ())
    first = [(1, 1), (1, 2), (2, 1)]
    assert claims.entries == [*first, (1, 3), (1, 4), (2, 2), (1, 5), (1, 6), (2, 3)]
    assert claims.was_safe
    begun = MARK.join(data.split(MARK)[:4])
    assert claims_of(begun, ()).entries == first and not claims_of(begun, ()).was_safe
    for torn in (data[:-1], data[:100], MARK * 50, MARK + bytes(60), b""):
        assert len(claims_of(torn, ()).entries) < 9
    whole = data.index(MARK)
    forged = data[:whole] + b"\xff" * 40 + MARK + b"\xff" * 60 + data[whole:]
    assert claims_of(forged, ()).entries == claims.entries
