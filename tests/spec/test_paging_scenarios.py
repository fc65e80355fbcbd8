"""Scenarios 30-45 of flow-semantics 19: when a queue leaves memory, in which order, how far.

[R] is RabbitPaging on a real paged queue and real logs; a parked store is one whose credit nobody
grants. [N] is our rule, by bytes; where credit decides it is tried in the whole broker.
"""

from math import inf

import pytest

from penstock.broker.paging.rabbit_pager import RabbitPager
from penstock.broker.store.write_request import StoreLane
from penstock.flow.gate import Gate
from penstock.flow.hop import KIND_QUEUE_STORE
from penstock.flow.profile import PENSTOCK, PROFILES, HopWindow
from penstock.protocol import methods as m
from penstock.protocol.content import Message
from penstock.queues.consumers import ConsumerQueue, Delivery
from penstock.queues.entry import is_stub
from penstock.queues.line import MessageLine
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.rabbit_paging import (
    SEGMENT_ENTRIES,
    UNBOUNDED,
    PendingAcks,
    RabbitPaging,
    Reduction,
    Traffic,
    desired_duration_s,
    next_rate,
    permitted_betas,
    quota_of,
    target_count,
)
from penstock.simulation.machine.dice import Dice
from tests.property.paging_rig import PagedRig
from tests.spec.pair import Processes, Wire
from tests.spec.test_store_scenarios import TRANSIENT, Depot

RABBITMQ = PROFILES["rabbitmq-3.5"]
GIB = 1 << 30
S = 1_000_000_000
QUEUE_LAYER = 3
WINDOW, MORE = 2_000, 500


