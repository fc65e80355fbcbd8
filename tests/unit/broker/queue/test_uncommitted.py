"""A quorum queue shows nothing that its store has not answered for; a classic one shows it at once.

The store's disk works when it is told to, so everything in between can be looked at.
"""

from errno import ENOSPC
from pathlib import Path

import pytest

from penstock.base.steps import whole
from penstock.broker.admin.flow_ledger import ledger_rows
from penstock.broker.admin.object_rows import queue_row
from penstock.broker.admin.paging import Pager
from penstock.broker.admin.queue_causes import queue_causes
from penstock.broker.admin.view_memory import queue_stamp
from penstock.broker.admin.view_queues import memory_of
from penstock.broker.admin.views import actor_snapshots
from penstock.broker.queue.uncommitted import WAITERS_KEPT
from penstock.explain.naming import Names
from penstock.flow.profile import PENSTOCK, RABBITMQ_4
from penstock.protocol import methods as m
from penstock.protocol.content import SHARED_BYTES
from penstock.protocol.values import Table
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.server.control.questions_queues import row_of
from penstock.simulation.laws.ledger_checks import LedgerLaws
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store
from penstock.simulation.machine.faults import LawBroken
from tests.unit.broker.peer import MS, Bed, Peer, publish
from tests.unit.server.disk.test_commits_after_restart import asked
from tests.unit.server.lease_bed import PERSISTENT, LeaseBed, acquire

QUORUM: Table = {"x-queue-type": "quorum"}
RETRY_NS = 300 * MS
AT_ONCE = (0x0100, b"\x010")
"""expiration: 0."""


class StoreBed(Bed):
    """The quorum queue q and the classic queue c, with a publisher, an operator and a law."""

    def __init__(self, profile: str = PENSTOCK.name, arguments: Table | None = None) -> None:
        super().__init__(profile=profile)
        self.disk = HandDisk()
        give_store(self.broker, self.disk, SimDisk(), 1 << 20)
        self.admin = self.connect("admin")
        rules = arguments or {}
        for name, table in (("q", {**QUORUM, **rules}), ("c", rules)):
            say = m.QueueDeclare(name, durable=True, arguments=table)
            self.admin.call(1, say, m.QueueDeclareOk)
        self.peer = self.connect("publisher")
        self.peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
        self.law = LedgerLaws(self.broker)
        self.write()

    def send(
        self, *bodies: bytes, queue: str = "q", properties: tuple[int, bytes] = PERSISTENT
    ) -> None:
        self.peer.send(*(publish(1, "", queue, body, properties) for body in bodies))
        self.look()

    def look(self) -> None:
        self.run()
        self.law.check_step()
        self.law.check_origins()

    def write(self) -> None:
        """Everything there is."""
        self.look()
        while self.disk.work():
            self.look()

    def reader(self, queue: str = "q") -> Peer:
        peer = self.connect("reader")
        peer.say(1, m.BasicConsume(queue, "c", False, True))
        assert isinstance(peer.heard()[0].method, m.BasicConsumeOk)
        return peer

    def ready(self, queue: str = "q") -> int:
        """As queue.declare-ok says it."""
        say = m.QueueDeclare(queue, passive=True)
        return self.admin.call(1, say, m.QueueDeclareOk).message_count

    def dropped(self, queue: str = "q") -> int:
        limits = self.actor(queue).queue_limits
        return 0 if limits is None else sum(limits.drops)


@pytest.mark.parametrize("profile", [PENSTOCK.name, RABBITMQ_4.name])
def test_deliveries_wait_for_the_disk(profile: str) -> None:
    bed = StoreBed(profile)
    reader, plain = bed.reader(), bed.reader("c")
    bed.send(b"1", b"2")
    bed.send(b"3")
    bed.send(b"a", queue="c")
    assert plain.bodies() == [b"a"], "of a classic queue before anything is written"
    assert reader.heard() == [] and bed.ready() == 0
    assert bed.actor("q").uncommitted_count() == 3
    bed.write()
    assert reader.bodies() == [b"1", b"2", b"3"]
    assert bed.peer.confirmed() == dict.fromkeys(range(1, 5), "ack")
    assert bed.actor("q").uncommitted_count() == 0
    bed.settle()


