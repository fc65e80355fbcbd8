"""Publishes with `immediate`, where the operator allows them."""

import pytest

from penstock.base.config import RateRow
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import encode_method
from tests.unit.broker.peer import Bed, Heard, Peer, frame, header, publish

NONE_READY = (313, "NO_CONSUMERS")


def bed_allowing(*rates: RateRow) -> Bed:
    return Bed(immediate_publish=True, rates=rates, rate_burst_ms=100)


def put(body: bytes, key: str = "q", exchange: str = "", mandatory: bool = False) -> bytes:
    method = encode_method(m.BasicPublish(exchange, key, mandatory, True))
    return frame(1, 1, method) + frame(2, 1, header(len(body))) + frame(3, 1, body)


def publisher(bed: Bed, *queues: str) -> Peer:
    peer = bed.connect("publisher")
    for queue in queues:
        peer.call(1, m.QueueDeclare(queue), m.QueueDeclareOk)
    return peer


def consumer(bed: Bed, queue: str, prefetch: int = 0) -> Peer:
    peer = bed.connect(f"consumer of {queue}")
    peer.call(1, m.BasicQos(0, prefetch, False), m.BasicQosOk)
    peer.call(1, m.BasicConsume(queue, f"on {queue}"), m.BasicConsumeOk)
    return peer


def returns(heard: list[Heard]) -> list[tuple[int, str, bytes]]:
    found = []
    for one in heard:
        assert isinstance(one.method, m.BasicReturn)
        found.append((one.method.reply_code, one.method.reply_text, one.body))
    return found


def ready(bed: Bed, queue: str) -> int:
    return int(bed.broker.vhosts["/"].queues[queue].messages.ready_count())


def test_without_a_consumer_it_comes_back_and_is_not_queued() -> None:
    bed = bed_allowing()
    peer = publisher(bed, "q")
    peer.send(put(b"1"))
    assert returns(peer.heard()) == [(*NONE_READY, b"1")]
    assert ready(bed, "q") == 0
    bed.settle()


def test_a_ready_consumer_gets_it() -> None:
    bed = bed_allowing()
    peer = publisher(bed, "q")
    reader = consumer(bed, "q")
    peer.send(put(b"1"), put(b"2"))
    assert peer.heard() == []
    assert reader.bodies() == [b"1", b"2"]


def test_room_is_counted_within_one_read() -> None:
    bed = bed_allowing()
    peer = publisher(bed, "q")
    reader = consumer(bed, "q", prefetch=2)
    peer.send(put(b"1"), put(b"2"), put(b"3"))
    assert returns(peer.heard()) == [(*NONE_READY, b"3")]
    assert reader.bodies() == [b"1", b"2"]
    reader.say(1, m.BasicAck(2, True))
    peer.send(publish(1, "", "q", b"4"), put(b"5"), put(b"6"))
    assert returns(peer.heard()) == [(*NONE_READY, b"6")]
    assert reader.bodies() == [b"4", b"5"]
    reader.say(1, m.BasicAck(4, True))
    bed.settle()


def test_only_the_queues_with_a_consumer_get_it() -> None:
    bed = bed_allowing()
    peer = publisher(bed, "q", "other")
    for queue in ("q", "other"):
        peer.call(1, m.QueueBind(queue, "amq.fanout"), m.QueueBindOk)
    reader = consumer(bed, "other")
    peer.send(put(b"1", exchange="amq.fanout"))
    assert peer.heard() == []
    assert reader.bodies() == [b"1"]
    assert ready(bed, "q") == 0


def test_the_return_comes_before_the_confirm() -> None:
    bed = bed_allowing()
    peer = publisher(bed, "q")
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    peer.send(put(b"1"))
    kinds = [type(one.method) for one in peer.heard()]
    assert kinds == [m.BasicReturn, m.BasicAck]
    bed.settle()


def test_the_route_is_asked_anew_for_each_publish() -> None:
    bed = bed_allowing()
    peer = publisher(bed, "q")
    peer.send(put(b"1"))
    assert returns(peer.heard()) == [(*NONE_READY, b"1")]
    reader = consumer(bed, "q")
    peer.send(put(b"2"))
    assert peer.heard() == []
    assert reader.bodies() == [b"2"]
    reader.hang_up()
    peer.send(publish(1, "", "q", b"waits"))
    assert ready(bed, "q") == 2
    peer.send(put(b"3"))
    assert returns(peer.heard()) == [(*NONE_READY, b"3")]


def test_mandatory_is_said_first_where_there_is_no_queue() -> None:
    bed = bed_allowing()
    peer = publisher(bed, "q")
    peer.send(put(b"1", key="nobody", mandatory=True), put(b"2", mandatory=True))
    peer.send(put(b"3", key="nobody"))
    assert returns(peer.heard()) == [
        (312, "NO_ROUTE", b"1"),
        (*NONE_READY, b"2"),
        (*NONE_READY, b"3"),
    ]
    bed.settle()


@pytest.mark.parametrize("is_left_by_its_consumer", [False, True])
def test_a_parked_one_asks_again_when_its_turn_comes(is_left_by_its_consumer: bool) -> None:
    """The queue's rate keeps it waiting, while its consumer may go."""
    bed = bed_allowing(RateRow("queue", "/q", 10))
    peer = publisher(bed, "q")
    reader = consumer(bed, "q")
    peer.send(put(b"1"), put(b"2"))
    assert reader.bodies() == [b"1"]
    assert peer.heard() == []
    if is_left_by_its_consumer:
        reader.hang_up()
    bed.clock.advance(200_000_000)
    bed.broker.dues.fire(bed.clock.monotonic_ns())
    bed.run()
    if is_left_by_its_consumer:
        assert returns(peer.heard()) == [(*NONE_READY, b"2")]
        assert ready(bed, "q") == 1, "the first one, which was not acknowledged"
    else:
        assert peer.heard() == []
        assert reader.bodies() == [b"2"]