class Acks(PendingAcks):
    """Unanswered deliveries, the oldest first."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.paged: list[Delivery] = []

    def add(self, message: Message) -> None:
        tag = len(self.deliveries) + 1
        self.deliveries.append(Delivery(tag, message, ConsumerQueue(), None, tag - 1, 0))

    def whole_count(self) -> int:
        return len(self.deliveries) - len(self.paged)

    def newest(self, count: int) -> list[Delivery]:
        whole = [one for one in self.deliveries if not is_stub(one.message)]
        return whole[::-1][:count]

    def replace(self, delivery: Delivery, stub: Message) -> None:
        delivery.message = stub
        self.paged.append(delivery)


class RabbitQueue:
    """A transient queue that pages by RabbitMQ's rules, with a hop to a store that does nothing.

    rates: (in, out, ack in, ack out) in 1/s."""

    def __init__(
        self,
        ready: int,
        acks: int = 0,
        target: int = UNBOUNDED,
        rates: tuple[int, int, int, int] = (0, 0, 0, 0),
        window: int = 0,
        embed_below: int = 0,
        most: int = UNBOUNDED,
        batch: int = 2048,
    ) -> None:
        self.rig = PagedRig(is_durable=False, segment_bytes=1 << 20)
        self.acks = Acks()
        for _ in range(acks + ready):
            self.rig.publish(0)
        for position in range(acks):
            self.rig.take()
            self.acks.add(self.rig.out[position])
        self.rules = RabbitPaging(batch, embed_below, most, 0)
        self.rules.target = target
        self.rules.rate_in, self.rules.rate_out = map(float, rates[:2])
        self.rules.rate_ack_in, self.rules.rate_ack_out = map(float, rates[2:])
        self.wire: Wire | None = None
        self.gate: Gate | None = None
        if window > 0:
            processes = Processes(RABBITMQ)
            self.wire = processes.wire("queue:q", "store:/", QUEUE_LAYER)
            self.gate = processes.gate("queue:q")
            assert self.wire.credit == window
        self.paged = self.rig.paged

    def reduce(self) -> Reduction:
        credit = 1 << 40
        if self.wire is not None and self.gate is not None:
            credit = self.wire.credit if self.gate.is_open else 0
        done = self.rules.reduce(self.paged, self.acks, credit)
        if self.wire is not None:
            self.wire.send(int(done.charged))
        self.rig.save(done.to_save)
        return done

    def written(self) -> None:
        """The disk does everything it was given."""
        self.rig.append()
        self.rig.flush()


def numbers(messages: list[Message]) -> list[int]:
    return [int(one.body()[:6]) for one in messages]


def tens(*, first: bool) -> tuple[int, int, int, int]:
    """Rates under which acknowledgements grow faster (first), or as fast."""
    return (500, 300, 500, 200) if first else (500, 300, 500, 300)


def test_scenario_30_quota() -> None:
    queue = RabbitQueue(15_000, 5_000, 8_000)
    ram, pending = int(queue.paged.ram_count()), int(queue.acks.whole_count())
    assert (ram, pending) == (15_000, 5_000)
    assert quota_of(ram, pending, 8_000) == 12_000
    done = queue.reduce()
    assert done.messages + done.acks == 12_000


def test_scenario_31_acks_first() -> None:
    """Those grow by 300/s, messages by 200/s."""
    queue = RabbitQueue(15_000, 5_000, 8_000, tens(first=True))
    done = queue.reduce()
    assert (done.acks, done.messages) == (5_000, 7_000)
    assert queue.paged.ram_count() == 8_000
    # What was out is number 0..4999; it goes first.
    assert max(numbers(done.to_save[:5_000])) == 4_999


@pytest.mark.parametrize("rates", [tens(first=False), (500, 200, 500, 300)])
def test_scenario_32_messages_first(rates: tuple[int, int, int, int]) -> None:
    queue = RabbitQueue(15_000, 5_000, 8_000, rates)
    done = queue.reduce()
    assert (done.messages, done.acks) == (7_000, 5_000)
    assert queue.paged.ram_count() == 8_000
    assert min(numbers(done.to_save[:7_000])) == 13_000


@pytest.mark.parametrize("rates", [tens(first=True), tens(first=False)])
def test_scenario_32_acks_are_more_than_the_quota(rates: tuple[int, int, int, int]) -> None:
    queue = RabbitQueue(6_000, 14_000, 8_000, rates)
    done = queue.reduce()
    assert (done.messages, done.acks) == (0, 12_000)


def test_scenario_33_r_credit_stop() -> None:
    queue = RabbitQueue(15_000, 5_000, 8_000, tens(first=False), window=2_000)
    done = queue.reduce()
    assert (done.messages, done.acks) == (2_000, 5_000)
    assert queue.wire is not None and queue.wire.credit == -5_000
    assert queue.gate is not None and not queue.gate.is_open


def test_scenario_33_r_credit_stop_with_acks_first() -> None:
    queue = RabbitQueue(15_000, 5_000, 8_000, tens(first=True), window=2_000)
    done = queue.reduce()
    assert (done.messages, done.acks) == (0, 5_000)
    assert queue.wire is not None and queue.wire.credit == -3_000


def test_scenario_34_r_resume() -> None:
    queue = RabbitQueue(15_000, 5_000, 8_000, tens(first=False), window=2_000)
    queue.reduce()
    wire, gate = queue.wire, queue.gate
    assert wire is not None and gate is not None
    for _ in range(10):
        wire.take(500)
        assert not gate.is_open
        assert queue.reduce().messages == 0, "a blocked queue makes no progress by itself (P7)"
    assert wire.credit == 0
    wire.take(500)
    assert gate.is_open and wire.credit == 500
    done = queue.reduce()
    assert (done.messages, done.acks) == (500, 0)
    assert not gate.is_open


def test_scenario_35_which_message_first() -> None:
    queue = RabbitQueue(0)
    for _ in range(101):
        queue.rig.publish(0)
    queue.rig.take()
    queue.rig.ack(0)
    # From here on messages are 1..100, all of them in the front.
    queue.rules.target = 40
    credit = 1 << 40
    first = queue.paged.page_bodies_count(60, 40, credit, 0)
    assert numbers(first.charged) == list(range(100, 40, -1))
    assert numbers(queue.paged.ring.items[int(queue.paged.ring.head) :]) == list(range(1, 41))
    queue.rig.save(first.in_order())
    for _ in range(20):
        queue.rig.publish(0)
    assert len(queue.paged.behind.q1) == 20
    second = queue.paged.page_bodies_count(30, 30, credit, 0)
    assert numbers(second.charged) == [*range(101, 121), *range(40, 30, -1)]
    queue.rig.save(second.in_order())
    assert [int(body[:6]) for body in queue.rig.drain()] == list(range(1, 121))


def test_scenario_36_which_ack_first() -> None:
    queue = RabbitQueue(0, 10, 7)
    done = queue.reduce()
    assert (done.messages, done.acks) == (0, 3)
    # Deliveries 1..10 are of messages 0..9.
    assert [int(one.tag) for one in queue.acks.paged] == [10, 9, 8]
    assert sorted(numbers(done.to_save)) == [7, 8, 9]


def test_scenario_37_r_embedded_only() -> None:
    queue = RabbitQueue(0, embed_below=4096, target=8_000)
    for _ in range(20_000):
        queue.rig.publish(94)
    done = queue.reduce()
    queue.written()
    assert (done.messages, done.charged, done.positions) == (12_000, 0, 0)
    assert queue.paged.ram_count() == 20_000
    done = queue.reduce()
    assert (done.messages, done.charged, done.positions) == (8_000, 0, 3_616)
    assert queue.paged.ram_count() == SEGMENT_ENTRIES
    done = queue.reduce()
    assert (done.messages, done.positions) == (0, 0), "the rest stays, whatever the target (P4)"


def test_scenario_37_n_embedded_only() -> None:
    """[N]: memory is at most the target, however small the messages are."""
    rig = PagedRig(is_durable=False, segment_bytes=1 << 20)
    for _ in range(20_000):
        rig.publish(94)
    whole = rig.paged.bytes_ready
    target = whole * 8_000 // 20_000
    while saves := rig.paged.page_bytes(target, UNBOUNDED, UNBOUNDED):
        rig.save(saves)
        rig.append()
    assert rig.paged.bytes_ready <= target
    assert rig.paged.behind.delta.count > 11_000
    rig.check()


@pytest.mark.parametrize(("betas", "moved"), [(20_000, 3_616), (18_432, 2_048), (18_431, 0)])
def test_scenario_38_position_batch(betas: int, moved: int) -> None:
    queue = RabbitQueue(betas, target=0)
    paged = queue.paged
    queue.rig.save(paged.page_bodies_count(betas, 0, UNBOUNDED, 0).in_order())
    queue.written()
    assert len(paged.behind.q3) == betas
    assert paged.page_positions(SEGMENT_ENTRIES, 2048, UNBOUNDED, SEGMENT_ENTRIES) == moved
    assert paged.behind.delta.count == moved
    # They are the newest ones, in one piece.
    assert len(paged.behind.delta.pieces) == (1 if moved else 0)


def test_scenario_38_a_segment_is_left_whole() -> None:
    """q3 is paged from its end down to the segment behind that of its oldest message (P6)."""
    queue = RabbitQueue(20_000, target=0)
    for position in range(1_000):
        queue.rig.take()
        queue.rig.ack(position)
    paged = queue.paged
    queue.rig.save(paged.page_bodies_count(19_000, 0, UNBOUNDED, 0).in_order())
    queue.written()
    assert paged.page_positions(10_000, 2048, UNBOUNDED, SEGMENT_ENTRIES) == 20_000 - 16_384


@pytest.mark.parametrize(
    ("count", "betas_and_delta", "betas", "target", "permitted"),
    [
        (200_000, 100_000, 50_000, 8_000, 16_384),
        (200_000, 100_000, 50_000, 50_000, 33_334),
        (400_000, 200_000, 50_000, 1_000_000, 166_667),
        (0, 0, 0, 8_000, UNBOUNDED),
        (9_000, 9_000, 9_000, 0, 9_000),
        (90_000, 90_000, 90_000, 0, 16_384),
    ],
)
def test_scenario_39_permitted(
    count: int, betas_and_delta: int, betas: int, target: int, permitted: int
) -> None:
    assert permitted_betas(count, betas_and_delta, betas, target) == permitted


def test_scenario_40_pressure_start() -> None:
    def duration(share: float) -> float:
        return desired_duration_s(int(GIB * share), GIB, 0.5, [60.0], False)

    assert duration(0.499) == inf
    assert 0 < duration(0.5) < inf
    assert desired_duration_s(GIB, GIB, 0.5, [], False) == inf


def test_scenario_41_durations() -> None:
    durations = [10.0, 20.0, 30.0]
    wanted = desired_duration_s(800, 1000, 0.5, durations, False)
    assert wanted == pytest.approx(25.4, abs=0.05)
    wanted = desired_duration_s(970, 1000, 0.5, durations, False)
    assert wanted == pytest.approx(20.6, abs=0.05)
    assert desired_duration_s(970, 1000, 0.5, durations, True) == inf
    assert desired_duration_s(1, 0, 0.5, durations, False) == 0


def test_scenario_42_target() -> None:
    assert target_count(2.0, 1000 + 500 + 500 + 400) == 4_800
    queue = RabbitQueue(10_000, rates=(1000, 500, 500, 400))
    assert queue.reduce().messages == 0, "without a target nothing is paged (P5)"
    assert queue.rules.aim(2.0)
    assert queue.rules.target == 4_800
    assert queue.reduce().messages == 5_200
    assert not queue.rules.aim(3.0), "a larger target pages nothing"
    assert not queue.rules.aim(inf)
    assert queue.rules.target == UNBOUNDED
    assert queue.rules.aim(1.0)


def test_scenario_43_rates() -> None:
    assert next_rate(0.0, 5_000, 5.0) == pytest.approx(500.0)
    rules = RabbitPaging(2048, 0, UNBOUNDED, 0)
    duration = rules.report(5 * S, Traffic(5_000, 0, 0, 0), 1_000, 1_000)
    assert rules.rate() == pytest.approx(500.0)
    assert duration == pytest.approx(2_000 / (4 * 500))
    idle = RabbitPaging(2048, 0, UNBOUNDED, 0)
    assert idle.report(5 * S, Traffic(0, 0, 0, 0), 1_000, 0) == inf


def test_scenario_44_chunk_cap() -> None:
    """RabbitMQ 3.8, with a window of 4000: passes of 8000, one reminder for each."""
    queue = RabbitQueue(50_000, target=0, most=8_000, batch=4096)
    for count in range(1, 7):
        done = queue.reduce()
        assert (done.messages, done.has_more) == (8_000, True)
        queue.written()
        assert done.positions <= 8_000
        assert queue.paged.ram_count() == 50_000 - 8_000 * count
    done = queue.reduce()
    assert done.messages == 2_000
    queue.written()
    while done.has_more:
        done = queue.reduce()
        assert done.messages == 0 and 0 < done.positions <= 8_000
    assert len(queue.paged.behind.q3) + len(queue.paged.behind.q2) < SEGMENT_ENTRIES + 4096


def test_scenario_44_a_blocked_queue_does_not_remind_itself() -> None:
    """The store's grant goes on in its place."""
    queue = RabbitQueue(20_000, target=0, most=8_000, window=2_000)
    done = queue.reduce()
    assert done.messages == 2_000
    assert not done.has_more


