"""The connection's actor: what it reads, what it holds, and how it ends."""

import time

import pytest

from penstock.base.limits import SOCKET_ANSWERS_BYTES
from penstock.broker.connection.phases import PHASE_CLOSED
from penstock.protocol import methods as m
from penstock.protocol.constants import HEARTBEAT_FRAME, PROTOCOL_HEADER
from penstock.protocol.methods.codec import encode_method, method_frame
from tests.unit.broker.peer import READ_BYTES, Bed, Peer, frame, header, publish


def code_of(peer: Peer) -> int:
    """The reply code of the connection.close that is all there is to hear."""
    return peer.one(m.ConnectionClose).reply_code


def test_connection_close_is_answered_when_a_publish_before_it_was_at_fault(peer: Peer) -> None:
    peer.send(publish(1, "nowhere", "q", b"x"), method_frame(0, m.ConnectionClose(200, "", 0, 0)))
    assert [type(one.method) for one in peer.heard()][-1] is m.ConnectionCloseOk
    assert peer.shell.is_closed


def test_what_came_before_connection_close_is_done_first() -> None:
    bed = Bed(turn_messages=1)
    peer = bed.connect()
    other = bed.connect("other")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", b"1", b"2")
    peer.say(1, m.BasicGet("q"))
    peer.heard()
    peer.send(
        method_frame(1, m.BasicAck(1, False)),
        publish(1, "", "q", b"3"),
        method_frame(1, m.QueueBind("q", "amq.direct", "k")),
        publish(1, "amq.direct", "k", b"4"),
        method_frame(0, m.ConnectionClose(200, "", 0, 0)),
    )
    other.say(1, m.BasicConsume("q", "t", no_ack=True))
    heard = other.heard()
    assert [one.body for one in heard[1:]] == [b"2", b"3", b"4"]
    bed.settle()


