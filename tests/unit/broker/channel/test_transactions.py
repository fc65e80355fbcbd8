"""What waits for a commit. Whole transactions are in test_consume."""

import pytest

from penstock.base.errors import ChannelFault
from penstock.base.limits import TX_BYTES_MAX, TX_MESSAGES_MAX
from penstock.broker.channel.transactions import ACK, Transaction
from penstock.protocol.content import Message


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
