"""The store's actor on a disk that waits: batches, full disks, failures, room that comes back."""

from errno import EIO, EMFILE

import pytest

from penstock.broker.store.durability import UNCHARGED_BYTES
from penstock.broker.store.group_commit import ANSWERS, BATCH_BYTES
from penstock.flow.profile import PENSTOCK, RABBITMQ_4
from penstock.protocol import methods as m
from penstock.storage.layout.files import SyncFailed
from penstock.storage.layout.format import HEADER_BYTES, SLOT_BYTES
from penstock.storage.log.compaction import CopyJob
from tests.spec.stage import Hand
from tests.spec.test_store_scenarios import Depot


def log_bytes(depot: Depot) -> int:
    return sum(len(data) for name, data in depot.files.contents().items() if name.endswith("log"))


def rest(depot: Depot) -> None:
    """Everything that is due in the next seconds has happened."""
    for _ in range(20):
        depot.write()
        depot.world.clock.jump(depot.world.clock.now_ns + 500_000_000)
        while depot.world.timers.is_due():
            depot.world.timers.run_next()
        depot.settle()
    depot.write()


def confirming(segment_bytes: int = 1 << 20) -> tuple[Depot, Hand]:
    """A broker, and a publisher who waits for confirms."""
    depot = Depot(PENSTOCK, segment_bytes=segment_bytes)
    hand = depot.connect()[0]
    hand.say(m.ConfirmSelect())
    depot.settle()
    return depot, hand


def test_f16_an_acknowledged_backlog_gives_its_room_back() -> None:
    """F16: segments in which nothing counts are removed; one of which little counts is copied."""
    depot = Depot(PENSTOCK, segment_bytes=65_536)
    hand = depot.connect()[0]
    for _ in range(10):
        depot.send(hand, "d1", 1000, 100)
        depot.write()
        depot.send(hand, "d2", 10)
    rest(depot)
    assert log_bytes(depot) > 1_000_000
    hand.say(m.QueuePurge("d1"))
    rest(depot)
    assert depot.ready("d2") == 10
    assert log_bytes(depot) < 2 * 65_536
    assert depot.store.log.live_count(depot.store.lanes[1].index) == 10


def test_a_slice_that_cannot_be_read_does_not_end_compaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    depot = Depot(PENSTOCK, segment_bytes=65_536)
    hand = depot.connect()[0]
    for _ in range(10):
        depot.send(hand, "d1", 1000, 100)
        depot.write()
        depot.send(hand, "d2", 10)
    rest(depot)
    run = CopyJob.run
    failed: list[CopyJob] = []

    def fail_once(job: CopyJob) -> None:
        if not failed:
            failed.append(job)
            raise OSError(EIO, "it cannot be read")
        run(job)

    monkeypatch.setattr(CopyJob, "run", fail_once)
    hand.say(m.QueuePurge("d1"))
    rest(depot)
    assert failed and depot.ready("d2") == 10
    assert log_bytes(depot) < 3 * 65_536, "one segment is left alone, the others are not"


def test_a_deleted_queue_answers_what_it_had_taken() -> None:
    depot, hand = confirming()
    depot.send(hand, "d1", 100, 10)
    assert hand.client.session.unconfirmed(hand.channel) == 10
    other = depot.connect()[0]
    other.say(m.QueueDelete("d1"))
    depot.settle()
    rest(depot)
    assert hand.client.session.unconfirmed(hand.channel) == 0
    assert [lane.sender for lane in depot.store.lanes] == ["queue:/d2", "queue:/d3"]
    assert depot.broker.node_account.total_messages() == 0


def test_f17_a_full_disk_is_tried_again() -> None:
    """F17: nothing is confirmed, an alarm is set; with room again all of it is, in order."""
    depot, hand = confirming()
    depot.files.room = 100
    depot.send(hand, "d1", 1000, 5)
    rest(depot)
    assert hand.client.session.unconfirmed(hand.channel) == 5
    assert "alarm:disk" in depot.broker.alarms
    depot.files.room = 1 << 30
    rest(depot)
    assert hand.client.session.unconfirmed(hand.channel) == 0
    assert "alarm:disk" not in depot.broker.alarms


def test_a_store_without_a_handle_waits_for_one() -> None:
    """Clients who have all files of the process must not be the end of the store."""
    depot, hand = confirming()
    depot.send(hand, "d1", 100)
    job, client = depot.disk.jobs.pop()
    client.job_done(job, OSError(EMFILE, "Too many open files"))
    assert not depot.world.log.errors and not depot.store.is_failed
    assert "alarm:disk" in depot.broker.alarms
    rest(depot)
    assert hand.client.session.unconfirmed(hand.channel) == 0
    assert "alarm:disk" not in depot.broker.alarms


