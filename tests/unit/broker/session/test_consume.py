"""Consumers, basic.get, qos, settles, transactions: what RabbitMQ's rabbit_channel answers."""

import pytest

from penstock.broker.queue.queue_actor import QueueActor
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from tests.unit.broker.peer import Bed, Heard, Peer, publish


def with_messages(bed: Bed, count: int, queue: str = "q", name: str = "peer") -> Peer:
    """A peer whose queue holds messages 0..count-1."""
    peer = bed.connect(name)
    peer.call(1, m.QueueDeclare(queue), m.QueueDeclareOk)
    peer.publish(queue, *(b"%d" % index for index in range(count)))
    return peer


def queue_of(bed: Bed, name: str = "q") -> QueueActor:
    return bed.broker.vhosts["/"].queues[name]


def consume(peer: Peer, queue: str = "q", tag: str = "t", no_ack: bool = False) -> list[Heard]:
    """Start a consumer; what it is given at once."""
    peer.say(1, m.BasicConsume(queue, tag, no_ack=no_ack))
    heard = peer.heard()
    assert heard[0].method == m.BasicConsumeOk(tag)
    return heard[1:]


def given(heard: list[Heard]) -> list[tuple[bytes, bool]]:
    """Bodies and redelivered flags."""
    found = []
    for one in heard:
        assert isinstance(one.method, m.BasicDeliver | m.BasicGetOk), one
        found.append((one.body, one.method.redelivered))
    return found


def qos(peer: Peer, count: int, is_global: bool = False) -> None:
    peer.call(1, m.BasicQos(0, count, is_global), m.BasicQosOk)


# -- prefetch ------------------------------------------------------------------------------------


def test_global_prefetch_bounds_the_channel_and_does_not_count_basic_get(bed: Bed) -> None:
    peer = with_messages(bed, 10)
    qos(peer, 2, is_global=True)
    peer.say(1, m.BasicGet("q"))
    assert given(peer.heard()) == [(b"0", False)]
    assert len(consume(peer)) == 2
    assert consume(peer, tag="u") == []
    peer.say(1, m.BasicAck(1, False))
    assert peer.heard() == [], "the answer to a basic.get frees no prefetch"
    peer.say(1, m.BasicAck(0, True))
    assert [one.body for one in peer.heard()] == [b"3", b"4"]
    peer.say(1, m.BasicQos(0, 3, True))
    first, second = peer.heard()
    assert isinstance(first.method, m.BasicQosOk), "what comes for it may be much"
    assert second.body == b"5"


def test_zero_is_no_bound(bed: Bed) -> None:
    peer = with_messages(bed, 500)
    qos(peer, 0)
    qos(peer, 0, is_global=True)
    assert len(consume(peer)) == 500


def test_deliveries_of_a_cancelled_consumer_still_fill_the_channels_prefetch(bed: Bed) -> None:
    peer = with_messages(bed, 4)
    qos(peer, 2, is_global=True)
    assert len(consume(peer)) == 2
    peer.call(1, m.BasicCancel("t"), m.BasicCancelOk)
    assert consume(peer, tag="u") == []
    peer.say(1, m.BasicAck(1, False))
    assert [one.body for one in peer.heard()] == [b"2"]


# -- order and redelivery ------------------------------------------------------------------------


# -- settles -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settle", "method_id"),
    [
        (m.BasicAck(1, False), 80),
        (m.BasicAck(7, True), 80),
        (m.BasicReject(1, True), 90),
        (m.BasicNack(9, True, False), 120),
        (m.BasicNack((1 << 64) - 1, False, False), 120),
        (m.BasicAck(0, False), 80),
    ],
    ids=str,
)
def test_a_tag_nobody_waits_for_closes_the_channel(
    settle: m.Method, method_id: int, bed: Bed
) -> None:
    """F48: 406, and the counts stay as they were."""
    peer = with_messages(bed, 2)
    peer.say(1, m.BasicGet("q"), m.BasicAck(1, False))
    peer.heard()
    peer.say(1, settle)
    close = peer.one(m.ChannelClose)
    assert (close.reply_code, close.class_id, close.method_id) == (406, 60, method_id)
    assert close.reply_text.startswith("PRECONDITION_FAILED - unknown delivery tag")
    assert queue_of(bed).messages.ack_count == 1
    assert queue_of(bed).messages.ready_count() == 1


@pytest.mark.parametrize(
    "settle",
    [m.BasicAck(2, True), m.BasicNack(2, True, True), m.BasicRecover(True)],
    ids=lambda method: method.NAME,
)
def test_deliveries_of_a_deleted_queue_are_settled_in_peace(settle: m.Method, bed: Bed) -> None:
    """F49: no fault, and the queue does not come back."""
    peer = with_messages(bed, 3)
    qos(peer, 2)
    assert len(consume(peer)) == 2
    actor = queue_of(bed)
    peer.say(1, m.QueueDelete("q"))
    assert [one.method for one in peer.heard()] == [m.QueueDeleteOk(1), m.BasicCancel("t", True)]
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.say(1, settle)
    assert not [one for one in peer.heard() if isinstance(one.method, m.ChannelClose)]
    assert actor.messages.ready_count() == 0 and actor.unacked_count == 0
    assert queue_of(bed).messages.ready_count() == 0
    assert peer.connection.channels[1].sink.unacked_count == 0


