"""How many connections, channels and queues there may be, in RabbitMQ's codes and words."""

import pytest

from penstock.base.config import EntryLimits, UserConfig
from penstock.base.errors import OperatorError
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from tests.unit.broker.peer import Bed, Peer, start_ok

USERS = (UserConfig("guest", "guest"), UserConfig("app", "app"))


def bed_with(kind: str, name: str, limits: dict[str, int]) -> Bed:
    bed = Bed(vhosts=("/", "t"), users=USERS)
    bed.broker.limits.set(kind, name, limits)
    return bed


def refused(bed: Bed, vhost: str = "/") -> str:
    """The text a connection is closed with when it wants to enter `vhost`."""
    peer = Peer(bed, "late")
    peer.send(PROTOCOL_HEADER)
    peer.one(m.ConnectionStart)
    peer.say(0, start_ok())
    peer.one(m.ConnectionTune)
    peer.say(0, m.ConnectionTuneOk(10, 131_072, 0))
    peer.say(0, m.ConnectionOpen(vhost))
    close = peer.one(m.ConnectionClose)
    assert (close.reply_code, close.class_id, close.method_id) == (530, 10, 40)
    peer.say(0, m.ConnectionCloseOk())
    peer.hang_up()
    return close.reply_text


def test_connections_of_a_vhost() -> None:
    bed = bed_with("vhost", "/", {"max-connections": 1})
    first = bed.connect("first")
    assert refused(bed) == (
        "NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (1) is "
        "reached"
    )
    bed.connect("elsewhere", vhost="t")
    first.hang_up()
    bed.connect("second")
    bed.settle()


def test_connections_of_a_user() -> None:
    bed = bed_with("user", "guest", {"max-connections": 2})
    bed.connect("first")
    bed.connect("second", vhost="t")
    assert refused(bed) == (
        "NOT_ALLOWED - connection refused for user 'guest': user connection limit (2) is reached"
    )
    assert bed.broker.limits.connections_of("user", "guest") == 2
    bed.settle()


def test_nothing_lets_nobody_in_and_the_vhost_is_asked_first() -> None:
    bed = bed_with("user", "guest", {"max-connections": 0})
    bed.broker.limits.set("vhost", "/", {"max-connections": 0})
    assert "connection limit (0) is reached" in refused(bed)
    assert "user connection limit (0) is reached" in refused(bed, "t")
    assert refused(bed, "nowhere") == "NOT_ALLOWED - vhost nowhere not found"