def test_what_is_not_consumed_is_counted_when_it_is_written() -> None:
    bed = StoreBed()
    bed.send(b"1", b"2")
    bed.send(b"a", queue="c")
    assert (bed.ready(), bed.ready("c")) == (0, 1)
    bed.write()
    assert (bed.ready(), bed.ready("c")) == (2, 1)


def test_what_comes_back_is_in_front_of_what_comes_later() -> None:
    bed = StoreBed()
    bed.send(b"1")
    bed.write()
    peer = bed.connect("getter")
    peer.say(1, m.BasicGet("q"))
    assert [one.body for one in peer.heard()] == [b"1"]
    bed.send(b"2")
    peer.say(1, m.BasicReject(1, True))
    bed.write()
    for body in (b"1", b"2"):
        peer.say(1, m.BasicGet("q", True))
        assert [one.body for one in peer.heard()] == [body]


def test_a_get_waits_for_what_was_published_before() -> None:
    """And what came behind it on its channel waits with it."""
    bed = StoreBed()
    bed.send(b"1")
    peer = bed.connect("getter")
    peer.say(1, m.BasicGet("q", True), m.BasicGet("c"), m.BasicGet("q"))
    assert peer.heard() == []
    bed.write()
    kinds = [(type(one.method), one.body) for one in peer.heard()]
    assert kinds == [(m.BasicGetOk, b"1"), (m.BasicGetEmpty, b""), (m.BasicGetEmpty, b"")]


def test_a_get_does_not_wait_for_what_is_published_later() -> None:
    """Consumers are given all of it, and there is always more on its way."""
    bed = StoreBed()
    bed.reader()
    bed.send(b"1")
    peer = bed.connect("getter")
    peer.say(1, m.BasicGet("q"))
    bed.send(b"2")
    assert bed.disk.work() == 1
    bed.look()
    assert bed.actor("q").uncommitted_count() == 1
    assert isinstance(peer.one(m.BasicGetEmpty), m.BasicGetEmpty)


@pytest.mark.parametrize("end", ["purge", "delete", "pause"])
def test_a_get_does_not_wait_for_what_will_not_come(end: str) -> None:
    bed = StoreBed()
    bed.send(b"1")
    peer = bed.connect("getter")
    if end == "pause":
        bed.actor("q").pause(True)
    peer.say(1, m.BasicGet("q"))
    if end == "purge":
        assert bed.admin.call(1, m.QueuePurge("q"), m.QueuePurgeOk).message_count == 1
    elif end == "delete":
        assert bed.admin.call(1, m.QueueDelete("q"), m.QueueDeleteOk).message_count == 1
    bed.look()
    (heard,) = peer.heard()
    assert isinstance(heard.method, m.ChannelClose if end == "delete" else m.BasicGetEmpty)


@pytest.mark.parametrize("how", ["close", "hang up"])
def test_who_asks_and_leaves_is_not_kept(how: str) -> None:
    bed = StoreBed()
    bed.send(b"1")
    stays = bed.connect("stays")
    stays.say(1, m.BasicGet("q"))
    for number in range(3 * WAITERS_KEPT):
        peer = bed.connect(f"leaves {number}")
        peer.say(1, m.BasicGet("q"))
        if how == "close":
            peer.say(0, m.ConnectionClose(200, "", 0, 0))
        else:
            peer.hang_up()
        bed.look()
    uncommitted = bed.actor("q").uncommitted
    assert uncommitted is not None and len(uncommitted.waiters) <= WAITERS_KEPT + 2
    bed.write()
    assert stays.bodies() == [b"1"]


