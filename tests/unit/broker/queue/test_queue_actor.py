"""The queue's actor: fairness between lanes, deletion, depth, and failing alone."""

from penstock.flow.profile import PENSTOCK, Profile
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from tests.spec.stage import Hand, Stage
from tests.unit.broker.peer import Bed, publish


def test_a_queue_that_fails_is_stopped_and_everybody_else_goes_on() -> None:
    bed = Bed()
    peer = bed.connect(channels=2)
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.call(1, m.QueueDeclare("r"), m.QueueDeclareOk)
    peer.say(2, m.BasicConsume("q", "t"))
    peer.heard()
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    actor = bed.broker.vhosts["/"].queues["q"]
    peer.publish("q", b"1")
    peer.heard()
    # What no bug of today does: something in the mailbox that is no message.
    actor.lanes[0].items.append(None)  # type: ignore[arg-type]  # that is the point
    actor.offered(actor.lanes[0])
    peer.send(publish(1, "", "r", b"2"))
    heard = peer.heard()
    assert [one.method for one in heard if one.channel == 2] == [m.BasicCancel("t", True)]
    assert [one.method.delivery_tag for one in heard if one.channel == 1] == [2]  # type: ignore[attr-defined]
    assert not actor.is_alive and list(bed.broker.vhosts["/"].queues) == ["r"]
    assert [text for text, _ in bed.log.errors] == ["internal error in queue:/q, which is stopped"]
    peer.say(2, m.BasicAck(1, False))
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    bed.log.errors.clear()
    bed.settle()


def test_publishes_on_their_way_to_a_queue_that_fails_are_refused() -> None:
    bed = Bed()
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    actor = bed.broker.vhosts["/"].queues["q"]
    peer.send(publish(1, "", "q", b"0"))
    assert peer.confirmed() == {1: "ack"}
    other = bed.connect("other")
    other.publish("q", b"0")
    other.connection.channels[1].publisher.lanes["q"].items.append(None)  # type: ignore[arg-type]
    actor.offered(actor.lanes[1])
    bed.broker.scheduler.ready.clear()
    actor.is_ready = False
    peer.connection.receive(publish(1, "", "q", b"1"))
    actor.pending.reverse()
    bed.run()
    assert not actor.is_alive
    assert set(peer.confirmed()) == {2}
    bed.log.errors.clear()
    bed.settle()


def test_senders_are_served_in_turn() -> None:
    bed = Bed(turn_messages=4, profile="none")
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    others = [bed.connect(f"sender-{index}") for index in range(3)]
    for index, other in enumerate(others):
        whole = publish(1, "", "q", b"%d" % index)
        other.connection.receive(whole * 12)
    bed.run()
    peer.say(1, m.BasicConsume("q", "t", no_ack=True))
    order = b"".join(one.body for one in peer.heard())
    assert len(order) == 36
    assert {order[:12].count(b"%d" % index) for index in range(3)} == {4}
    bed.settle()


def test_a_deep_queue_holds_its_publishers_until_three_quarters() -> None:
    bed = Bed(queue_depth_bytes=10_000)
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    actor = bed.broker.vhosts["/"].queues["q"]
    peer.publish("q", *(b"x" * 900 for _ in range(11)))
    assert actor.is_deep and not actor.gate.is_open
    for _ in range(3):
        peer.say(1, m.BasicGet("q"))
        assert actor.is_deep, "what is unanswered is still there"
    for tag in (1, 2, 3):
        peer.say(1, m.BasicAck(tag, False))
    bed.run()
    peer.say(1, m.BasicGet("q", True))
    assert not actor.is_deep and actor.gate.is_open
    bed.settle()


def test_purge_and_deletion_open_a_deep_queue() -> None:
    bed = Bed(queue_depth_bytes=1_000)
    peer = bed.connect()
    for name in ("q", "r"):
        peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
        peer.publish(name, b"x" * 2_000)
        actor = bed.broker.vhosts["/"].queues[name]
        assert actor.is_deep
        peer.say(1, m.QueuePurge(name) if name == "q" else m.QueueDelete(name))
        peer.heard()
        assert actor.gate.is_open
    peer.heard()
    bed.settle()


