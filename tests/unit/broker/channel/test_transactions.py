"""What waits for a commit, and a commit that waits. Whole transactions are in test_consume, those
that a soft limit holds in tests/spec/test_quorum_scenarios."""

import pytest

from penstock.base.config import RateRow
from penstock.base.errors import ChannelFault
from penstock.base.limits import TX_BYTES_MAX, TX_MESSAGES_MAX
from penstock.broker.admin.views import actor_snapshots
from penstock.broker.channel.channel import CHANNEL_CLOSE
from penstock.broker.channel.transactions import ACK, Transaction
from penstock.broker.queue.classic_actor import ClassicActor
from penstock.explain.asking import Question, ask_why
from penstock.protocol import methods as m
from penstock.protocol.content import Message
from penstock.telemetry.flight import FlightHistory
from tests.unit.broker.peer import MS, Bed, Peer, publish


def test_tags_that_were_named() -> None:
    transaction = Transaction()
    transaction.settle(7, False, ACK)
    transaction.settle(4, True, ACK)
    named = [tag for tag in range(1, 10) if transaction.is_settled(tag)]
    assert named == [1, 2, 3, 4, 7]
    transaction.clear()
    assert not transaction.is_settled(1) and transaction.settles == []


def test_settles_are_bounded() -> None:
    transaction = Transaction()
    for tag in range(1, TX_MESSAGES_MAX.default + 1):
        transaction.settle(tag, False, ACK)
    with pytest.raises(ChannelFault, match="commit more often") as caught:
        transaction.settle(1, False, ACK)
    assert caught.value.code == 406


def test_bytes_are_bounded() -> None:
    transaction = Transaction()
    message = Message(bytes(TX_BYTES_MAX.default // 4), 0)
    for _ in range(4):
        transaction.publish(message)
    with pytest.raises(ChannelFault):
        transaction.publish(Message(b"x", 0))


def test_a_commit_waits_for_the_rate_of_a_queue() -> None:
    bed = Bed(rates=(RateRow("queue", "/slow", 10),), rate_burst_ms=100)
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("slow"), m.QueueDeclareOk)
    peer.call(1, m.TxSelect(), m.TxSelectOk)
    for _ in range(4):
        peer.publish("slow", b"1", b"2")
        peer.say(1, m.TxCommit())
    assert bed.actor("slow").messages.ready_count() == 2
    channel = peer.connection.channels[1]
    assert channel.is_stalled and channel.stalled_by[1] == "rate"
    done = 1
    for _ in range(8):
        bed.later(100 * MS)
        now = int(bed.actor("slow").messages.ready_count()) // 2
        assert now <= done + 1
        done = now
    assert done == 4 and len(peer.heard()) == 4
    bed.settle()


def test_an_ack_is_no_close_whatever_its_tag() -> None:
    bed = Bed(rates=(RateRow("queue", "/slow", 10),), rate_burst_ms=100)
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("slow"), m.QueueDeclareOk)
    peer.call(1, m.TxSelect(), m.TxSelectOk)
    for _ in range(2):
        peer.publish("slow", b"1", b"2")
        peer.say(1, m.TxCommit())
    # A tag is kept where the number of a method is: of channel.close, for which no commit waits.
    peer.say(1, m.BasicAck(CHANNEL_CLOSE))
    assert peer.connection.channels[1].is_stalled
    assert bed.actor("slow").messages.ready_count() == 2


# -- at a mark -----------------------------------------------------------------------------------

MARK_BYTES = 100_000
BODY = bytes(1000)
COMMIT_BYTES = 50 * (len(BODY) + 300)


def deep() -> tuple[Bed, Peer]:
    """A queue `q` with a depth mark, and a peer with a transaction."""
    bed = Bed(queue_depth_bytes=MARK_BYTES)
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.call(1, m.TxSelect(), m.TxSelectOk)
    return bed, peer