def test_a_full_disk_holds_deliveries() -> None:
    bed = StoreBed()
    reader = bed.reader()
    bed.disk.fault = OSError(ENOSPC, "full")
    bed.send(b"1")
    for _ in range(5):
        bed.write()
        bed.later(RETRY_NS)
    assert reader.heard() == [] and bed.peer.confirmed() == {}
    bed.disk.fault = None
    bed.later(RETRY_NS)
    bed.write()
    assert reader.bodies() == [b"1"] and bed.peer.confirmed() == {1: "ack"}


def test_a_lifetime_begins_when_it_is_written() -> None:
    bed = StoreBed(arguments={"x-message-ttl": 1000})
    bed.send(b"1")
    bed.later(5_000 * MS)
    assert bed.dropped() == 0 and bed.actor("q").uncommitted_count() == 1
    bed.write()
    bed.later(900 * MS)
    assert bed.ready() == 1 and bed.dropped() == 0
    bed.later(200 * MS)
    assert bed.ready() == 0 and bed.dropped() == 1


def test_without_a_lifetime_it_goes_to_who_is_ready_or_to_nobody() -> None:
    bed = StoreBed()
    bed.send(b"1", properties=AT_ONCE)
    bed.write()
    assert bed.ready() == 0 and bed.dropped() == 1
    reader = bed.reader()
    bed.send(b"2", properties=AT_ONCE)
    assert reader.heard() == []
    bed.write()
    assert reader.bodies() == [b"2"] and bed.dropped() == 1


def test_a_limit_drops_what_is_written_only() -> None:
    bed = StoreBed(arguments={"x-max-length": 2})
    bed.send(b"1", b"2")
    bed.write()
    bed.send(b"3", b"4", b"5")
    assert bed.ready() == 2 and bed.dropped() == 0
    bed.write()
    assert bed.ready() == 2 and bed.dropped() == 3
    assert [one.body() for one in bed.actor("q").messages.ready_messages()] == [b"4", b"5"]