# -- exclusive, auto-delete, cancel --------------------------------------------------------------


def test_an_exclusive_queue_keeps_what_only_its_connection_may_undo(bed: Bed) -> None:
    owner = bed.connect("owner")
    other = bed.connect("other")
    owner.call(1, m.QueueDeclare("q", exclusive=True), m.QueueDeclareOk)
    owner.call(1, m.QueueBind("q", "amq.direct", "k"), m.QueueBindOk)
    other.say(1, m.QueueUnbind("q", "amq.direct", "k"))
    assert other.one(m.ChannelClose).reply_code == 405
    owner.publish("k", b"still bound", exchange="amq.direct")
    assert owner.call(1, m.QueuePurge("q"), m.QueuePurgeOk).message_count == 1
    owner.call(1, m.QueueUnbind("q", "amq.direct", "k"), m.QueueUnbindOk)


def test_an_exclusive_consumer_is_alone(bed: Bed) -> None:
    peer = with_messages(bed, 1)
    other = bed.connect("other", channels=2)
    peer.say(1, m.BasicConsume("q", "t", exclusive=True))
    peer.heard()
    other.say(1, m.BasicConsume("q", "u"))
    assert other.one(m.ChannelClose).reply_code == 403
    other.call(2, m.BasicGet("q"), m.BasicGetEmpty)
    peer.call(1, m.BasicCancel("t"), m.BasicCancelOk)
    other.say(1, m.ChannelCloseOk(), m.ChannelOpen(), m.BasicConsume("q", "u"))
    assert [type(one.method) for one in other.heard()] == [m.ChannelOpenOk, m.BasicConsumeOk]
    peer.say(1, m.BasicConsume("q", "t", exclusive=True))
    assert peer.one(m.ChannelClose).reply_code == 403