def test_an_oversized_body_closes_its_channel_alone() -> None:
    bed = Bed(body_bytes_max=1000)
    peer = bed.connect(channels=2)
    peer.call(2, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.send(publish(1, "nowhere", "q", b"x"), publish(1, "", "q", b"x" * 1001))
    heard = peer.heard()
    assert [one.channel for one in heard] == [1]
    peer.publish("q", b"y", channel=2)
    assert peer.call(2, m.QueueDeclare("q", passive=True), m.QueueDeclareOk).message_count == 1
    peer.say(1, m.ChannelCloseOk(), m.ChannelOpen())
    peer.one(m.ChannelOpenOk)
    bed.settle()


def test_an_ack_on_a_closed_channel_is_nothing_else_whatever_its_tag(peer: Peer) -> None:
    """A delivery tag may have the same value as the identity of channel.open or close-ok."""
    peer.say(1, m.BasicAck(7, False))
    assert peer.one(m.ChannelClose).reply_code == 406
    for tag in (0x14000A, 0x140028, 0x140029):
        peer.say(1, m.BasicAck(tag, False))
    assert peer.heard() == []
    peer.say(1, m.ChannelCloseOk(), m.ChannelOpen())
    peer.one(m.ChannelOpenOk)
    peer.say(9, m.BasicAck(0x14000A, False))
    assert code_of(peer) == 504


def test_a_peer_that_sends_on_after_a_frame_error_costs_no_memory(peer: Peer) -> None:
    peer.send(b"\x01\x00\x01\xff\xff\xff\xff")
    peer.send(b"x")
    assert code_of(peer) == 501
    for _ in range(20):
        peer.send(b"x" * 65_536)
    assert peer.connection.parser.unread_bytes() <= 65_536
    assert len(peer.connection.parser.buffer) <= 65_536


def test_content_for_a_channel_that_is_not_open_is_refused_before_its_body(peer: Peer) -> None:
    method = frame(1, 77, encode_method(m.BasicPublish("", "q", False, False)))
    peer.send(method, frame(2, 77, header(10_000_000)), frame(3, 77, b"x" * 1000))
    assert code_of(peer) == 504


def test_so_is_one_that_is_too_large_for_any_channel(peer: Peer) -> None:
    method = frame(1, 77, encode_method(m.BasicPublish("", "q", False, False)))
    peer.send(method, frame(2, 77, header(1 << 40)))
    assert code_of(peer) == 504


def test_contents_that_have_begun_cost_nothing_until_they_go_on(bed: Bed) -> None:
    """Every read looked at all of them: with 2,000 it took a hundred times as long."""
    peer = bed.connect(channels=2000)
    method = encode_method(m.BasicPublish("", "q", False, False))
    peer.send(*(frame(1, number, method) for number in range(1, 2001)))
    assert len(peer.connection.parser.assemblies) == 2000
    began_s = time.process_time()
    for _ in range(8000):
        peer.send(HEARTBEAT_FRAME)
    assert time.process_time() - began_s < 0.6
    peer.send(frame(1, 2001, method))
    assert code_of(peer) == 504
    assert not peer.connection.parser.assemblies


def test_a_close_in_the_middle_of_a_content_drops_it(peer: Peer) -> None:
    peer.output.room_bytes = 0
    method = frame(1, 1, encode_method(m.BasicPublish("", "q", False, False)))
    peer.send(method, frame(2, 1, header(1000)), frame(3, 1, b"x" * 500))
    assert peer.connection.unfinished.bytes > 500
    peer.say(0, m.ConnectionClose(200, "", 0, 0))
    assert not peer.shell.is_closed and peer.connection.unfinished.bytes == 0
    peer.take()
    assert peer.shell.is_closed


def test_a_peer_that_asks_on_and_reads_nothing_is_not_read_for_ever(peer: Peer) -> None:
    """A client may ask not to be watched by heartbeats: nothing else would end it."""
    other = peer.bed.connect("other")
    peer.take(0)
    ask = method_frame(1, m.QueueDeclare("q" * 255))
    for _ in range(70):
        peer.send(ask * 1000)
    assert len(peer.output.pending) < SOCKET_ANSWERS_BYTES.default + 2 * READ_BYTES
    assert peer.unread != b""
    other.call(1, m.QueueDeclare("other"), m.QueueDeclareOk)
    peer.take()
    assert peer.unread == b"" and peer.output.pending == b""
    assert len(peer.heard()) == 70_000
    peer.bed.settle()


def test_content_before_connection_open_is_refused_before_its_body(bed: Bed) -> None:
    peer = Peer(bed, "peer")
    peer.send(PROTOCOL_HEADER)
    peer.one(m.ConnectionStart)
    method = frame(1, 1, encode_method(m.BasicPublish("", "q", False, False)))
    peer.send(method, frame(2, 1, header(10_000_000)))
    assert peer.one(m.ConnectionClose).reply_code in (503, 504)
    assert peer.shell.is_closed
    assert peer.connection.phase == PHASE_CLOSED


# -- alarms --------------------------------------------------------------------------------------


def held_by_alarm(bed: Bed) -> Peer:
    """A peer with a publish held by the memory alarm, and an unanswered delivery."""
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", b"1")
    peer.say(1, m.BasicConsume("q", "t"))
    assert [type(one.method) for one in peer.heard()] == [m.BasicConsumeOk, m.BasicDeliver]
    bed.broker.set_alarm("memory", "full")
    peer.publish("q", b"2")
    assert peer.one(m.ConnectionBlocked).reason.startswith("low on memory")
    return peer


def test_an_ack_behind_a_held_publish_is_taken_while_the_alarm_lasts(bed: Bed) -> None:
    """Otherwise no consumer that publishes could ever drain its queue, and the alarm stays."""
    peer = held_by_alarm(bed)
    actor = bed.broker.vhosts["/"].queues["q"]
    peer.say(1, m.BasicAck(1, False))
    assert actor.unacked_count == 0
    assert peer.connection.state(bed.clock.monotonic_ns()) == "blocked"
    bed.broker.clear_alarm("memory")
    bed.run()
    assert [type(one.method) for one in peer.heard()] == [m.ConnectionUnblocked, m.BasicDeliver]


def test_a_barrier_method_behind_a_held_publish_waits_and_nothing_grows(bed: Bed) -> None:
    """tx.commit and the like must not carry publishes past an alarm."""
    peer = held_by_alarm(bed)
    peer.say(1, m.QueueBind("q", "amq.direct", "k"))
    peer.send(*(method_frame(1, m.BasicQos(0, 10, False)) for _ in range(20_000)))
    assert peer.unread, "the socket is no longer read"
    assert peer.heard() == []
    assert bed.broker.vhosts["/"].queues["q"].messages.publish_count == 1
    bed.broker.clear_alarm("memory")
    peer.read_on()
    heard = [type(one.method) for one in peer.heard()]
    assert m.QueueBindOk in heard and heard.count(m.BasicQosOk) == 20_000


@pytest.mark.parametrize("close", ["channel", "connection"])
def test_a_close_behind_a_held_publish_goes_through(close: str, bed: Bed) -> None:
    peer = held_by_alarm(bed)
    if close == "channel":
        peer.call(1, m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
    else:
        peer.call(0, m.ConnectionClose(200, "", 0, 0), m.ConnectionCloseOk)
    assert bed.broker.vhosts["/"].queues["q"].messages.publish_count == 2


def test_two_alarms_hold_until_the_last_is_over_and_the_books_name_the_right_one(bed: Bed) -> None:
    peer = held_by_alarm(bed)
    bed.broker.set_alarm("disk", "full")
    peer.publish("q", b"3")
    bed.clock.advance(1_000)
    bed.broker.clear_alarm("memory")
    bed.run()
    assert peer.heard() == []
    bed.clock.advance(1_000)
    bed.broker.clear_alarm("disk")
    bed.run()
    assert isinstance(peer.heard()[0].method, m.ConnectionUnblocked)
    assert not peer.connection.is_held()
    assert peer.connection.gate.is_open


# -- limits --------------------------------------------------------------------------------------


def test_deliveries_to_a_peer_that_takes_nothing_stay_near_the_high_mark() -> None:
    """F36: at most the mark and one message wait in the connection's buffer."""
    bed = Bed(memory_high_bytes=1 << 40)
    peer = bed.connect(channels=4)
    for number in range(1, 5):
        peer.call(number, m.QueueDeclare(f"q{number}"), m.QueueDeclareOk)
        peer.publish(f"q{number}", *(b"x" * 100_000 for _ in range(20)), channel=number)
    peer.take(0)
    for number in range(1, 5):
        peer.say(number, m.BasicConsume(f"q{number}", "t", no_ack=True))
    bed.run()
    assert peer.output.pending_bytes_max <= 262_144 + 110_000
    peer.take()
    assert len([one for one in peer.heard() if one.body]) == 80
    bed.settle()


def test_a_flood_of_gets_to_a_peer_that_takes_nothing_is_bounded() -> None:
    bed = Bed(memory_high_bytes=1 << 40)
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    for _ in range(60):
        peer.publish("q", b"x" * 100_000)
    peer.take(0)
    peer.say(1, *(m.BasicGet("q", True) for _ in range(100)))
    assert peer.output.pending_bytes_max < 3_000_000
    peer.take()
    kinds = [type(one.method) for one in peer.heard()]
    assert kinds == [m.BasicGetOk] * 60 + [m.BasicGetEmpty] * 40
    bed.settle()


def test_a_flood_of_returns_to_a_peer_that_takes_nothing_is_bounded() -> None:
    bed = Bed(memory_high_bytes=1 << 40)
    peer = bed.connect()
    peer.take(0)
    whole = publish(1, "", "nobody", b"x" * 50_000, mandatory=True)
    peer.send(*(whole for _ in range(100)))
    assert peer.output.pending_bytes_max < 3_000_000
    peer.take()
    assert [type(one.method) for one in peer.heard()] == [m.BasicReturn] * 100
    bed.settle()


# -- ends ----------------------------------------------------------------------------------------


def test_a_connection_that_is_lost_leaves_nothing_behind(bed: Bed) -> None:
    peer = bed.connect(channels=2)
    other = bed.connect("other")
    other.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.call(1, m.QueueDeclare("mine", exclusive=True), m.QueueDeclareOk)
    peer.publish("q", b"1", b"2", b"3")
    peer.say(2, m.BasicConsume("q", "t"))
    assert len(peer.heard()) == 4
    peer.send(publish(1, "", "q", b"4")[:-20])
    peer.hang_up()
    assert list(bed.broker.connections) == ["other"]
    assert list(bed.broker.vhosts["/"].queues) == ["q"]
    other.say(1, m.BasicConsume("q", "t"))
    heard = other.heard()[1:]
    assert [one.body for one in heard] == [b"1", b"2", b"3"]
    for one in heard:
        assert isinstance(one.method, m.BasicDeliver) and one.method.redelivered
