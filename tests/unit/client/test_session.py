"""The client's half of a connection against a scripted broker, and its unconfirmed publishes."""

import pytest

from penstock.client.channel_state import Unconfirmed
from penstock.client.errors import ChannelClosedError, ClientError, ConnectionClosedError
from penstock.client.events import (
    Blocked,
    Cancelled,
    ChannelClosed,
    Confirmed,
    ConnectionClosed,
    Delivery,
    FlowChanged,
    Opened,
    Replied,
    ReturnedPublish,
    Unblocked,
)
from penstock.client.session import State
from penstock.client.url import BrokerUrl
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from tests.unit.client.scripted import FRAME_BYTES_MAX, ScriptedBroker, Wire, open_wire

SECOND_NS = 1_000_000_000


@pytest.fixture
def wire() -> Wire:
    """An open connection."""
    return open_wire()


@pytest.fixture
def channel(wire: Wire) -> int:
    """An open channel of it."""
    return wire.channel()


@pytest.mark.parametrize("step", [0, 1, 7])
def test_the_opening_agrees_on_limits_and_enters_the_vhost(step: int) -> None:
    wire = Wire(step, BrokerUrl(user="u", password="p", vhost="shop", heartbeat_s=5))
    events = wire.pump()
    assert [type(event) for event in events] == [Opened]
    heard = [method for _, method in wire.broker.heard]
    start_ok, tune_ok, opened = heard
    assert isinstance(start_ok, m.ConnectionStartOk)
    assert start_ok.response == b"\x00u\x00p"
    assert start_ok.client_properties["connection_name"] == "test"
    assert tune_ok == m.ConnectionTuneOk(2047, FRAME_BYTES_MAX, 5)
    assert opened == m.ConnectionOpen("shop")
    assert wire.session.state is State.OPEN


def test_a_heartbeat_of_zero_in_the_address_switches_heartbeats_off() -> None:
    wire = Wire(url=BrokerUrl(heartbeat_s=0))
    wire.open()
    assert wire.session.agreed is not None and wire.session.agreed.heartbeat_s == 0
    assert wire.session.next_tick_ns() is None


def test_a_refused_login_gives_the_brokers_code_and_text() -> None:
    wire = Wire()
    wire.broker.feed(wire.session.output(wire.now_ns))
    wire.session.feed(wire.broker.output(), wire.now_ns)
    wire.broker.say(0, m.ConnectionClose(403, "ACCESS_REFUSED - no", 0, 0))
    wire.broker.answers = False
    events = wire.session.feed(wire.broker.output(), wire.now_ns)
    assert events == [ConnectionClosed(403, "ACCESS_REFUSED - no", True)]
    with pytest.raises(ConnectionClosedError, match="403 ACCESS_REFUSED - no"):
        wire.session.open_channel()


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"AMQP\x00\x01\x00\x00", "another version of AMQP"), (b"HTTP/1.1 400 Bad", "listener")],
)
def test_another_protocol_is_told_from_amqp(data: bytes, words: str) -> None:
    wire = Wire()
    wire.session.output(wire.now_ns)
    (event,) = wire.session.feed(data, wire.now_ns)
    assert isinstance(event, ConnectionClosed) and words in event.text
    assert wire.session.output(wire.now_ns) == b"", "nothing is said to a stranger"


def test_the_end_of_the_stream_while_opening_hints_at_the_reason() -> None:
    wire = Wire()
    (event,) = wire.session.end_of_stream()
    assert isinstance(event, ConnectionClosed) and "while opening" in event.text
    assert wire.session.end_of_stream() == [], "a connection ends once"


def test_replies_belong_to_requests_in_their_order_per_channel(wire: Wire) -> None:
    one, two = wire.channel(), wire.channel()
    wire.broker.answers = False
    declare, purge, other = m.QueueDeclare("a"), m.QueuePurge("a"), m.QueueDeclare("b")
    wire.session.request(one, declare)
    wire.session.request(two, other)
    wire.session.request(one, purge)
    wire.broker.say(two, m.QueueDeclareOk("b", 0, 0))
    wire.broker.say(one, m.QueueDeclareOk("a", 0, 0))
    wire.broker.say(one, m.QueuePurgeOk(4))
    replies = [event for event in wire.pump() if isinstance(event, Replied)]
    assert [(r.channel, r.request) for r in replies] == [(two, other), (one, declare), (one, purge)]
    assert replies[0].request is other and replies[1].request is declare


def test_a_request_without_wait_expects_nothing(wire: Wire, channel: int) -> None:
    wire.broker.answers = False
    wire.session.request(channel, m.QueueDeclare("a", no_wait=True))
    wire.session.request(channel, m.QueueDeclare("b"))
    wire.broker.say(channel, m.QueueDeclareOk("b", 0, 0))
    (reply,) = wire.pump()
    assert isinstance(reply, Replied) and reply.request == m.QueueDeclare("b")


