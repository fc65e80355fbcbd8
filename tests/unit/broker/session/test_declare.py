"""Queues, exchanges and bindings: what RabbitMQ answers to declarations."""

import pytest

from penstock.protocol import methods as m
from tests.unit.broker.peer import Bed, Peer


def fault(peer: Peer, method: m.Method) -> int:
    """The reply code that closes channel 1, which is opened again; 0 for none."""
    peer.say(1, method)
    last = peer.heard()[-1].method
    if isinstance(last, m.ChannelClose):
        peer.say(1, m.ChannelCloseOk(), m.ChannelOpen())
        peer.one(m.ChannelOpenOk)
        return last.reply_code
    if isinstance(last, m.ConnectionClose):
        return last.reply_code
    return 0


def test_declaring_again_must_say_the_same() -> None:
    bed = Bed()
    peer = bed.connect()
    first = m.QueueDeclare("q", durable=True, arguments={"x-message-ttl": 1000})
    assert fault(peer, first) == 0
    assert fault(peer, first) == 0
    assert fault(peer, m.QueueDeclare("q", passive=True)) == 0
    for other in (
        m.QueueDeclare("q", durable=False, arguments={"x-message-ttl": 1000}),
        m.QueueDeclare("q", durable=True, auto_delete=True, arguments={"x-message-ttl": 1000}),
        m.QueueDeclare("q", durable=True, arguments={"x-message-ttl": 2000}),
        m.QueueDeclare("q", durable=True),
    ):
        assert fault(peer, other) == 406, other
    exclusive = m.QueueDeclare("q", durable=False, exclusive=True)
    assert fault(peer, exclusive) == 405, "exclusiveness is looked at first"


def test_an_exclusive_queue_is_for_its_connection() -> None:
    bed = Bed()
    owner = bed.connect("owner")
    other = bed.connect("other")
    owner.call(1, m.QueueDeclare("q", exclusive=True), m.QueueDeclareOk)
    owner.call(1, m.QueueBind("q", "amq.direct", "k"), m.QueueBindOk)
    for method in (
        m.QueueDeclare("q", exclusive=True),
        m.QueueDeclare("q", passive=True),
        m.QueueDeclare("q"),
        m.QueueBind("q", "amq.direct", "k"),
        m.QueueUnbind("q", "amq.direct", "k"),
        m.QueuePurge("q"),
        m.QueueDelete("q"),
        m.BasicGet("q"),
        m.BasicConsume("q", "t"),
    ):
        assert fault(other, method) == 405, method
    assert fault(owner, m.QueueDeclare("q")) == 405
    assert fault(other, m.QueueUnbind("q", "amq.direct", "not.there")) == 0
    owner.publish("k", b"still bound", exchange="amq.direct")
    assert owner.call(1, m.QueuePurge("q"), m.QueuePurgeOk).message_count == 1
    owner.call(1, m.QueueUnbind("q", "amq.direct", "k"), m.QueueUnbindOk)
    owner.call(0, m.ConnectionClose(200, "", 0, 0), m.ConnectionCloseOk)
    assert fault(other, m.QueueDeclare("q", passive=True)) == 404


@pytest.mark.parametrize(
    ("method", "code"),
    [
        (m.QueueDeclare("amq.mine"), 403),
        (m.QueueDeclare("nobody", passive=True), 404),
        (m.QueueBind("nobody", "amq.direct", "k"), 404),
        (m.QueueBind("q", "nowhere", "k"), 404),
        (m.QueueBind("q", "", "k"), 403),
        (m.QueuePurge("nobody"), 404),
        (m.QueueDelete("nobody"), 0),
        (m.ExchangeDeclare("amq.mine", "direct"), 403),
        (m.ExchangeDeclare("", "direct"), 403),
        (m.ExchangeDeclare("amq.direct", "fanout", durable=True), 406),
        (m.ExchangeDeclare("nowhere", "direct", passive=True), 404),
        (m.ExchangeDelete("amq.direct"), 403),
        (m.ExchangeDelete("nowhere"), 0),
        (m.BasicGet("nobody"), 404),
        (m.BasicConsume("nobody", "t"), 404),
        (m.BasicCancel("nobody"), 0),
    ],
    ids=str,
)
def test_faults_close_the_channel(method: m.Method, code: int) -> None:
    bed = Bed()
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    assert fault(peer, method) == code
    bed.settle()


def test_an_empty_name_is_the_queue_declared_last_on_the_channel() -> None:
    bed = Bed()
    peer = bed.connect(channels=2)
    name = peer.call(1, m.QueueDeclare(""), m.QueueDeclareOk).queue
    assert name.startswith("amq.gen-")
    peer.call(1, m.QueueBind("", "amq.direct", ""), m.QueueBindOk)
    peer.publish(name, b"x", exchange="amq.direct")
    assert peer.call(1, m.QueuePurge(""), m.QueuePurgeOk).message_count == 1
    peer.say(2, m.QueuePurge(""))
    assert peer.one(m.ChannelClose).reply_code == 404


@pytest.mark.parametrize(
    ("method", "named"),
    [
        (m.QueueBind("", "nowhere", "k"), (50, 20)),
        (m.QueueUnbind("", "nowhere", "k"), (50, 50)),
        (m.QueuePurge(""), (50, 30)),
        (m.QueueDelete(""), (50, 40)),
        (m.BasicGet(""), (60, 70)),
        (m.BasicConsume("", "t"), (60, 20)),
    ],
    ids=str,
)
def test_without_a_queue_declared_an_empty_name_is_the_fault_of_its_method(
    method: m.Method, named: tuple[int, int]
) -> None:
    peer = Bed().connect()
    peer.say(1, method)
    close = peer.one(m.ChannelClose)
    assert (close.reply_code, close.class_id, close.method_id) == (404, *named)
    assert close.reply_text == "NOT_FOUND - no previously declared queue"


def test_a_passive_declaration_without_a_name_means_no_queue() -> None:
    peer = Bed().connect()
    peer.call(1, m.QueueDeclare(""), m.QueueDeclareOk)
    peer.say(1, m.QueueDeclare("", passive=True))
    assert peer.one(m.ChannelClose).reply_text == "NOT_FOUND - no queue '' in vhost '/'"


def test_deletion_conditions() -> None:
    bed = Bed()
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", b"x")
    assert fault(peer, m.QueueDelete("q", if_empty=True)) == 406
    peer.say(1, m.BasicConsume("q", "t", no_ack=True))
    peer.heard()
    assert fault(peer, m.QueueDelete("q", if_unused=True)) == 406
    assert fault(peer, m.QueueDelete("q", if_unused=True, if_empty=True)) == 0


def test_an_auto_delete_exchange_goes_with_its_last_binding() -> None:
    bed = Bed()
    peer = bed.connect()
    peer.call(1, m.ExchangeDeclare("x", "fanout", auto_delete=True), m.ExchangeDeclareOk)
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.call(1, m.QueueBind("q", "x", ""), m.QueueBindOk)
    peer.call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    assert fault(peer, m.ExchangeDeclare("x", "fanout", passive=True)) == 404