def test_f17_a_full_disk_gets_room_from_what_is_purged() -> None:
    """F17: without anybody else who makes room, and while a batch waits."""
    depot, hand = confirming(4096)
    depot.send(hand, "d1", 1000, 30)
    rest(depot)
    depot.files.room = 100
    depot.send(hand, "d2", 1000, 5)
    rest(depot)
    assert hand.client.session.unconfirmed(hand.channel) == 5
    other = depot.connect()[0]
    other.say(m.QueuePurge("d1"))
    rest(depot)
    assert hand.client.session.unconfirmed(hand.channel) == 0
    assert "alarm:disk" not in depot.broker.alarms


def test_f04_after_a_failed_sync_nothing_is_written() -> None:
    """F4."""
    depot, hand = confirming()
    depot.send(hand, "d1", 100)
    job, client = depot.disk.jobs.pop()
    client.job_done(job, SyncFailed(5, "Input/output error"))
    assert len(depot.world.log.errors) == 1
    depot.world.log.errors.clear()
    depot.send(hand, "d1", 100, 5)
    rest(depot)
    assert not depot.disk.jobs
    assert hand.client.session.unconfirmed(hand.channel) == 6
    assert "cannot write any more" in depot.broker.stores.failure


@pytest.mark.parametrize("count", [1, 400])
def test_a_fast_consumer_leaves_nothing_in_the_log(count: int) -> None:
    """Messages that leave before the store has taken them are not written, and are confirmed."""
    depot = Depot(PENSTOCK)
    reader = depot.connect()[0]
    reader.say(m.BasicConsume("d1", no_ack=True))
    hand = depot.connect()[0]
    hand.say(m.ConfirmSelect())
    depot.settle()
    depot.send(hand, "d1", 100, count)
    rest(depot)
    assert len(reader.deliveries) == count
    assert hand.client.session.unconfirmed(hand.channel) == 0
    assert depot.store.log.live_count(depot.store.lanes[0].index) == 0


def test_messages_that_cost_no_credit_are_bounded_too() -> None:
    """[R]: embedded messages that consumers take at once pile up in front of a disk that does
    nothing, until the queue takes no more; nothing is lost."""
    depot = Depot(RABBITMQ_4)
    reader = depot.connect()[0]
    reader.say(m.BasicConsume("d1", no_ack=True))
    hand = depot.connect()[0]
    depot.settle()
    depot.send(hand, "d1", 3000, 6000)
    lane = depot.store.lanes[0]
    assert lane.in_flight == 0
    waiting = sum(len(message.raw) for one in lane.items for message in one.messages)
    assert UNCHARGED_BYTES <= waiting < UNCHARGED_BYTES + 400 * 3200
    assert depot.store.log.open_size < BATCH_BYTES + 400 * 3200
    assert len(reader.deliveries) < 6000
    rest(depot)
    assert len(reader.deliveries) == 6000


def test_a_large_batch_is_answered_in_pieces() -> None:
    """Nobody waits until all who wait for one sync have been told."""
    depot, hand = confirming()
    for _ in range(30):
        depot.send(hand, "d1", 100, 50)
    store = depot.store
    depot.disk.work()
    depot.settle()
    told = [int(store.synced_count)]
    while depot.disk.work() or store.safe:
        told.append(int(store.synced_count) - sum(told))
        store.turn(1)
    depot.settle()
    assert store.synced_count == 1500
    assert ANSWERS <= max(told) < ANSWERS + 50
    assert hand.client.session.unconfirmed(hand.channel) == 0


def test_a_quiet_store_says_once_how_far_it_is_safe() -> None:
    depot, hand = confirming()
    depot.send(hand, "d1", 100, 5)
    depot.write()

    def slots() -> int:
        return sum(len(data) for name, data in depot.files.contents().items() if "acks" in name)

    assert hand.client.session.unconfirmed(hand.channel) == 0
    assert slots() == 0, "not before a second has passed"
    rest(depot)
    assert slots() == HEADER_BYTES + SLOT_BYTES
    syncs = depot.files.sync_count
    rest(depot)
    assert slots() == HEADER_BYTES + SLOT_BYTES and depot.files.sync_count == syncs
    depot.send(hand, "d1", 100, 1)
    rest(depot)
    assert slots() == HEADER_BYTES + 2 * SLOT_BYTES
