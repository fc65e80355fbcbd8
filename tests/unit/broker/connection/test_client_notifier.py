"""Who is sent channel.flow, and what a hold is called."""

import pytest

from penstock.base.errors import OperatorError
from penstock.broker.connection.client_notifier import (
    Hold,
    NotifierRules,
    hold_reason,
    wants_channel_flow,
)
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.peer import MS, Bed

JAVA: Table = {"product": "RabbitMQ", "platform": "Java", "version": "5.21.0"}
OURS = frozenset(("penstock.channel_flow",))
NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("mode", "capabilities", "properties", "wants"),
    [
        ("off", OURS, JAVA, False),
        ("capability", OURS, {}, True),
        ("capability", frozenset(("channel.flow",)), {}, True),
        ("capability", frozenset(("basic.nack",)), JAVA, False),
        ("known", NONE, JAVA, True),
        ("known", OURS, {}, True),
        ("known", NONE, JAVA | {"platform": ".NET", "version": "7.1.2"}, True),
        ("known", NONE, JAVA | {"version": "0.0.0"}, True),
        ("known", NONE, JAVA | {"version": "2.8.7"}, False),
        ("known", NONE, JAVA | {"version": "newest"}, False),
        ("known", NONE, JAVA | {"version": "\u00b2.1"}, False),
        ("known", NONE, JAVA | {"version": "5" * 5000}, True),
        ("known", NONE, JAVA | {"platform": "Erlang/OTP"}, False),
        ("known", NONE, JAVA | {"product": "Pika Python Client Library"}, False),
        ("known", NONE, {"product": 5, "platform": "Java", "version": "5"}, False),
        ("known", NONE, {}, False),
    ],
)
def test_who_is_sent_channel_flow(
    mode: str, capabilities: frozenset[str], properties: Table, wants: bool
) -> None:
    assert wants_channel_flow(mode, capabilities, properties) is wants


def test_an_unknown_mode_is_the_operators_fault() -> None:
    with pytest.raises(OperatorError, match=r"channel_flow = 'on' .* off, capability, known"):
        NotifierRules("on", 0)


@pytest.mark.parametrize(
    ("peer", "reason", "text"),
    [
        ("queue:/orders", "credit", "credit of queue /orders"),
        ("queue:/orders", "depth", "room in queue /orders"),
        ("conn:a", "debt", "work outstanding in account a"),
        ("rate:guest", "rate", "the rate limit of guest"),
    ],
)
def test_a_hold_names_who_and_why(peer: str, reason: str, text: str) -> None:
    told = hold_reason(Hold(peer, reason, 0), "web-7", 2_100_000_000)
    assert told.startswith(f"held for {text}")
    assert told.endswith("since 2.1 s; see penstock why connection web-7")


def test_a_long_name_fits_a_short_string() -> None:
    bed = Bed(queue_depth_bytes=100_000, notify_blocked_ms=1000)
    peer = bed.connect("c" * 200)
    name = "ö" * 120
    peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
    peer.publish(name, *([b"x" * 1000] * 1500))
    bed.clock.advance(2000 * MS)
    bed.broker.notify_clients(bed.clock.monotonic_ns())
    bed.run()
    reason = peer.one(m.ConnectionBlocked).reason
    assert 200 < len(reason.encode()) <= 255
    assert reason.startswith("held for room in queue /ööö")


def test_a_connection_that_ends_is_no_listener_any_more(bed: Bed) -> None:
    peer = bed.connect(capabilities=("channel.flow",))
    assert bed.broker.notifier_rules.is_watching()
    peer.hang_up()
    assert not bed.broker.notifier_rules.is_watching()


def test_a_channel_that_closes_or_is_opened_again_starts_afresh(bed: Bed) -> None:
    peer = bed.connect(channels=2, capabilities=("channel.flow",))
    bed.broker.set_alarm("memory", "full")
    bed.run()
    peer.heard()
    peer.call(1, m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
    peer.say(1, m.ChannelOpen())
    assert [one.method for one in peer.heard()] == [m.ChannelOpenOk(), m.ChannelFlow(False)]
    peer.call(2, m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
    bed.broker.notify_clients(bed.clock.monotonic_ns())
    bed.broker.clear_alarm("memory")
    bed.run()
    assert peer.heard() == [], "channel 1 has not answered, channel 2 is gone"
    peer.say(1, m.ChannelFlowOk(False))
    assert peer.one(m.ChannelFlow) == m.ChannelFlow(True)
