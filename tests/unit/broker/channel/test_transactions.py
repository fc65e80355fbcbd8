"""What waits for a commit, and a commit that waits. Whole transactions are in test_consume, those
that a soft limit holds in tests/spec/test_quorum_scenarios."""

import pytest

from penstock.base.config import RateRow
from penstock.base.errors import ChannelFault
from penstock.base.limits import TX_BYTES_MAX, TX_MESSAGES_MAX
from penstock.broker.channel.channel import CHANNEL_CLOSE
from penstock.broker.channel.transactions import ACK, Transaction
from penstock.protocol import methods as m
from penstock.protocol.content import Message
from tests.unit.broker.peer import MS, Bed


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