@pytest.mark.parametrize("end", ["cancel", "channel", "connection", "lost"])
def test_an_auto_delete_queue_goes_with_its_last_consumer(end: str, bed: Bed, peer: Peer) -> None:
    peer.call(1, m.QueueDeclare("q", auto_delete=True), m.QueueDeclareOk)
    consume(peer, tag="a")
    consume(peer, tag="b")
    peer.call(1, m.BasicCancel("a"), m.BasicCancelOk)
    peer.publish("q", b"x")
    assert len(peer.heard()) == 1
    assert "q" in bed.broker.vhosts["/"].queues
    if end == "cancel":
        peer.call(1, m.BasicCancel("b"), m.BasicCancelOk)
    elif end == "channel":
        peer.call(1, m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
    elif end == "connection":
        peer.call(0, m.ConnectionClose(200, "", 0, 0), m.ConnectionCloseOk)
    else:
        peer.hang_up()
    assert bed.broker.vhosts["/"].queues == {}


def test_a_client_that_does_not_know_cancels_is_not_told(bed: Bed) -> None:
    peer = Peer(bed, "old")
    peer.open(capabilities=())
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    consume(peer)
    other = bed.connect("other")
    other.call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    assert peer.heard() == []
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    assert consume(peer) == [], "the tag is free again"


def test_consumers_that_come_and_go_leave_nothing_on_their_channel(bed: Bed, peer: Peer) -> None:
    """F54: queues with fresh names, as RPC clients make them."""
    for index in range(200):
        name = f"reply-{index}"
        peer.call(1, m.QueueDeclare(name, auto_delete=True), m.QueueDeclareOk)
        peer.send(publish(1, "", name, b"x"))
        assert len(consume(peer, name, no_ack=True)) == 1
        if index % 2:
            peer.call(1, m.BasicCancel("t"), m.BasicCancelOk)
        else:
            peer.say(1, m.QueueDelete(name))
            assert len(peer.heard()) == 2
    channel = peer.connection.channels[1]
    assert len(channel.unsent) <= 32
    assert channel.consumers == {} and channel.queues_of == {}
    assert channel.publisher.lanes == {}
    assert bed.broker.vhosts["/"].queues == {}


# -- direct reply-to -----------------------------------------------------------------------------


def test_direct_reply_to(bed: Bed) -> None:
    server = bed.connect("server")
    server.call(1, m.QueueDeclare("rpc"), m.QueueDeclareOk)
    consume(server, "rpc", no_ack=True)
    client = bed.connect("client")
    assert consume(client, "amq.rabbitmq.reply-to", no_ack=True) == []
    client.send(publish(1, "", "rpc", b"ask", (0x0200, b"\x15amq.rabbitmq.reply-to")))
    [asked] = server.heard()
    address = asked.header[15:].decode()
    assert address.startswith("amq.rabbitmq.reply-to.") and len(address) > 40
    server.call(1, m.QueueDeclare(address, passive=True), m.QueueDeclareOk)
    server.send(publish(1, "", address, b"answer"))
    [answer] = client.heard()
    assert answer.body == b"answer"
    client.hang_up()
    server.send(publish(1, "", address, b"late", mandatory=True))
    server.one(m.BasicReturn)
    server.say(1, m.QueueDeclare(address, passive=True))
    assert server.one(m.ChannelClose).reply_code == 404


# -- transactions --------------------------------------------------------------------------------


def in_transaction(bed: Bed) -> Peer:
    """A peer in tx mode with three unanswered deliveries of q, and messages 3, 4 ready."""
    peer = with_messages(bed, 5)
    qos(peer, 3)
    assert len(consume(peer)) == 3
    peer.call(1, m.TxSelect(), m.TxSelectOk)
    return peer


def test_commit_publishes_and_settles_and_rollback_forgets(bed: Bed) -> None:
    peer = in_transaction(bed)
    peer.send(publish(1, "", "q", b"lost"), method_frame(1, m.BasicAck(1, False)))
    peer.call(1, m.TxRollback(), m.TxRollbackOk)
    assert queue_of(bed).messages.publish_count == 5 and queue_of(bed).unacked_count == 3
    peer.send(publish(1, "", "q", b"kept"), method_frame(1, m.BasicAck(1, False)))
    assert peer.heard() == []
    assert queue_of(bed).messages.publish_count == 5 and queue_of(bed).unacked_count == 3
    peer.say(1, m.TxCommit())
    heard = peer.heard()
    assert heard[0].method == m.TxCommitOk() or heard[-1].method == m.TxCommitOk()
    assert queue_of(bed).messages.publish_count == 6
    assert queue_of(bed).messages.ack_count == 1


def test_a_fault_in_a_transaction_shows_at_once_and_nothing_is_done(bed: Bed) -> None:
    """RabbitMQ routes within the transaction; a missing exchange closes the channel there."""
    peer = in_transaction(bed)
    peer.send(publish(1, "", "q", b"x"), publish(1, "nowhere", "q", b"x"))
    assert peer.one(m.ChannelClose).reply_code == 404
    assert queue_of(bed).messages.publish_count == 5
    assert queue_of(bed).unacked_count == 0


@pytest.mark.parametrize(
    "settles",
    [
        (m.BasicAck(1, False), m.BasicAck(1, False)),
        (m.BasicAck(2, True), m.BasicAck(1, False)),
        (m.BasicNack(2, False, True), m.BasicNack(2, True, False)),
        (m.BasicAck(0, True), m.BasicReject(3, True)),
        (m.BasicAck(9, True),),
    ],
    ids=str,
)
def test_a_tag_is_settled_once_in_a_transaction(settles: tuple[m.Method, ...], bed: Bed) -> None:
    peer = in_transaction(bed)
    peer.say(1, *settles)
    assert peer.one(m.ChannelClose).reply_code == 406
    assert queue_of(bed).messages.ack_count == 0


def test_ack_zero_in_a_transaction_means_what_was_delivered_when_it_came(bed: Bed) -> None:
    peer = in_transaction(bed)
    peer.say(1, m.BasicAck(0, True), m.BasicGet("q"))
    assert len(peer.heard()) == 1
    peer.say(1, m.TxCommit())
    heard = peer.heard()
    assert m.TxCommitOk() in [one.method for one in heard]
    assert queue_of(bed).messages.ack_count == 3
    assert peer.connection.channels[1].table.is_known(4)


def test_a_tag_that_recover_took_back_is_unknown_to_its_transaction() -> None:
    peer = with_messages(Bed(), 2)
    peer.say(1, m.BasicGet("q"), m.BasicGet("q"), m.TxSelect())
    peer.say(1, m.BasicAck(1, False), m.BasicRecover(True))
    peer.heard()
    peer.say(1, m.BasicAck(2, False))
    assert peer.one(m.ChannelClose).reply_text == "PRECONDITION_FAILED - unknown delivery tag 2"


def test_a_transaction_is_not_published_by_the_end_of_its_channel() -> None:
    bed = Bed(turn_messages=2)
    peer = in_transaction(bed)
    peer.send(
        *(publish(1, "", "q", b"x") for _ in range(50)),
        method_frame(0, m.ConnectionClose(200, "", 0, 0)),
    )
    peer.one(m.ConnectionCloseOk)
    assert queue_of(bed).messages.publish_count == 5
    bed.settle()


def test_a_transaction_is_bounded(bed: Bed) -> None:
    peer = in_transaction(bed)
    whole = publish(1, "", "q", b"x")
    peer.send(whole * 100_001)
    assert peer.one(m.ChannelClose).reply_code == 406
