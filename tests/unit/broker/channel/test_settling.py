"""Acknowledging many at once: the same books as one by one, whoever the deliveries are of."""

import pytest

from penstock.broker.queue.queue_actor import QueueActor
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.peer import Bed, Peer

QUEUES: dict[str, Table] = {"a": {}, "b": {}, "ruled": {"x-max-length": 1000}}


def bodies(prefix: bytes, count: int) -> list[bytes]:
    return [prefix + b"x" * index for index in range(count)]


def with_queues(bed: Bed) -> Peer:
    """A peer that consumes of every queue, whose messages two others have published by turns."""
    peer = bed.connect("consumer")
    for name, arguments in QUEUES.items():
        peer.call(1, m.QueueDeclare(name, arguments=arguments), m.QueueDeclareOk)
    publishers = [bed.connect("one"), bed.connect("two")]
    for publisher in publishers:
        for name in QUEUES:
            publisher.publish(name, *bodies(name.encode(), 5))
    return peer


def queues(bed: Bed) -> list[QueueActor]:
    return [bed.broker.vhosts["/"].queues[name] for name in QUEUES]


@pytest.mark.parametrize("step", [1, 2, 7, 33])
def test_every_book_is_at_zero_when_all_is_acknowledged(step: int) -> None:
    bed = Bed()
    peer = with_queues(bed)
    peer.say(1, m.BasicGet("a"), m.BasicGet("ruled"))
    for name in QUEUES:
        peer.say(1, m.BasicConsume(name, name))
    peer.heard()
    assert [int(queue.unacked_count) for queue in queues(bed)] == [10, 10, 10]
    for tag in [*range(step, 30, step), 30]:
        peer.say(1, m.BasicAck(tag, True))
        left = 30 - tag
        assert sum(int(queue.unacked_count) for queue in queues(bed)) == left
        held = [consumer.unacked for queue in queues(bed) for consumer in queue.consumers]
        # The two that were asked for have no consumer, and are the first.
        assert sum(held) == min(left, 28)
        stored = [one.account.stored_messages for one in bed.broker.connections.values()]
        assert sum(stored) == left
    for queue in queues(bed):
        assert (queue.unacked_count, queue.unacked_bytes, queue.messages.ack_count) == (0, 0, 10)
        assert [consumer.unacked_bytes for consumer in queue.consumers] == [0]
    assert [one.account.stored_bytes for one in bed.broker.connections.values()] == [0, 0, 0]
    bed.settle()


def test_a_consumer_whose_window_was_used_up_is_given_more() -> None:
    bed = Bed()
    peer = with_queues(bed)
    peer.call(1, m.BasicQos(0, 4, False), m.BasicQosOk)
    peer.say(1, m.BasicConsume("a", "a"))
    assert len(peer.heard()) == 5
    peer.say(1, m.BasicAck(3, True))
    assert len(peer.heard()) == 3
    peer.say(1, m.BasicAck(0, True))
    assert len(peer.heard()) == 3
    bed.settle()