@pytest.mark.parametrize(
    ("number", "said", "code"),
    [
        (1, m.QueuePurgeOk(1), 503),
        (0, m.ConnectionTune(), 503),
        (1, m.BasicPublish("", "q"), 505),
    ],
    ids=["nobody asked", "out of its state", "for brokers"],
)
def test_what_a_broker_may_not_say_closes_the_connection(
    wire: Wire, channel: int, number: int, said: m.Method, code: int
) -> None:
    if isinstance(said, m.BasicPublish):
        wire.broker.say_content(channel, said, b"x")
    else:
        wire.broker.say(number, said)
    (event,) = wire.pump()
    assert isinstance(event, ConnectionClosed) and event.code == code
    close = wire.broker.heard[-1][1]
    assert isinstance(close, m.ConnectionClose) and close.reply_code == code


def test_too_many_open_requests_are_refused_here(wire: Wire, channel: int) -> None:
    wire.broker.answers = False
    for _ in range(256):
        wire.session.request(channel, m.QueueDeclare("a"))
    with pytest.raises(ClientError, match="256 requests"):
        wire.session.request(channel, m.QueueDeclare("a"))


def test_confirms_settle_what_they_name(wire: Wire, channel: int) -> None:
    wire.session.request(channel, m.ConfirmSelect())
    wire.pump()
    for mark in range(10, 16):
        wire.session.publish_frames(channel, b"", mark)
    wire.broker.say(channel, m.BasicAck(3, False))
    wire.broker.say(channel, m.BasicAck(4, True))
    wire.broker.say(channel, m.BasicNack(5, False))
    assert wire.pump() == [
        Confirmed(channel, [3], [12], True),
        Confirmed(channel, [1, 2, 4], [10, 11, 13], True),
        Confirmed(channel, [5], [14], False),
    ]
    assert wire.session.unconfirmed(channel) == 1


def test_publishes_arrive_whole_at_any_size(wire: Wire, channel: int) -> None:
    bodies = [b"", b"x", b"y" * (FRAME_BYTES_MAX - 8), b"z" * (FRAME_BYTES_MAX - 7), b"w" * 9000]
    for body in bodies:
        wire.session.publish(channel, "ex", "key", body, Properties(priority=3), True)
    wire.pump()
    assert [message.body() for message in wire.broker.published] == bodies


def test_deliveries_returns_and_get_carry_their_message(wire: Wire, channel: int) -> None:
    wire.broker.answers = False
    wire.session.request(channel, m.BasicGet("q"))
    wire.broker.say_content(channel, m.BasicDeliver("t", 7, True, "ex", "key"), b"one")
    wire.broker.say_content(channel, m.BasicGetOk(8, False, "", "q", 5), b"two" * 3000)
    wire.broker.say_content(channel, m.BasicReturn(312, "NO_ROUTE", "ex", "nowhere"), b"back")
    delivery, got, returned = wire.pump()
    assert isinstance(delivery, Delivery)
    assert (delivery.consumer_tag, delivery.delivery_tag, delivery.redelivered) == ("t", 7, True)
    assert (delivery.exchange, delivery.routing_key, delivery.body) == ("ex", "key", b"one")
    assert delivery.properties == Properties(content_type="text/plain")
    assert isinstance(got, Replied) and got.delivery is not None
    assert (got.delivery.consumer_tag, got.delivery.delivery_tag) == ("", 8)
    assert (got.delivery.routing_key, got.delivery.body) == ("q", b"two" * 3000)
    assert isinstance(got.reply, m.BasicGetOk) and got.reply.message_count == 5
    assert isinstance(returned, ReturnedPublish) and returned.message.body() == b"back"
    assert (returned.code, returned.text, returned.routing_key) == (312, "NO_ROUTE", "nowhere")


def test_an_ack_says_what_it_is_told_to(wire: Wire, channel: int) -> None:
    wire.session.ack(channel, 2**40, True)
    wire.pump()
    assert wire.broker.heard[-1] == (channel, m.BasicAck(2**40, True))


def test_blocked_and_unblocked_carry_the_reason(wire: Wire) -> None:
    wire.broker.say(0, m.ConnectionBlocked("low on memory"))
    assert wire.pump() == [Blocked("low on memory")]
    assert wire.session.blocked_reason == "low on memory"
    wire.broker.say(0, m.ConnectionUnblocked())
    assert wire.pump() == [Unblocked()]
    assert wire.session.blocked_reason is None


def test_flow_and_cancel_from_the_broker_are_answered(wire: Wire, channel: int) -> None:
    wire.broker.say(channel, m.ChannelFlow(False))
    wire.broker.say(channel, m.BasicCancel("t", False))
    wire.broker.say(channel, m.BasicCancel("u", True))
    assert wire.pump() == [
        FlowChanged(channel, False), Cancelled(channel, "t"), Cancelled(channel, "u")
    ]  # fmt: skip
    assert wire.broker.heard[-2:] == [
        (channel, m.ChannelFlowOk(False)), (channel, m.BasicCancelOk("t"))
    ]  # fmt: skip