def test_a_limit_that_rejects_counts_what_is_on_its_way() -> None:
    bed = StoreBed(arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    bed.send(b"1", b"2", b"3")
    assert bed.peer.confirmed() == {3: "nack"}
    bed.write()
    assert bed.ready() == 2 and bed.peer.confirmed()[2] == "ack"


def test_a_duplicate_of_what_is_on_its_way_is_none_of_the_queue() -> None:
    bed = StoreBed(arguments={"x-message-deduplication": True})
    header = b"\x16x-deduplication-header" + b"S\0\0\0\x01k"
    properties = (0x2000, len(header).to_bytes(4, "big") + header)
    for _ in range(2):
        bed.send(b"1", properties=properties)
    bed.write()
    assert bed.ready() == 1 and bed.dropped() == 1
    bed.send(b"1", properties=properties)
    assert bed.actor("q").uncommitted_count() == 0, "it is known now"
    assert bed.ready() == 1 and bed.dropped() == 2
    assert bed.peer.confirmed() == dict.fromkeys((1, 2, 3), "ack")


@pytest.mark.parametrize("is_full", [False, True])
def test_what_is_purged_on_its_way_is_confirmed_and_gone(is_full: bool) -> None:
    bed = StoreBed()
    bed.send(b"1")
    bed.write()
    bed.send(b"2", b"3")
    if is_full:
        bed.disk.fault = OSError(ENOSPC, "full")
        bed.write()
        bed.disk.fault = None
    assert bed.admin.call(1, m.QueuePurge("q"), m.QueuePurgeOk).message_count == 3
    bed.send(b"4")
    bed.later(RETRY_NS)
    bed.write()
    heard = [one.method for one in bed.peer.heard()]
    tags = [one.delivery_tag for one in heard if isinstance(one, m.BasicAck)]
    assert max(tags) == 4 and not any(isinstance(one, m.BasicNack) for one in heard)
    assert [one.body() for one in bed.actor("q").messages.ready_messages()] == [b"4"]
    bed.settle()


def test_a_queue_that_goes_takes_along_what_is_on_its_way() -> None:
    bed = StoreBed()
    bed.send(b"1")
    bed.admin.say(1, m.QueueDelete("q", if_empty=True))
    assert isinstance(bed.admin.one(m.ChannelClose), m.ChannelClose), "it is not empty"
    bed.admin.say(1, m.ChannelCloseOk(), m.ChannelOpen())
    bed.admin.one(m.ChannelOpenOk)
    assert bed.admin.call(1, m.QueueDelete("q"), m.QueueDeleteOk).message_count == 1
    bed.write()
    assert bed.peer.confirmed() == {1: "ack"}
    bed.settle()


def test_a_dead_letter_is_shown_when_it_is_written() -> None:
    bed = StoreBed(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    say = m.QueueDeclare("dead", durable=True, arguments=QUORUM)
    bed.admin.call(1, say, m.QueueDeclareOk)
    bed.send(b"1", queue="c")
    bed.write()
    peer = bed.connect("getter")
    peer.say(1, m.BasicGet("c"), m.BasicReject(1, False))
    bed.look()
    assert bed.ready("dead") == 0 and bed.actor("dead").uncommitted_count() == 1
    bed.write()
    assert bed.ready("dead") == 1


def test_a_lease_takes_what_is_written_only(tmp_path: Path) -> None:
    bed = LeaseBed(tmp_path)
    peer = bed.connect("spark", channels=2)
    peer.call(1, m.QueueDeclare("q", durable=True, arguments=QUORUM), m.QueueDeclareOk)
    bed.publish(peer, b"1")
    peer.send(publish(1, "", "q", b"2", PERSISTENT))
    bed.run()
    peer.say(
        1,
        m.RequestAsk("lease.acquire", {"queue": "q", "group": "g", "start": 0, "max_messages": 10}),
    )
    bed.run()
    assert bed.actor("q").unacked_count == 1, "the other one is on its way"
    bed.work()
    peer.heard()
    assert acquire(bed, peer, 1, 10)["end"] == 2
    bed.die()


def test_a_transaction_stands_behind_what_was_published_before(tmp_path: Path) -> None:
    bed = LeaseBed(tmp_path)
    app, peer = bed.connect("app"), bed.connect("peer")
    peer.call(1, m.QueueDeclare("q", durable=True, arguments=QUORUM), m.QueueDeclareOk)
    bed.work()
    identity = asked(app, "begin", app="a", batch=0, max_bytes=10_000)["id"]
    app.send(publish(1, "", "q", b"2", PERSISTENT), publish(1, "", "q", b"3", PERSISTENT))
    asked(app, "stage", id=identity)
    peer.send(publish(1, "", "q", b"1", PERSISTENT))
    app.say(1, m.RequestAsk("transaction.commit", {"app": "a", "batch": 0, "ids": [identity]}))
    bed.run()
    peer.send(publish(1, "", "q", b"4", PERSISTENT))
    bed.run()
    assert bed.ready() == 0
    bed.work()
    ready = bed.actor("q").messages.ready_messages()
    assert [one.body() for one in ready] == [b"1", b"2", b"3", b"4"]
    bed.die()


def test_tx_commit_is_shown_when_it_is_written() -> None:
    bed = StoreBed()
    peer = bed.connect("tx")
    peer.call(1, m.TxSelect(), m.TxSelectOk)
    peer.send(publish(1, "", "q", b"1"), publish(1, "", "q", b"2"))
    peer.say(1, m.TxCommit())
    bed.look()
    assert bed.ready() == 0 and peer.heard() == []
    bed.write()
    peer.one(m.TxCommitOk)
    assert bed.ready() == 2


def test_what_the_disk_had_at_a_start_is_shown_at_once(tmp_path: Path) -> None:
    bed = LeaseBed(tmp_path)
    peer = bed.connect("peer")
    peer.call(1, m.QueueDeclare("q", durable=True, arguments=QUORUM), m.QueueDeclareOk)
    bed.publish(peer, b"1", b"2")
    peer.send(publish(1, "", "q", b"3"))
    bed.run()
    bed.die()
    bed = LeaseBed(tmp_path)
    assert bed.ready() == 2 and bed.actor("q").uncommitted_count() == 0
    bed.die()


def test_memory_and_the_ledger_have_what_waits_for_the_store() -> None:
    """Messages of RabbitMQ's API are those that are ready; `memory` has all."""
    bed = StoreBed()
    bed.send(b"1" * 1000)
    bed.write()
    bed.send(*([b"2" * 1000] * 300))
    queue = bed.actor("q")
    seen = actor_snapshots(bed.broker)["queue:/q"].numbers
    size = len(queue.messages.ready_messages()[0].raw)
    each = size + MESSAGE_OVERHEAD_BYTES
    assert (seen["ready"], seen["uncommitted"]) == (1, 300)
    assert seen["memory_bytes"] == seen["bytes"] == 301 * each
    shown = row_of(queue, None)
    assert (shown.messages_ready, shown.messages_uncommitted, shown.bytes) == (1, 300, 301 * each)
    (cause,) = whole(queue_causes(bed.broker, "q", "size", Names({}), Pager(9))).rows
    assert (cause.ready, cause.uncommitted, cause.waiting, cause.messages) == (1, 300, 0, 301)
    assert cause.bytes == 301 * each and cause.share == 1.0
    (node,) = [one for one in ledger_rows(bed.broker) if one.name == "node"]
    assert (node.stored_messages, node.stored_bytes) == (301, 301 * each)
    http = queue_row(bed.broker, queue, {}, "")
    assert (http["messages"], http["message_bytes"]) == (1, each)
    bed.write()
    (cause,) = whole(queue_causes(bed.broker, "q", "size", Names({}), Pager(9))).rows
    assert (cause.ready, cause.uncommitted, cause.bytes) == (301, 0, 301 * each)
    assert row_of(queue, None).messages_uncommitted == 0


def test_what_several_quorum_queues_wait_for_is_split_between_them() -> None:
    bed = StoreBed()
    names = ("q", "q2", "q3", "q4")
    for name in names:
        say = m.QueueDeclare(name, durable=True, arguments=QUORUM)
        bed.admin.call(1, say, m.QueueDeclareOk)
        bed.admin.call(1, m.QueueBind(name, "amq.fanout"), m.QueueBindOk)
    bed.write()
    bed.peer.publish("", *([bytes(10_000)] * 10), exchange="amq.fanout")
    bed.look()
    waiting = int(bed.actor("q").uncommitted_bytes())
    assert waiting > 100_000
    held = [memory_of(bed.actor(name)) for name in names]
    assert all(waiting / 4 < one < waiting / 3.5 for one in held)
    places = 3 * 10 * (MESSAGE_OVERHEAD_BYTES - SHARED_BYTES)
    assert abs(sum(held) - (waiting + places)) < 10, "each is in memory once"


def test_a_snapshot_does_not_hold_when_what_waits_is_another() -> None:
    bed = StoreBed()
    queue = bed.actor("q")
    queue.queue_limits = None
    bed.send(*([b"1" * 1000] * 10))
    before = queue_stamp(queue, 0)
    assert before is not None and before == queue_stamp(queue, 0)
    queue.purge()
    assert queue_stamp(queue, 0) != before


def test_the_law_sees_a_count_that_is_wrong() -> None:
    bed = StoreBed()
    bed.send(b"1")
    waiting = bed.actor("q").uncommitted
    assert waiting is not None
    waiting.count += 1
    with pytest.raises(LawBroken, match="wait for the store"):
        bed.law.check_step()