def test_a_consumer_that_is_removed_while_it_is_held_is_not_served_again() -> None:
    bed = Bed()
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.call(1, m.BasicQos(0, 1, False), m.BasicQosOk)
    peer.say(1, m.BasicConsume("q", "t"))
    peer.publish("q", b"1", b"2")
    assert len(peer.heard()) == 2
    peer.send(method_frame(1, m.BasicCancel("t")), method_frame(1, m.BasicAck(1, False)))
    assert [type(one.method) for one in peer.heard()] == [m.BasicCancelOk]
    actor = bed.broker.vhosts["/"].queues["q"]
    assert not actor.consumers and actor.ready == [] and actor.messages.ready_count() == 1
    bed.settle()


def test_many_short_connections_leave_nothing() -> None:
    """F53."""
    bed = Bed()
    for index in range(100):
        peer = bed.connect(f"short-{index}")
        peer.call(1, m.QueueDeclare("", exclusive=True), m.QueueDeclareOk)
        peer.send(publish(1, "", next(iter(bed.broker.vhosts["/"].queues)), b"x"))
        peer.hang_up()
    vhost = bed.broker.vhosts["/"]
    assert vhost.queues == {} and vhost.owned == {}
    assert bed.broker.connections == {} and bed.broker.negotiators == {}
    assert [page.name for page in bed.broker.ledger.pages()] == ["node", "vhost:/", "user:guest@/"]
    assert vhost.router.snapshot().binding_count == 0
    bed.settle()


KIB = 1024
MARK_BYTES = 64 * KIB
SMALL = PENSTOCK.with_messages(40, 20)


def held(profile: Profile) -> tuple[Stage, list[Hand]]:
    """A queue at its depth mark, and four who press on it."""
    stage = Stage(profile)
    stage.queue("q1").depth_bytes = MARK_BYTES
    pressing = [stage.connect()[0] for _ in range(4)]
    for hand in pressing:
        hand.publish_bodies("q1", [bytes(KIB)] * 100)
    stage.settle()
    assert stage.queue("q1").is_deep
    return stage, pressing


def taken(stage: Stage, count: int) -> None:
    """`count` messages leave the queue."""
    queue = stage.queue("q1")
    for _ in range(count):
        message = queue.get()
        assert message is not None
        queue.get_done(message)
    stage.settle()


def test_what_is_drained_is_let_in_and_the_queue_stays_at_its_mark() -> None:
    stage, _ = held(SMALL)
    queue = stage.queue("q1")
    before = stage.ready("q1")
    taken(stage, before - 60)
    assert queue.is_deep, "they press"
    assert MARK_BYTES - 2 * KIB < queue.messages.bytes_ready <= MARK_BYTES + 2 * KIB


def test_an_empty_queue_keeps_nothing_back() -> None:
    stage, _ = held(SMALL)
    queue = stage.queue("q1")
    for _ in range(20):
        taken(stage, stage.ready("q1"))
    assert not queue.is_deep
    assert queue.gate.is_open
    assert queue.gate.deferred == []


def test_who_has_stopped_is_owed_nothing_in_the_end() -> None:
    """Room that was lent and is not used is taken back, or given up below an eighth of the mark."""
    stage, pressing = held(SMALL)
    for hand in pressing[1:]:
        hand.client.outbox = b""
    for _ in range(40):
        taken(stage, stage.ready("q1"))
    assert stage.ready("q1") == 0
    assert all(lane.balance + lane.done == 40 for lane in stage.queue("q1").lanes)


def test_with_nobody_waiting_it_opens_a_quarter_below_the_mark() -> None:
    stage = Stage(PENSTOCK)
    queue = stage.queue("q1")
    queue.depth_bytes = MARK_BYTES
    hand = stage.connect()[0]
    hand.publish_bodies("q1", [bytes(KIB)])
    stage.settle()
    size = queue.messages.bytes_ready
    count = -(-MARK_BYTES // size)
    hand.publish_bodies("q1", [bytes(KIB)] * (count - 1))
    stage.settle()
    assert queue.is_deep and stage.ready("q1") == count
    taken(stage, (count * size - 3 * MARK_BYTES // 4) // size)
    queue.wake()
    stage.settle()
    assert queue.is_deep
    taken(stage, 1)
    queue.wake()
    stage.settle()
    assert not queue.is_deep