def commit(peer: Peer, number: int) -> None:
    """Fifty publishes and their commit, as bytes that come whether the last one was answered."""
    peer.send(*(publish(1, "", "q", b"%05d" % (50 * number + n) + BODY) for n in range(50)))
    peer.say(1, m.TxCommit())


def drain(reader: Peer, bodies: list[int]) -> None:
    """Acknowledge everything that was delivered."""
    found = [one for one in reader.heard() if isinstance(one.method, m.BasicDeliver)]
    for one in found:
        bodies.append(int(one.body[:5]))
    if found:
        reader.say(1, m.BasicAck(0, True))


def commits_heard(peer: Peer) -> int:
    heard = peer.heard()
    assert all(isinstance(one.method, m.TxCommitOk) for one in heard)
    return len(heard)


def test_a_client_that_commits_and_never_stops_is_held_at_the_depth_mark() -> None:
    bed, peer = deep()
    for number in range(100):
        commit(peer, number)
    actor = bed.actor("q")
    assert isinstance(actor, ClassicActor)
    assert MARK_BYTES // 2 < actor.content_bytes() < MARK_BYTES + COMMIT_BYTES
    channel = peer.connection.channels[1]
    assert channel.is_stalled and channel.stalled_by == ("queue:/q", "credit")
    done = commits_heard(peer)
    assert 0 < done < 5
    reader, bodies = bed.connect("reader"), list[int]()
    reader.say(1, m.BasicQos(0, 20, False), m.BasicConsume("q", "t"))
    for _ in range(400):
        drain(reader, bodies)
        peer.read_on()
        assert actor.content_bytes() < MARK_BYTES + COMMIT_BYTES
    assert done + commits_heard(peer) == 100
    assert bodies == list(range(5000))
    bed.settle()


def test_a_commit_that_settles_does_not_wait_for_itself() -> None:
    """What is taken out of a queue is put into it again, as when it is tried later."""
    bed, peer = deep()
    filler = bed.connect("filler")
    filler.send(*(publish(1, "", "q", BODY) for _ in range(200)))
    assert bed.actor("q").is_deep
    peer.say(1, m.BasicQos(0, 5, False), m.BasicConsume("q", "t"))
    for _ in range(20):
        tags = [
            one.method.delivery_tag
            for one in peer.heard()
            if isinstance(one.method, m.BasicDeliver)
        ]
        assert tags
        for tag in tags:
            peer.publish("q", BODY, BODY)
            peer.say(1, m.BasicAck(tag))
        peer.say(1, m.TxCommit())
    assert any(isinstance(one.method, m.TxCommitOk) for one in peer.heard())
    assert not peer.connection.channels[1].is_stalled


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_commit_does_not_wait_where_its_connection_consumes(is_answered: bool) -> None:
    """Its client may settle when it has the answer; also of another channel, or of basic.get."""
    peer = deep()[1]
    for number in range(3):
        commit(peer, number)
    assert peer.connection.channels[1].is_stalled
    peer = deep()[1]
    peer.say(2, m.ChannelOpen())
    peer.publish("q", b"first")
    peer.say(1, m.TxCommit())
    peer.say(2, m.BasicConsume("q", "t") if is_answered else m.BasicGet("q"))
    for number in range(3):
        commit(peer, number)
    assert not peer.connection.channels[1].is_stalled
    assert sum(isinstance(one.method, m.TxCommitOk) for one in peer.heard()) == 4


def test_a_commit_waits_for_each_of_its_queues_once() -> None:
    """Others press on both, and room for one is taken back while the other is waited for."""
    bed, peer = deep()
    peer.call(1, m.QueueDeclare("r"), m.QueueDeclareOk)
    readers = [bed.connect("reads q"), bed.connect("reads r")]
    pressing = [bed.connect("presses q"), bed.connect("presses r")]
    for reader, presser, queue in zip(readers, pressing, "qr", strict=True):
        presser.send(*(publish(1, "", queue, b"00000" + BODY) for _ in range(2000)))
        reader.say(1, m.BasicQos(0, 10, False), m.BasicConsume(queue, "t"))
        assert bed.actor(queue).room is not None
    done = 0
    for _ in range(10):
        peer.publish("q", b"00000" + BODY)
        peer.publish("r", b"00000" + BODY)
        peer.say(1, m.TxCommit())
    for _ in range(300):
        for reader, presser in zip(readers, pressing, strict=True):
            drain(reader, [])
            presser.read_on()
        peer.read_on()
        done += commits_heard(peer)
    assert done == 10


