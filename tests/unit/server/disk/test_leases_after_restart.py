"""Leases of durable queues: on the disk before they are answered, there again before anybody is
served, and whole or refused when they are read."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.broker.vhost.catalogue_rows import CatalogueChange
from penstock.protocol import methods as m
from penstock.protocol.values import Table, encode_table
from penstock.server.disk.metadata_db import MetadataDb
from tests.unit.broker.peer import publish
from tests.unit.server.lease_bed import PERSISTENT, LeaseBed, acquire, answer, ask, read, spark

BODIES = [b"%04d" % number for number in range(20)]


def begun(path: Path, **settings: object) -> LeaseBed:
    """Twenty persistent messages in queue q."""
    bed = LeaseBed(path, **settings)
    bed.publish(spark(bed, "publisher"), *BODIES)
    return bed


def test_nothing_is_answered_before_the_disk_has_it(tmp_path: Path) -> None:
    bed = begun(tmp_path)
    peer = spark(bed)
    ask(peer, 0, 5)
    bed.run()
    assert answer(peer) is None
    jobs = 0
    while (found := answer(peer)) is None:
        bed.work(1)
        jobs += 1
    assert (found["end"], found["count"]) == (5, 5)
    assert jobs >= 1
    bed.die()


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("depth_bytes", [0, 4000])
def test_a_lease_is_there_after_a_restart_and_what_was_done_stays_done(
    tmp_path: Path, is_clean: bool, depth_bytes: int
) -> None:
    bed = begun(tmp_path, queue_depth_bytes=depth_bytes)
    peer = spark(bed)
    acquire(bed, peer, 0, 5)
    acquire(bed, peer, 5, 4)
    bed.end() if is_clean else bed.die()
    bed = LeaseBed(tmp_path, queue_depth_bytes=depth_bytes)
    peer = spark(bed)
    assert bed.ready() == 11
    assert read(peer, 5, 9) == BODIES[5:9]
    assert read(peer, 4, 9) is None
    found = acquire(bed, peer, 9, 11)
    assert (found["end"], found["acked_to"]) == (20, 9)
    assert read(peer, 9, 20) == BODIES[9:]
    acquire(bed, peer, 20, 0)
    bed.settle()
    bed.die()
    bed = LeaseBed(tmp_path)
    assert bed.ready() == 0
    assert bed.boot.count == 0
    bed.die()


def test_after_a_restart_nobody_else_gets_what_is_leased_and_its_time_begins_anew(
    tmp_path: Path,
) -> None:
    bed = begun(tmp_path)
    peer = spark(bed)
    peer.call(1, m.BasicGet("q"), m.BasicGetOk)
    acquire(bed, peer, 0, 5, timeout_ms=1000)
    bed.die()
    bed = LeaseBed(tmp_path)
    peer = spark(bed)
    bed.pass_time(900)
    peer.say(1, m.BasicGet("q"))
    bed.work()
    assert [one.body for one in peer.heard()] == [BODIES[0]]
    bed.pass_time(200)
    assert bed.ready() == 19
    peer.say(2, m.BasicConsume("q", "all", no_ack=True))
    bed.work()
    assert [one.body for one in peer.heard()[1:]] == BODIES[1:]
    peer.say(1, m.BasicAck(1))
    bed.work()
    bed.settle()
    bed.die()


def test_messages_that_are_not_persistent_are_lost_to_the_lease_and_never_silently(
    tmp_path: Path,
) -> None:
    bed = LeaseBed(tmp_path)
    peer = spark(bed)
    bed.publish(peer, b"a", b"b")
    bed.publish(peer, b"fleeting", properties=(0, b""))
    bed.publish(peer, b"c")
    acquire(bed, peer, 0, 4)
    assert read(peer, 0, 4) == [b"a", b"b", b"fleeting", b"c"]
    bed.die()
    bed = LeaseBed(tmp_path)
    peer = spark(bed)
    assert read(peer, 0, 4) is None
    assert read(peer, 0, 2) == [b"a", b"b"]
    assert read(peer, 3, 4) == [b"c"]
    assert acquire(bed, peer, 0, 4)["end"] == 3
    assert read(peer, 0, 3) == [b"a", b"b", b"c"]
    bed.die()


def test_a_paged_queue_is_leased_from_the_disk(tmp_path: Path) -> None:
    bed = LeaseBed(tmp_path)
    bodies = [b"%04d" % number + b"." * 2000 for number in range(100)]
    bed.publish(spark(bed), *bodies)
    bed.die()
    bed = LeaseBed(tmp_path)
    peer = spark(bed)
    assert bed.broker.vhosts["/"].queues["q"].messages.is_paging
    assert acquire(bed, peer, 0, 30)["end"] == 30
    assert read(peer, 0, 30) == bodies[:30]
    assert acquire(bed, peer, 30, 90)["end"] == 100
    assert read(peer, 30, 100) == bodies[30:]
    bed.die()


def test_a_queue_that_is_deleted_takes_its_leases_along(tmp_path: Path) -> None:
    bed = begun(tmp_path)
    peer = spark(bed)
    acquire(bed, peer, 0, 5)
    peer.call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    bed.work()
    bed.settle()
    bed.die()
    bed = LeaseBed(tmp_path)
    assert bed.broker.leases.found == {}
    bed.publish(spark(bed), b"new")
    assert acquire(bed, spark(bed, "other"), 0, 5)["end"] == 1
    bed.die()


def test_two_requests_of_one_group_are_done_one_after_the_other(tmp_path: Path) -> None:
    bed = begun(tmp_path)
    first, second = spark(bed, "first"), spark(bed, "second")
    ask(first, 0, 5)
    ask(second, 0, 8)
    assert answer(second) is None
    bed.work()
    one, two = answer(first), answer(second)
    assert one is not None and two is not None
    assert (one["end"], two["end"]) == (5, 8)
    third = spark(bed, "third")
    ask(third, 8, 2)
    third.hang_up()
    bed.work()
    assert acquire(bed, second, 8, 2)["end"] == 10
    bed.die()


def test_a_request_on_a_queue_that_goes_is_refused(tmp_path: Path) -> None:
    bed = begun(tmp_path)
    peer, other = spark(bed), spark(bed, "other")
    ask(peer, 0, 5)
    other.call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    (close,) = peer.heard()
    assert isinstance(close.method, m.ChannelClose)
    assert close.method.reply_code == 404
    bed.work()
    bed.die()


def test_what_is_still_on_its_way_to_the_disk_gets_its_place_before_it_is_named(
    tmp_path: Path,
) -> None:
    bed = LeaseBed(tmp_path)
    peer, publisher = spark(bed), spark(bed, "publisher")
    publisher.send(*(publish(1, "", "q", body, PERSISTENT) for body in BODIES[:10]))
    bed.work(0)
    publisher.send(*(publish(1, "", "q", body, PERSISTENT) for body in BODIES[10:]))
    ask(peer, 0, 20)
    bed.work(1)
    assert answer(peer) is None
    bed.work()
    found = answer(peer)
    assert found is not None
    assert found["end"] == 20
    bed.die()
    bed = LeaseBed(tmp_path)
    assert read(spark(bed), 0, 20) == BODIES
    bed.die()


def test_a_lease_that_ran_out_is_forgotten_on_the_disk_too(tmp_path: Path) -> None:
    bed = begun(tmp_path)
    acquire(bed, spark(bed), 0, 5, timeout_ms=1000)
    bed.pass_time(1100)
    bed.work()
    assert bed.ready() == 20
    bed.die()
    bed = LeaseBed(tmp_path)
    peer = spark(bed)
    assert bed.ready() == 20
    assert read(peer, 0, 5) is None
    assert acquire(bed, peer, 0, 20)["end"] == 20
    assert read(peer, 0, 20) == BODIES
    table: Table = {"queue": "q", "group": "g", "forget": True}
    peer.call(1, m.RequestAsk("lease.release", table), m.RequestAskOk)
    bed.work()
    bed.die()
    bed = LeaseBed(tmp_path)
    assert bed.ready() == 20
    assert bed.broker.leases.books == {}
    bed.die()


def test_rules_and_leases_come_back_together(tmp_path: Path) -> None:
    """Priorities lease out of order, and a queue whose rules look at single messages is filled
    around what is leased."""
    bed = LeaseBed(tmp_path)
    peer = bed.connect("spark", channels=2)
    rules: Table = {"x-max-priority": 5, "x-dead-letter-exchange": "", "x-max-length": 100}
    peer.call(1, m.QueueDeclare("q", durable=True, arguments=rules), m.QueueDeclareOk)
    for number, priority in enumerate((0, 5, 0, 5, 0)):
        bed.publish(peer, b"%d" % number, properties=(0x1800, b"\x02" + bytes((priority,))))
    acquire(bed, peer, 0, 3)
    assert read(peer, 0, 3) == [b"1", b"3", b"0"]
    bed.die()
    bed = LeaseBed(tmp_path)
    peer = bed.connect("spark", channels=2)
    assert bed.ready() == 2
    assert read(peer, 0, 3) == [b"1", b"3", b"0"]
    acquire(bed, peer, 2, 9)
    assert read(peer, 2, 5) == [b"0", b"2", b"4"]
    acquire(bed, peer, 5, 0)
    bed.settle()
    bed.die()


@pytest.mark.parametrize("jobs", range(2))
def test_a_queue_that_goes_before_anything_is_held_refuses_whoever_waits(
    tmp_path: Path, jobs: int
) -> None:
    """The first message is still being read from the disk when the queue is deleted."""
    bed = begun(tmp_path, queue_depth_bytes=4000)
    bed.end()
    bed = LeaseBed(tmp_path, queue_depth_bytes=4000)
    peer, other = spark(bed), bed.connect("other")
    ask(peer, 0, 5)
    bed.work(jobs)
    other.call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    bed.work()
    (heard,) = [one.method for one in peer.heard()]
    assert isinstance(heard, m.ChannelClose)
    assert heard.reply_code == 404
    assert bed.database.read().parameters == []
    other.call(1, m.QueueDeclare("q", durable=True), m.QueueDeclareOk)
    bed.publish(other, b"new")
    bed.settle()
    bed.die()


def test_what_is_leased_has_no_duplicates_after_a_restart(tmp_path: Path) -> None:
    """Its key is taken until the group is done with it, or somebody else is."""
    once: Table = {"x-message-deduplication": True}
    keyed = [
        (0x3000, encode_table({"x-deduplication-header": key}) + b"\x02") for key in ("a", "b", "c")
    ]
    bed = LeaseBed(tmp_path)
    peer = bed.connect("publisher", channels=2)
    peer.call(1, m.QueueDeclare("q", durable=True, arguments=once), m.QueueDeclareOk)
    for properties in keyed:
        bed.publish(peer, b"first", properties=properties)
    acquire(bed, peer, 0, 2)
    bed.die()
    bed = LeaseBed(tmp_path)
    peer = bed.connect("again", channels=2)
    for properties in keyed:
        bed.publish(peer, b"duplicate", properties=properties)
    assert bed.ready() == 1
    acquire(bed, peer, 2, 0)
    bed.work()
    for properties in keyed:
        bed.publish(peer, b"second", properties=properties)
    assert bed.ready() == 3
    bed.die()


def test_a_damaged_row_of_leases_is_told_and_its_messages_are_in_the_queue_again(
    tmp_path: Path,
) -> None:
    bed = begun(tmp_path)
    acquire(bed, spark(bed), 0, 5)
    path = bed.directory.metadata
    bed.end()
    with closing(MetadataDb(path)) as database:
        (row,) = (one for one in database.read().parameters if one.component == "lease")
        database.apply(0, (CatalogueChange(True, replace(row, value='{"acked_to": "five"}')),))
    bed = LeaseBed(tmp_path)
    assert bed.ready() == 20
    peer = spark(bed)
    assert read(peer, 0, 5) is None
    assert any("row in the catalogue is damaged" in line for line in bed.log.lines)
    found = acquire(bed, peer, 0, 20)
    assert (found["end"], found["count"]) == (20, 20)
    bed.die()
