"""What came in and was not taken: bounds, replies by identity, reasons of a close."""

import pytest

from penstock.client.errors import ChannelClosedError, ClientError, ConnectionClosedError
from penstock.client.events import (
    ChannelClosed,
    ClientEvent,
    Confirmed,
    ConnectionClosed,
    Delivery,
    Replied,
)
from penstock.client.inbox import DELIVERIES_HELD_MAX, ClientInbox
from penstock.protocol import methods as m
from penstock.protocol.content import make_content
from penstock.protocol.methods.codec import encode_method


def delivery(channel: int) -> Delivery:
    method = encode_method(m.BasicDeliver("", 1, False, "", ""))
    return Delivery(make_content(channel, method, b"", b"", 1000), 5)


def test_a_reply_is_taken_once_by_the_request_itself() -> None:
    inbox = ClientInbox()
    channel = inbox.add_channel(1)
    first, second = m.BasicGet("q"), m.BasicGet("q")
    inbox.put([Replied(1, second, m.BasicGetEmpty())])
    assert channel.reply_to(first) is None, "an equal request is another one"
    assert channel.reply_to(second) is not None
    assert channel.reply_to(second) is None


def test_more_deliveries_than_are_held_is_said_aloud() -> None:
    inbox = ClientInbox()
    channel = inbox.add_channel(1)
    one: list[ClientEvent] = [delivery(1)]
    inbox.put(one * DELIVERIES_HELD_MAX)
    channel.check()
    inbox.put(one)
    assert len(channel.deliveries) == DELIVERIES_HELD_MAX
    with pytest.raises(ClientError, match="prefetch"):
        channel.check()


def test_closes_keep_their_reason() -> None:
    inbox = ClientInbox()
    channel = inbox.add_channel(1)
    inbox.put([ChannelClosed(1, 404, "NOT_FOUND"), ConnectionClosed(320, "FORCED", True)])
    with pytest.raises(ChannelClosedError, match="404 NOT_FOUND"):
        channel.check()
    with pytest.raises(ConnectionClosedError, match="the broker closed the connection: 320 FORCED"):
        inbox.check()
    assert inbox.is_closed() and not inbox.is_open


def test_refused_publishes_are_told_from_accepted_ones() -> None:
    inbox = ClientInbox()
    channel = inbox.add_channel(1)
    inbox.put([Confirmed(1, [1, 2], [0, 0], True), Confirmed(1, [3], [0], False)])
    assert list(channel.nacked) == [3]


def test_events_of_an_unknown_channel_are_dropped() -> None:
    inbox = ClientInbox()
    inbox.add_channel(1)
    inbox.remove_channel(1)
    inbox.put([delivery(1)])
    assert not inbox.is_closed()