def test_a_commit_for_one_queue_does_not_wait_for_another() -> None:
    bed, peer = deep()
    for number in range(3):
        commit(peer, number)
    other = bed.connect("other")
    other.call(1, m.QueueDeclare("free"), m.QueueDeclareOk)
    other.call(1, m.TxSelect(), m.TxSelectOk)
    other.publish("q", BODY)
    other.say(1, m.TxRollback())
    other.one(m.TxRollbackOk)
    for _ in range(10):
        other.publish("free", BODY)
        other.say(1, m.TxCommit())
    assert commits_heard(other) == 10 and peer.connection.channels[1].is_stalled


@pytest.mark.parametrize("is_channel", [True, False])
def test_an_end_does_not_wait_with_the_commit(is_channel: bool) -> None:
    bed, peer = deep()
    for number in range(3):
        commit(peer, number)
    assert peer.connection.channels[1].is_stalled
    if is_channel:
        peer.say(1, m.ChannelClose(200, "", 0, 0))
        assert isinstance(peer.heard()[-1].method, m.ChannelCloseOk)
        assert bed.actor("q").messages.ready_count() == 150
    else:
        peer.hang_up()
        assert bed.actor("q").messages.ready_count() == 100
    bed.settle()


@pytest.mark.parametrize("method", [m.BasicConsume("q", "t"), m.BasicGet("q")])
def test_a_commit_that_waits_goes_on_when_its_connection_begins_to_consume(
    method: m.BasicConsume | m.BasicGet,
) -> None:
    bed, peer = deep()
    peer.say(2, m.ChannelOpen())
    for number in range(3):
        commit(peer, number)
    channel = peer.connection.channels[1]
    assert channel.is_stalled and bed.actor("q").messages.ready_count() == 100
    peer.say(2, method)
    assert not channel.is_stalled
    actor = bed.actor("q")
    assert int(actor.messages.ready_count() + actor.unacked_count) == 150


def held_ns(peer: Peer) -> int:
    """How long publishes of its connection have waited, by its books."""
    return actor_snapshots(peer.bed.broker)[peer.connection.identity].parked.blocked_ns


@pytest.mark.parametrize("end", ["go on", "channel.close", "hang up"])
def test_a_commit_that_waits_is_on_record_with_its_connection(end: str) -> None:
    bed = Bed(rates=(RateRow("queue", "/slow", 1),))
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("slow"), m.QueueDeclareOk)
    peer.call(1, m.TxSelect(), m.TxSelectOk)
    peer.publish("slow", b"1", b"2", b"3")
    peer.call(1, m.TxCommit(), m.TxCommitOk)
    peer.publish("slow", b"4")
    peer.say(1, m.TxCommit())
    history = FlightHistory()
    history.push(bed.clock.monotonic_ns(), actor_snapshots(bed.broker))
    bed.later(1000 * MS)
    assert held_ns(peer) == 1000 * MS and peer.heard() == []
    history.push(bed.clock.monotonic_ns(), actor_snapshots(bed.broker))
    answer = ask_why(history, Question("publish", "", 1.0))
    assert answer.explanation["state"] == "throttled"
    assert "the rate limit of queue /slow   is reached" in answer.text
    if end == "hang up":
        peer.hang_up()
        bed.settle()
        return
    if end == "channel.close":
        peer.say(1, m.ChannelClose(200, "", 0, 0))
    for _ in range(50):
        bed.later(100 * MS)
    assert 1000 * MS <= held_ns(peer) <= 4000 * MS, "until the limit lets it go"
    assert bed.actor("slow").messages.ready_count() == 4
    bed.settle()
