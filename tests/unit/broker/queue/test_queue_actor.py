"""The queue's actor: fairness between lanes, deletion, depth, and failing alone."""

from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
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
    assert actor.consumers == [] and actor.ready == [] and actor.messages.ready_count() == 1
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
    assert vhost.queues == {} and vhost.owned == {} and vhost.listeners == {}
    assert bed.broker.connections == {} and bed.broker.negotiators == {}
    assert [page.name for page in bed.broker.ledger.pages()] == ["node", "vhost:/", "user:guest@/"]
    assert vhost.router.snapshot().binding_count == 0
    bed.settle()