def test_scenario_44_passes_after_every_thousandth_operation() -> None:
    rules = RabbitPaging(4096, 0, 8_000, 0)
    rules.target = 0
    assert not rules.moved(999)
    assert rules.moved(1)
    assert not rules.moved(1)
    before_38 = RabbitPaging(2048, 0, UNBOUNDED, 0)
    before_38.target = 0
    assert before_38.moved(1)
    assert not before_38.moved(0), "what is read, taken or answered calls for no pass"
    before_38.target = UNBOUNDED
    assert not before_38.moved(1)


@pytest.mark.parametrize("form", ["R", "N"])
def test_scenario_45_fifo(form: str) -> None:
    """[R] and [N]: 100 000 messages through a queue whose target changes all the time."""
    count = 100_000
    dice = Dice(45)
    queue = RabbitQueue(0)
    rig = queue.rig
    rules = queue.rules
    taken = 0
    while taken < count:
        for _ in range(min(5_000, count - rig.count)):
            rig.publish(0)
        for _ in range(3):
            aim = dice.one_of((0, 500, 3_000, 20_000))
            if form == "R":
                rules.target = aim
                queue.reduce()
            else:
                size = 44 + MESSAGE_OVERHEAD_BYTES
                rig.save(rig.paged.page_bytes(aim * size, 500_000, UNBOUNDED))
            if dice.one_of((True, False)):
                queue.written()
            if rig.paged.at_hand() == 0 and rig.expected:
                queue.written()
                assert rig.read(100_000) > 0
            for _ in range(min(2_500, int(rig.paged.at_hand()))):
                rig.take()
                rig.ack(taken)
                taken += 1
    assert rig.paged.ready_count() == 0
    assert rig.scratch.live_count(rig.spill) == 0


