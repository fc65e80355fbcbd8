"""Paging in the whole broker, on a disk that waits: out of memory, and back again."""

import pytest

from penstock.base.limits import PARKED_METHODS
from penstock.broker.paging.pager import Pager
from penstock.broker.queue.queue_actor import QueueActor
from penstock.client.events import ClientEvent, Replied
from penstock.flow.profile import PENSTOCK
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.queues.line import MessageLine
from penstock.queues.rules import DROP_HEAD, QueueRules
from penstock.simulation.machine.durable_disks import give_scratch
from tests.spec.stage import Hand
from tests.spec.test_store_scenarios import PERSISTENT, TRANSIENT, Depot

TARGET_BYTES = 6000
BODY_BYTES = 500


class PagingDepot(Depot):
    """d1 to d3 are durable, q1 to q3 are not; a queue keeps TARGET_BYTES in memory."""

    def __init__(self, segment_bytes: int = 1 << 20) -> None:
        super().__init__(PENSTOCK, segment_bytes)
        give_scratch(self.broker, self.disk, segment_bytes)
        for actor in self.broker.vhosts["/"].queues.values():
            if actor.paging is None:
                assert self.broker.stores.paging is not None
                self.broker.stores.paging.adopt(actor)
            actor.page_above = TARGET_BYTES
        self.hand = self.connect()[0]
        self.number = 0

    def queue(self, name: str) -> QueueActor:
        return self.broker.vhosts["/"].queues[name]

    def fill(
        self,
        name: str,
        count: int,
        properties: Properties = PERSISTENT,
        body_bytes: int = BODY_BYTES,
    ) -> list[bytes]:
        """Publish numbered messages and let the disk work; their bodies."""
        bodies = []
        for _ in range(count):
            bodies.append(b"%06d" % self.number + b"." * (body_bytes - 6))
            self.number += 1
            self.hand.client.session.publish(self.hand.channel, "", name, bodies[-1], properties)
        self.hand.client.flush()
        self.settle()
        self.write()
        return bodies

    def drain(self, name: str, prefetch: int = 0) -> Hand:
        """A consumer that answers everything it gets, until the disk has no more work."""
        hand = self.connect(acks=True)[0]
        hand.say(m.BasicQos(0, prefetch))
        hand.say(m.BasicConsume(queue=name))
        self.rest()
        return hand

    def rest(self) -> None:
        """What consumers have answered is settled, and the disk has done everything."""
        for _ in range(30):
            self.settle()
            self.write()

    def asking(self) -> "Asking":
        hand = Asking()
        self.world.connect(hand)
        self.settle()
        return hand

    def messages(self, name: str) -> MessageLine:
        found = self.queue(name).messages
        assert isinstance(found, MessageLine) and found.is_paging, f"{name} does not page"
        return found


def test_what_is_above_the_target_leaves_memory_and_comes_back_in_order() -> None:
    depot = PagingDepot()
    bodies = depot.fill("d1", 100)
    assert depot.messages("d1").bytes_ready <= TARGET_BYTES
    assert depot.messages("d1").paged_count() > 80
    assert depot.ready("d1") == 100
    assert depot.drain("d1").bodies() == bodies
    assert depot.store.log.live_count(depot.store.lanes[0].index) == 0


def test_who_published_pays_for_what_is_in_memory_only() -> None:
    depot = PagingDepot()
    depot.fill("d1", 100)
    stored = depot.broker.node_account.total_stored_bytes()
    assert stored == depot.messages("d1").bytes_ready <= TARGET_BYTES
    depot.drain("d1")
    assert depot.broker.node_account.total_stored_bytes() == 0


def test_a_queue_below_its_target_is_a_plain_one() -> None:
    depot = PagingDepot()
    depot.fill("d1", 3)
    assert not depot.queue("d1").messages.is_paging
    depot.fill("d1", 50)
    depot.drain("d1")
    assert not depot.queue("d1").messages.is_paging
    assert depot.queue("d1").page_above == TARGET_BYTES


@pytest.mark.parametrize("name", ["d1", "q1"])
def test_transient_messages_page_too(name: str) -> None:
    depot = PagingDepot()
    bodies = depot.fill(name, 60, TRANSIENT) + depot.fill(name, 60, TRANSIENT)
    assert depot.messages(name).bytes_ready <= TARGET_BYTES
    assert depot.drain(name).bodies() == bodies
    assert ("/" in depot.broker.stores.scratch) == (name == "q1")


def test_both_kinds_in_one_queue_keep_their_order() -> None:
    depot = PagingDepot()
    bodies = []
    for _ in range(40):
        bodies += depot.fill("d1", 2, PERSISTENT) + depot.fill("d1", 3, TRANSIENT)
    assert depot.messages("d1").paged_count() > 150
    assert depot.drain("d1", 7).bodies() == bodies


