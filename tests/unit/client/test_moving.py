"""client/moving: a message leaves its queue only when it is confirmed where it goes."""

from collections.abc import Iterator

import pytest

from penstock.base.errors import OperatorError
from penstock.client import moving
from penstock.client.io_blocking import Channel, connect
from penstock.client.moving import PIECE, Moved, move_messages
from penstock.protocol.properties import Properties
from penstock.testing import Broker

MANY = 2 * PIECE + 7


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def channel(broker: Broker) -> Iterator[Channel]:
    """With two queues, the first of which has MANY messages."""
    with broker.vhost() as vhost, connect(vhost.url) as connection:
        channel = connection.channel()
        for name in ("from", "to"):
            channel.declare_queue(name)
        channel.confirm_select()
        for number in range(MANY):
            channel.publish("", "from", b"%d" % number, Properties(message_id=str(number)))
        channel.wait_for_confirms()
        channel.close()
        yield connection.channel()


def held(channel: Channel, name: str) -> int:
    return channel.declare_queue(name, passive=True).message_count


def test_all_of_them_in_their_order(channel: Channel) -> None:
    assert move_messages(channel, "from", "", "to", 10_000) == Moved(MANY, 0)
    for number in range(MANY):
        found = channel.get("to", no_ack=True)
        assert found is not None and found.body == b"%d" % number
        assert found.properties.message_id == str(number)
    assert channel.get("to") is None


def test_under_an_alarm_nothing_leaves(
    broker: Broker, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "CONFIRM_MS", 200)
    broker.raise_alarm("memory")
    try:
        with pytest.raises(OperatorError, match=r"has not confirmed.* 0 messages were moved"):
            move_messages(channel, "from", "", "to", 10)
    finally:
        broker.clear_alarm("memory")
    assert held(channel, "from") == MANY


def test_one_that_feeds_its_own_queue_comes_to_an_end(channel: Channel) -> None:
    """An exchange that leads back: what was there is moved once."""
    channel.declare_exchange("round", "fanout")
    channel.bind_queue("from", "round")
    assert move_messages(channel, "from", "round", None, 10_000) == Moved(MANY, MANY)