def test_a_channel_closed_by_the_broker_leaves_the_connection_open(wire: Wire) -> None:
    channel, other = wire.channel(), wire.channel()
    wire.broker.say(channel, m.ChannelClose(404, "NOT_FOUND - no queue 'x'", 50, 10))
    wire.broker.say_content(channel, m.BasicDeliver("t", 1, False, "", "q"), b"late")
    assert wire.pump() == [ChannelClosed(channel, 404, "NOT_FOUND - no queue 'x'")]
    assert wire.broker.heard[-1] == (channel, m.ChannelCloseOk())
    with pytest.raises(ChannelClosedError, match="404 NOT_FOUND - no queue 'x'"):
        wire.session.publish(channel, "", "x", b"")
    wire.session.request(other, m.QueueDeclare("a"))
    assert isinstance(wire.pump()[0], Replied)


def test_after_an_orderly_close_the_number_takes_what_is_late_and_drops_it(
    wire: Wire, channel: int
) -> None:
    wire.session.request(channel, m.ChannelClose(200, "done"))
    wire.broker.say_content(channel, m.BasicDeliver("t", 1, False, "", "q"), b"late")
    (reply,) = wire.pump()
    assert isinstance(reply, Replied) and isinstance(reply.reply, m.ChannelCloseOk)
    wire.broker.say_content(channel, m.BasicDeliver("t", 2, False, "", "q"), b"later")
    assert wire.pump() == []
    assert wire.channel() == channel + 1, "numbers go round before one is used again"
    with pytest.raises(ChannelClosedError):
        wire.session.ack(channel, 1)


def test_both_sides_closing_a_channel_at_once_ends_in_order(wire: Wire, channel: int) -> None:
    wire.broker.answers = False
    wire.session.request(channel, m.ChannelClose(200, "done"))
    wire.broker.say(channel, m.ChannelClose(406, "PRECONDITION_FAILED - x", 60, 80))
    wire.broker.say(channel, m.ChannelCloseOk())
    (reply,) = wire.pump()
    assert isinstance(reply, Replied) and isinstance(reply.reply, m.ChannelCloseOk)
    assert wire.broker.heard[-1] == (channel, m.ChannelCloseOk())


def test_closing_the_connection_waits_for_close_ok(wire: Wire) -> None:
    wire.session.close()
    assert wire.session.state is State.CLOSING
    assert wire.pump() == [ConnectionClosed(200, "closed by the client", False)]
    wire.session.close()
    assert wire.session.feed(b"anything", wire.now_ns) == []


def test_the_channels_of_a_connection_are_bounded() -> None:
    wire = Wire(url=BrokerUrl(channels_max=2))
    wire.open()
    wire.channel(), wire.channel()
    with pytest.raises(ClientError, match="all 2 channels"):
        wire.session.open_channel()


def test_heartbeats_go_out_when_nothing_else_does_and_silence_ends_it() -> None:
    wire = Wire(broker=ScriptedBroker(heartbeat_s=10))
    wire.open()
    due_ns = wire.session.next_tick_ns()
    assert due_ns == wire.now_ns + 5 * SECOND_NS
    wire.now_ns += 5 * SECOND_NS
    assert wire.session.tick(wire.now_ns) == []
    wire.pump()
    assert wire.broker.heartbeats == 1
    wire.now_ns += 5 * SECOND_NS
    wire.broker.beat()
    assert wire.pump() == [], "a heartbeat is no event"
    wire.now_ns += 20 * SECOND_NS
    (event,) = wire.session.tick(wire.now_ns)
    assert isinstance(event, ConnectionClosed) and "silent" in event.text


def test_the_bound_is_asked_for_and_kept() -> None:
    books = Unconfirmed(2)
    assert [books.add(0), books.add(0)] == [1, 2]
    assert books.is_full()
    with pytest.raises(AssertionError):
        books.add(0)
    books.settle(1, False)
    assert not books.is_full() and books.add(9) == 3


def test_tag_zero_with_multiple_means_everything() -> None:
    books = Unconfirmed(10)
    for mark in (5, 6, 7):
        books.add(mark)
    assert books.settle(0, True) == ([1, 2, 3], [5, 6, 7])
    assert len(books) == 0


@pytest.mark.parametrize(("tag", "multiple"), [(9, False), (1, False), (1, True)])
def test_an_answer_to_what_is_not_open_changes_nothing(tag: int, multiple: bool) -> None:
    books = Unconfirmed(10)
    books.add(5)
    books.add(6)
    books.settle(1, False)
    assert books.settle(tag, multiple) == ([], [])
    assert len(books) == 1
