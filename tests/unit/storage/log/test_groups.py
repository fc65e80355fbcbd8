"""Groups: one segment, however large; all of one or nothing; damage in what was safe is told."""

from penstock.simulation.machine.disk import SimDisk
from penstock.storage.layout.format import IS_GROUP_FIRST, IS_GROUP_LAST, IS_GROUPED, log_name
from penstock.storage.layout.scan import scan
from penstock.storage.layout.segment import Segment
from penstock.storage.log.groups import GroupAppend, GroupEntry, group_bytes
from tests.crash.life import message
from tests.crash.rig import Rig, recovered_from

FLAGS = IS_GROUPED | IS_GROUP_FIRST | IS_GROUP_LAST


def flags_of(rig: Rig, number: int) -> list[int]:
    """The group flags of every record of a segment, in order."""
    segment = rig.log.segments[number]
    data = rig.disk.contents()[log_name(number)]
    found = scan(Segment(number, segment.identity, segment.version), data)
    return [int(record.flags) & FLAGS for record in found.records]


def test_flags_say_where_a_group_begins_and_ends() -> None:
    rig = Rig(SimDisk(), {1, 2}, segment_bytes=100_000)
    rig.publish(1)
    rig.publish_group((1, 2), (2,))
    rig.publish_group((1,))
    rig.publish(2)
    rig.flush()
    first, last = IS_GROUPED | IS_GROUP_FIRST, IS_GROUPED | IS_GROUP_LAST
    assert flags_of(rig, 1) == [0, first, IS_GROUPED, last, first | last, 0]


def test_a_group_is_never_divided_between_segments() -> None:
    rig = Rig(SimDisk(), {1}, segment_bytes=1000)
    rig.publish(1, size=500)
    rig.publish_group(*([(1,)] * 20), size=100)
    assert rig.log.segment_bytes == 1000
    rig.publish(1)
    rig.flush()
    assert [len(flags_of(rig, number)) for number in (1, 2, 3)] == [1, 20, 1]


def test_its_size_is_an_upper_bound() -> None:
    rig = Rig(SimDisk(), {1, 2}, segment_bytes=100_000)
    one = message(b"x" * 300)
    entries = [GroupEntry(rig.queues[1], one, True), GroupEntry(rig.queues[2], one, False)]
    assert not GroupAppend(rig.log, entries, group_bytes(entries), 0).step(2)
    assert 300 < rig.log.open_size <= group_bytes(entries)


def test_what_is_not_persistent_does_not_come_back() -> None:
    rig = Rig(SimDisk(), {1})
    entries = [GroupEntry(rig.queues[1], message(body), body == b"a") for body in (b"a", b"b")]
    assert not GroupAppend(rig.log, entries, group_bytes(entries), 0).step(2)
    rig.flush()
    recovered = recovered_from(rig.disk.contents(), {1}, 700)
    assert recovered.log.live_count(recovered.queues[1]) == 1


def test_a_torn_group_is_cut_off_and_what_stands_before_it_stays() -> None:
    rig = Rig(SimDisk(), {1}, segment_bytes=100_000)
    rig.publish(1)
    rig.flush()
    end = int(rig.log.segments[1].end)
    rig.publish_group((1,), (1,), (1,))
    rig.flush()
    image = rig.disk.contents()
    image[log_name(1)] = image[log_name(1)][:-10]
    recovered = recovered_from(image, {1}, 100_000)
    assert not recovered.report.lost
    assert recovered.log.live_count(recovered.queues[1]) == 1
    assert recovered.log.segments[1].end == end
    assert recovered.queues[1].next_position == 2


def test_damage_in_a_group_that_was_safe_costs_one_message_and_is_told() -> None:
    rig = Rig(SimDisk(), {1}, segment_bytes=100_000)
    rig.publish_group((1,), (1,), (1,))
    rig.flush()
    at = int(rig.log.segments[1].end)
    rig.publish(1)
    rig.flush()
    image = rig.disk.contents()
    data = bytearray(image[log_name(1)])
    data[at - 5] ^= 1
    image[log_name(1)] = bytes(data)
    recovered = recovered_from(image, {1}, 100_000)
    assert recovered.report.lost == {1: 1}
    assert recovered.log.live_count(recovered.queues[1]) == 3