class Asking(Hand):
    """Keeps the broker's answers with what came along."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Replied] = []

    def happened(self, event: ClientEvent) -> None:
        super().happened(event)
        if isinstance(event, Replied):
            self.answers.append(event)

    def got(self) -> list[bytes]:
        return [one.delivery.body for one in self.answers if one.delivery is not None]


def test_a_get_waits_for_its_message_and_what_is_behind_it_too() -> None:
    depot = PagingDepot()
    bodies = depot.fill("d1", 100)
    hand = depot.asking()
    for _ in range(30):
        hand.say(m.BasicGet(queue="d1", no_ack=True))
    hand.say(m.QueueDeclare("d1", passive=True))
    depot.settle()
    assert 0 < len(hand.got()) < 30, "the disk has not worked yet"
    depot.rest()
    assert hand.got() == bodies[:30]
    assert isinstance(hand.answers[-1].reply, m.QueueDeclareOk)


def test_a_connection_is_not_read_while_too_much_waits_behind_a_get() -> None:
    depot = PagingDepot()
    bodies = depot.fill("d1", 100)
    hand = depot.asking()
    reader = depot.connection(hand.client)
    for _ in range(30):
        hand.say(m.BasicGet(queue="d1", no_ack=True))
    for _ in range(3 * PARKED_METHODS.default):
        hand.say(m.QueueDeclare("d1", passive=True, no_wait=True))
    depot.settle()
    inbox = reader.channels[hand.channel].inbox
    assert len(inbox.methods) - inbox.head == PARKED_METHODS.default
    assert list(reader.gate.reasons) == [(reader.channels[hand.channel].identity, "read")]
    depot.rest()
    assert reader.gate.is_open
    assert hand.got() == bodies[:30]


def test_a_get_that_waits_finds_an_empty_queue_after_a_purge() -> None:
    depot = PagingDepot()
    depot.fill("d1", 100)
    hand = depot.asking()
    for _ in range(30):
        hand.say(m.BasicGet(queue="d1", no_ack=True))
    depot.settle()
    assert len(hand.got()) < 30
    depot.hand.say(m.QueuePurge("d1"))
    depot.rest()
    assert isinstance(hand.answers[-1].reply, m.BasicGetEmpty)
    assert len(hand.answers) == 31


def test_a_purge_settles_what_is_on_the_disk_and_drops_a_late_read() -> None:
    depot = PagingDepot()
    depot.fill("d1", 100)
    reader = depot.connect(acks=True)[0]
    reader.say(m.BasicConsume(queue="d1"))
    depot.settle()
    assert depot.disk.jobs, "a read is under way"
    depot.hand.say(m.QueuePurge("d1"))
    depot.rest()
    assert depot.ready("d1") == 0
    assert depot.store.log.live_count(depot.store.lanes[0].index) == 0
    assert depot.broker.node_account.total_stored_bytes() == 0
    bodies = depot.fill("d1", 50)
    depot.rest()
    assert reader.bodies()[-50:] == bodies


def test_a_deleted_queue_leaves_nothing_behind() -> None:
    depot = PagingDepot()
    depot.fill("d1", 100)
    depot.fill("q1", 100)
    hand = depot.connect(acks=True)[0]
    hand.say(m.BasicConsume(queue="d1"))
    depot.settle()
    assert depot.disk.jobs, "a read is under way"
    for name in ("d1", "q1"):
        depot.hand.say(m.QueueDelete(name))
    depot.rest()
    assert depot.broker.node_account.total_stored_bytes() == 0
    assert [lane.sender for lane in depot.store.lanes] == ["queue:/d2", "queue:/d3"]
    assert not depot.broker.stores.scratch["/"].lanes


def test_f14_a_damaged_record_is_never_passed_over_in_silence() -> None:
    """F14: the queue is paused and says so; resumed it gives what is left, in order."""
    depot = PagingDepot()
    bodies = depot.fill("d1", 100)
    name = next(one for one in depot.files.names() if one.endswith(".log"))
    at = bytes(depot.files.files[name].data).index(bodies[50])
    depot.files.flip(name, (at + 100) * 8)
    hand = depot.drain("d1")
    assert depot.queue("d1").is_paused
    assert hand.bodies() == bodies[: len(hand.bodies())]
    assert len(hand.bodies()) <= 50
    depot.queue("d1").pause(False)
    depot.rest()
    assert hand.bodies() == bodies[:50] + bodies[51:]
    assert depot.broker.node_account.total_stored_bytes() == 0


def test_f14_damage_that_does_not_come_next_any_more_is_found_again() -> None:
    """F14: the queue pages on while it is read; the message is given up once, when it is next."""
    depot = PagingDepot()
    queue = depot.queue("d1")
    bodies = depot.fill("d1", 300, body_bytes=60)
    next_at = len(depot.messages("d1").ring)
    name = next(one for one in depot.files.names() if one.endswith(".log"))
    at = bytes(depot.files.files[name].data).index(bodies[next_at])
    depot.files.flip(name, (at + 30) * 8)
    got = 0
    while not depot.disk.jobs:
        depot.hand.say(m.BasicGet(queue="d1", no_ack=True))
        depot.settle()
        got += 1
    pager = queue.paging
    assert isinstance(pager, Pager)
    before = int(depot.messages("d1").paged_count())
    pager.aim(300)
    queue.wake()
    depot.settle()
    assert depot.messages("d1").paged_count() > before, "a part of the front has left"
    depot.rest()
    assert queue.ruling is None and not pager.keeper.unread
    hand = depot.drain("d1")
    assert queue.is_paused
    queue.pause(False)
    depot.rest()
    assert hand.bodies() == bodies[got:next_at] + bodies[next_at + 1 :]
    assert depot.ready("d1") == 0


def test_f17_what_a_full_disk_has_not_taken_is_not_damaged() -> None:
    """F17: consumers get what is on the disk, and the rest when there is room."""
    depot = PagingDepot()
    bodies = depot.fill("d1", 50)
    depot.files.room = 3000
    bodies += depot.fill("d1", 20)
    hand = depot.drain("d1")
    assert depot.queue("d1").ruling is None
    assert hand.bodies() == bodies[: len(hand.bodies())]
    assert len(hand.bodies()) >= 50
    depot.files.room = 1 << 30
    for _ in range(10):
        depot.world.clock.jump(depot.world.clock.now_ns + 500_000_000)
        while depot.world.timers.is_due():
            depot.world.timers.run_next()
        depot.rest()
    assert hand.bodies() == bodies
    assert depot.queue("d1").ruling is None


def test_returned_messages_come_before_those_on_the_disk() -> None:
    depot = PagingDepot()
    bodies = depot.fill("d1", 100)
    first = depot.connect()[0]
    first.say(m.BasicQos(0, 10))
    first.say(m.BasicConsume(queue="d1"))
    depot.rest()
    assert first.bodies() == bodies[:10]
    first.client.vanish(True)
    depot.settle()
    hand = depot.drain("d1")
    assert hand.bodies() == bodies
    assert [one.redelivered for one in hand.deliveries] == [True] * 10 + [False] * 90


def test_a_limit_drops_what_is_on_the_disk_from_its_head() -> None:
    depot = PagingDepot()
    bodies = depot.fill("d1", 100)
    rules = QueueRules()
    rules.max_length = 10
    rules.overflow = DROP_HEAD
    depot.broker.rule_manager.apply(depot.queue("d1"), rules)
    depot.rest()
    assert depot.ready("d1") == 10
    bodies += depot.fill("d1", 5)
    assert depot.drain("d1").bodies() == bodies[-10:]
    assert depot.store.log.live_count(depot.store.lanes[0].index) == 0


def test_bodies_of_unanswered_deliveries_leave_memory_and_are_read_when_they_come_back() -> None:
    depot = PagingDepot()
    paging = depot.broker.stores.paging
    assert paging is not None
    bodies = depot.fill("d1", 10)
    first = depot.connect()[0]
    first.say(m.BasicConsume(queue="d1"))
    depot.rest()
    bodies += depot.fill("d1", 40)
    assert first.bodies() == bodies
    assert depot.queue("d1").unacked_bytes > 50 * BODY_BYTES
    paging.tick(2 * TARGET_BYTES)
    depot.rest()
    assert depot.queue("d1").unacked_bytes <= TARGET_BYTES // 2
    first.client.session.ack(first.channel, first.deliveries[44].delivery_tag)
    first.client.session.ack(first.channel, first.deliveries[0].delivery_tag)
    first.client.flush()
    depot.rest()
    first.client.vanish(True)
    depot.settle()
    assert depot.ready("d1") == 48
    hand = depot.drain("d1")
    assert hand.bodies() == bodies[1:44] + bodies[45:]
    assert all(one.redelivered for one in hand.deliveries)
    assert depot.broker.node_account.total_stored_bytes() == 0
    assert depot.store.log.live_count(depot.store.lanes[0].index) == 0


def test_the_budget_is_shared_by_water_level() -> None:
    """Two large queues and a small one: the small one keeps what it has."""
    depot = PagingDepot()
    paging = depot.broker.stores.paging
    assert paging is not None
    for actor in depot.broker.vhosts["/"].queues.values():
        actor.page_above = 1 << 40
    depot.fill("d1", 200)
    depot.fill("d2", 200)
    depot.fill("d3", 3)
    paging.tick(160_000)
    depot.rest()
    held = {name: int(depot.queue(name).messages.bytes_ready) for name in ("d1", "d2", "d3")}
    assert sum(held.values()) <= 80_000
    assert held["d1"] > 20_000 and held["d2"] > 20_000
    assert not depot.queue("d3").messages.is_paging
    targets = []
    for name in ("d1", "d2"):
        pager = depot.queue(name).paging
        assert isinstance(pager, Pager)
        targets.append(int(pager.target_bytes))
    assert targets[0] == targets[1] < 40_000