def test_channels_of_a_user() -> None:
    bed = bed_with("user", "guest", {"max-channels": 3})
    first, second = bed.connect("first", channels=2), bed.connect("second")
    assert bed.broker.limits.channels_of("guest") == 3
    second.say(2, m.ChannelOpen())
    close = second.one(m.ConnectionClose)
    assert (close.reply_code, close.reply_text) == (
        530,
        "NOT_ALLOWED - number of channels opened for user 'guest' has reached the maximum allowed "
        "user limit of (3)",
    )
    second.hang_up()
    first.say(3, m.ChannelOpen())
    first.one(m.ChannelOpenOk)
    first.call(1, m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
    assert bed.broker.limits.channels_of("guest") == 2
    bed.settle()


def test_channels_of_a_user_are_counted_whatever_ends_them() -> None:
    bed = bed_with("user", "guest", {"max-channels": 9})
    limits = bed.broker.limits
    peers = [bed.connect(f"peer{number}", channels=2) for number in range(4)]
    assert limits.channels_of("guest") == 8
    peers[0].say(1, m.BasicAck(77, False))
    assert limits.channels_of("guest") == 7
    peers[0].say(1, m.ChannelCloseOk(), m.ChannelOpen())
    assert limits.channels_of("guest") == 8
    peers[0].say(0, m.ConnectionClose(200, "bye", 0, 0))
    assert limits.channels_of("guest") == 6
    peers[1].say(9, m.BasicAck(1, False))
    assert limits.channels_of("guest") == 4
    peers[2].hang_up()
    bed.broker.limits.clear("user", "guest")
    peers[3].say(3, m.ChannelOpen())
    assert limits.channels_of("guest") == 3
    bed.settle()
    for one in peers:
        one.hang_up()
    assert limits.channels_of("guest") == 0


def test_queues_of_a_vhost() -> None:
    bed = bed_with("vhost", "/", {"max-queues": 1})
    peer = bed.connect()
    # Direct reply-to and delayed messages keep theirs among the queues, but they are nobody's.
    peer.call(1, m.BasicConsume("amq.rabbitmq.reply-to", no_ack=True), m.BasicConsumeOk)
    peer.call(1, m.QueueDeclare("a"), m.QueueDeclareOk)
    peer.call(1, m.QueueDeclare("a"), m.QueueDeclareOk)
    peer.say(1, m.QueueDeclare("b"))
    close = peer.one(m.ChannelClose)
    assert (close.reply_code, close.reply_text) == (
        406,
        "PRECONDITION_FAILED - cannot declare queue 'b': queue limit in vhost '/' (1) is reached",
    )
    assert list(bed.broker.vhosts["/"].queues) == ["a"], "the reply queue went with its channel"
    bed.broker.limits.clear("vhost", "/")
    peer.say(1, m.ChannelCloseOk(), m.ChannelOpen())
    peer.one(m.ChannelOpenOk)
    peer.call(1, m.QueueDeclare("b"), m.QueueDeclareOk)
    assert bed.broker.vhosts["/"].counted_queues() == 2
    bed.settle()


def test_a_limit_below_what_is_there_puts_nobody_out() -> None:
    bed = bed_with("vhost", "/", {})
    peer = bed.connect(channels=2)
    peer.call(1, m.QueueDeclare("a"), m.QueueDeclareOk)
    bed.broker.limits.set("vhost", "/", {"max-connections": 0, "max-queues": 0})
    bed.broker.limits.set("user", "guest", {"max-channels": 1})
    peer.call(1, m.QueueDeclare("a"), m.QueueDeclareOk)
    assert peer.connection.channels.keys() == {1, 2}


def test_setting_adds_and_clearing_takes_away() -> None:
    limits = bed_with("vhost", "/", {"max-queues": 5}).broker.limits
    assert limits.set("vhost", "/", {"max-connections": 7}) == {
        "max-queues": 5,
        "max-connections": 7,
    }
    assert limits.set("vhost", "/", {"max-connections": -1}) == {"max-queues": 5}
    assert limits.set("user", "app", {"max-channels": 9}) == {"max-channels": 9}
    assert limits.rows() == [
        EntryLimits("vhost", "/", {"max-queues": 5}),
        EntryLimits("user", "app", {"max-channels": 9}),
    ]
    assert limits.export() == {
        "parameters": [
            {
                "component": "vhost-limits",
                "vhost": "/",
                "name": "limits",
                "value": {"max-queues": 5},
            }
        ],
        "user_limits": [{"user": "app", "value": {"max-channels": 9}}],
    }
    assert limits.clear("vhost", "/", ["max-connections"]) == {"max-queues": 5}
    assert limits.clear("vhost", "/") == {} and limits.clear("user", "app") == {}
    assert limits.rows() == []


@pytest.mark.parametrize(
    ("kind", "name", "wanted", "words"),
    [
        ("vhost", "x", {"max-queues": 1}, "no vhost 'x'; one of: /, t"),
        ("user", "x", {"max-channels": 1}, "no user 'x'; one of: app, guest"),
        ("node", "x", {}, "limits of a node: there are those of a vhost and of a user"),
        ("vhost", "/", {"max-channels": 1}, "'max-channels' of a vhost is unknown; one of"),
        ("user", "app", {"max-queues": 1}, "'max-queues' of a user is unknown; one of"),
        ("vhost", "/", {"max-queues": "1"}, "max-queues should be a number, actually was '1'"),
        ("vhost", "/", {"max-queues": True}, "should be a number"),
        ("vhost", "/", {"max-queues": 10**10}, "is more than 1000000000; -1 is no limit"),
    ],
)
def test_what_is_wrong_is_named(
    kind: str, name: str, wanted: dict[str, object], words: str
) -> None:
    limits = bed_with("vhost", "/", {"max-connections": 3}).broker.limits
    before = limits.rows()
    with pytest.raises(OperatorError, match=words):
        limits.set(kind, name, {"max-connections": 1, **wanted} if wanted else wanted)
    assert limits.rows() == before


def test_limits_of_the_configuration() -> None:
    bed = Bed(
        vhost_limits=(EntryLimits("vhost", "/", {"max-queues": 0}),),
        user_limits=(EntryLimits("user", "guest", {"max-channels": 4}),),
    )
    peer = bed.connect()
    peer.say(1, m.QueueDeclare("q"))
    assert peer.one(m.ChannelClose).reply_code == 406
    with pytest.raises(OperatorError, match="no user 'nobody'"):
        Bed(user_limits=(EntryLimits("user", "nobody", {"max-channels": 4}),))
