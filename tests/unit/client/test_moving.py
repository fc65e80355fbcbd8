"""client/moving: a message leaves its queue only when it is confirmed where it goes."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from penstock.base.errors import OperatorError
from penstock.broker.session.passwords import SHA256, hash_password
from penstock.client import moving
from penstock.client.errors import ClientError
from penstock.client.io_blocking import Channel, connect
from penstock.client.moving import MOVE_S, PIECE, Moved, move_messages
from penstock.protocol.properties import Properties
from penstock.testing import Broker
from tests.patience import until

MANY = 2 * PIECE + 7


def still() -> float:
    """A clock by which no move takes too long, however busy the machine is."""
    return 0.0


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
    assert move_messages(channel, "from", "", "to", 10_000, still) == Moved(MANY, 0, MANY)
    for number in range(MANY):
        found = channel.get("to", no_ack=True)
        assert found is not None and found.body == b"%d" % number
        assert found.properties.message_id == str(number)
    assert channel.get("to") is None


def test_the_time_of_one_turn_ends_and_the_rest_stays(channel: Channel) -> None:
    """A piece goes in any case, so that asking again comes to an end on any disk."""
    seconds = iter((0.0, MOVE_S - 0.1, MOVE_S))
    moved = move_messages(channel, "from", "", "to", 10_000, lambda: next(seconds))
    assert moved == Moved(2 * PIECE, MANY - 2 * PIECE, MANY)
    late = iter((0.0, MOVE_S, MOVE_S))
    assert move_messages(channel, "from", "", "to", 10_000, lambda: next(late)) == Moved(7, 0, 7)
    assert held(channel, "to") == MANY


def test_into_an_exchange_a_message_is_what_time_is_looked_at_for(channel: Channel) -> None:
    channel.declare_exchange("all", "fanout")
    channel.bind_queue("to", "all")
    seconds = iter((0.0, 0.5, 1.0, MOVE_S))
    moved = move_messages(channel, "from", "all", None, 10_000, lambda: next(seconds))
    assert moved == Moved(3, MANY - 3, MANY)


def test_under_an_alarm_nothing_leaves(
    broker: Broker, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "CONFIRM_MS", 200)
    broker.raise_alarm("memory")
    try:
        with pytest.raises(OperatorError, match=r"has not confirmed.* 0 messages were moved"):
            move_messages(channel, "from", "", "to", 10, still)
    finally:
        broker.clear_alarm("memory")
    assert held(channel, "from") == MANY


def test_one_that_feeds_its_own_queue_comes_to_an_end(channel: Channel) -> None:
    """An exchange that leads back: what was there is moved once."""
    channel.declare_exchange("round", "fanout")
    channel.bind_queue("from", "round")
    assert move_messages(channel, "from", "round", None, 10_000, still) == Moved(MANY, MANY, MANY)


def test_a_message_of_another_user_moves_without_his_name(broker: Broker, channel: Channel) -> None:
    """The broker refuses whoever publishes in another one's name, and closes his channel."""
    hashed = hash_password("secret-of-writer", bytes(4))
    about = {"password_hash": hashed, "hashing_algorithm": SHA256}
    broker.ask("users", do="add", name="writer", tags=[], **about)
    broker.ask(
        "permissions", do="set", user="writer", vhost="/", configure=".*", write=".*", read=".*"
    )
    where = f"amqp://writer:secret-of-writer@{broker.host}:{broker.port}/%2F"
    with connect(where) as other, connect(broker.url) as own:
        writer = other.channel()
        for name in ("his", "mine"):
            writer.declare_queue(name)
        writer.confirm_select()
        for number in range(3):
            writer.publish("", "his", b"%d" % number, Properties(user_id="writer", app_id="app"))
        writer.wait_for_confirms()
        assert move_messages(own.channel(), "his", "", "mine", 10, still) == Moved(3, 0, 3)
        found = writer.get("mine", no_ack=True)
        assert found is not None and found.properties == Properties(app_id="app")
        for name in ("his", "mine"):
            writer.delete_queue(name)


def test_nothing_is_lost_when_the_broker_is_killed_meanwhile(tmp_path: Path) -> None:
    """What was on its way is in one of the queues, or in both."""
    count = 8 * PIECE
    lasting = Properties(delivery_mode=2)
    with Broker(data=tmp_path / "kept") as broker:
        with connect(broker.url) as connection:
            channel = connection.channel()
            for name in ("from", "to"):
                channel.declare_queue(name, durable=True)
            channel.confirm_select()
            for number in range(count):
                channel.publish("", "from", b"%d" % number, lasting)
            channel.wait_for_confirms()
        mover = Thread(target=moved_until_it_breaks, args=(broker.url,))
        mover.start()
        until(lambda: broker.queues()["to"].messages >= PIECE, "a piece is there")
        broker.restart(is_killed=True)
        mover.join()
        with connect(broker.url) as connection:
            channel = connection.channel()
            found = {name: taken(channel, name) for name in ("from", "to")}
    assert set(found["from"]) | set(found["to"]) == {b"%d" % number for number in range(count)}
    assert len(found["to"]) == len(set(found["to"])), "each was published once"
    assert len(set(found["from"]) & set(found["to"])) <= PIECE


def moved_until_it_breaks(url: str) -> None:
    with suppress(ClientError), connect(url) as connection:
        move_messages(connection.channel(), "from", "", "to", 100_000, still)


def taken(channel: Channel, queue: str) -> list[bytes]:
    found: list[bytes] = []
    while (one := channel.get(queue, no_ack=True)) is not None:
        found.append(one.body)
    return found