class RabbitDepot(Depot):
    """Scenario 33 in the whole broker, a tenth as large: 1 500 messages rest, 500 are out, all of
    them to be written, and 800 may stay; the store does nothing."""

    def __init__(self) -> None:
        window = HopWindow(WINDOW // 10, MORE // 10)
        super().__init__(RABBITMQ.with_window(KIND_QUEUE_STORE, window), 1 << 22)
        self.reader = self.connect()[0]
        self.reader.say(m.BasicQos(0, 500))
        self.reader.say(m.BasicConsume("d1"))
        self.settle()
        hand = self.connect()[0]
        for number in range(2_000):
            body = b"%06d" % number + b"x" * 5_000
            hand.client.session.publish(hand.channel, "", "d1", body, TRANSIENT)
        hand.client.flush()
        self.settle()
        queue = self.queue("d1")
        assert (self.ready("d1"), queue.unacked_count, self.spent("d1")) == (1_500, 500, 0)
        manager = self.broker.stores.paging
        assert manager is not None
        pager = manager.pager_of(queue)
        assert isinstance(pager, RabbitPager)
        pager.rules.rate_in = 800 / 0.1
        pager.aim_at(0.1)
        assert pager.rules.target == 800
        self.settle()

    @property
    def lane(self) -> StoreLane:
        return next(lane for lane in self.store.lanes if lane.sender == "queue:/d1")

    @property
    def paged(self) -> MessageLine:
        messages = self.queue("d1").messages
        assert isinstance(messages, MessageLine)
        return messages

    def stubs_out(self) -> int:
        table = self.channel(self.reader).table
        return sum(one is not None and is_stub(one.message) for one in table.entries)


def test_scenario_33_r_credit_stop_in_the_broker() -> None:
    depot = RabbitDepot()
    assert depot.paged.paged_count() == WINDOW // 10, "messages grow, so they go first"
    assert depot.stubs_out() == 500
    assert depot.lane.balance == -500
    assert not depot.queue("d1").gate.is_open
    assert depot.queue("d1").unacked_bytes == 0


def test_scenario_34_r_resume_in_the_broker() -> None:
    """Credit brings the queue to its target; then everything is delivered once and in order."""
    depot = RabbitDepot()
    depot.write()
    assert depot.queue("d1").gate.is_open
    assert (depot.paged.ram_count(), depot.paged.paged_count()) == (800, 700)
    reader = depot.reader
    reader.acks = True
    reader.client.session.ack(reader.channel, 0, multiple=True)
    reader.client.flush()
    depot.settle()
    depot.write()
    assert [int(body[:6]) for body in reader.bodies()] == list(range(2_000))
    assert {len(body) for body in reader.bodies()} == {5_006}
    assert depot.store.log.live_count(depot.lane.index) == 0


def test_scenario_36_r_paged_deliveries_come_back() -> None:
    """What was out, and has left memory meanwhile, is read again for whoever gets it next."""
    depot = RabbitDepot()
    depot.write()
    assert depot.stubs_out() == 500
    depot.reader.say(m.ChannelClose(200, "", 0, 0))
    depot.settle()
    assert depot.ready("d1") == 2_000
    other = depot.connect(acks=True)[0]
    other.say(m.BasicConsume("d1")).settle()
    depot.write()
    assert [int(body[:6]) for body in other.bodies()] == list(range(2_000))
    assert [one.redelivered for one in other.deliveries] == [True] * 500 + [False] * 1_500
    assert depot.store.log.live_count(depot.lane.index) == 0


class Pressed(Depot):
    """Our rule with a window of 2000/500 to a store that does nothing: 5 000 deliveries are
    out, 6 000 more messages rest, and the queue may hold next to nothing."""

    def __init__(self) -> None:
        window = HopWindow(WINDOW, MORE)
        super().__init__(PENSTOCK.with_window(KIND_QUEUE_STORE, window), 1 << 22)
        reader = self.connect()[0]
        reader.say(m.BasicQos(0, 5_000), m.BasicConsume("d1"))
        self.settle()
        self.send(self.connect()[0], "d1", 50, 11_000, properties=TRANSIENT)
        assert (self.ready("d1"), self.queue("d1").unacked_count) == (6_000, 5_000)
        self.press(1_000)

    def press(self, target_bytes: int) -> None:
        queue = self.queue("d1")
        assert queue.paging is not None
        queue.page_above = target_bytes
        queue.wake()
        self.settle()

    @property
    def lane(self) -> StoreLane:
        return next(lane for lane in self.store.lanes if lane.sender == "queue:/d1")


def test_scenario_33_n_credit_stop() -> None:
    """Nothing is handed to the store beyond its window, whatever is out with consumers."""
    depot = Pressed()
    assert (depot.lane.in_flight, depot.lane.balance) == (WINDOW, 0)
    assert not depot.queue("d1").gate.is_open
    depot.press(1_000)
    assert depot.lane.balance == 0


def test_scenario_34_n_resume() -> None:
    """The first grant pages as many more; nothing has to be paid back first."""
    depot = Pressed()
    lane = depot.lane
    before = int(lane.granted)
    while lane.granted == before:
        assert depot.disk.work(), "the store grants what the disk has done"
        depot.settle()
    granted = int(lane.granted) - before
    assert granted >= MORE
    assert (lane.in_flight, lane.balance) == (WINDOW, 0)
    depot.write()
    messages = depot.queue("d1").messages
    assert isinstance(messages, MessageLine)
    assert messages.paged_count() > 5_900
