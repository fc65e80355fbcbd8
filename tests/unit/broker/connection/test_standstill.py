"""A connection that is stopped for a debt that only its own unread answers make smaller."""

import pytest

from penstock.broker.connection.standstill import break_standstill
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.peer import MS, Bed, Heard, Peer

FULL: Table = {"x-max-length": 4, "x-overflow": "backpressure"}
PERIODS = 400


def tags(heard: list[Heard]) -> list[int]:
    """Of the deliveries."""
    return [one.method.delivery_tag for one in heard if isinstance(one.method, m.BasicDeliver)]


def standing(bed: Bed) -> Peer:
    """40 publishes to a queue of 4, and its only consumer with two of them, on one connection."""
    peer = bed.connect(channels=2)
    peer.say(2, m.QueueDeclare("full", arguments=FULL), m.BasicQos(0, 2), m.BasicConsume("full"))
    peer.publish("full", *[b"x"] * 40)
    assert not peer.connection.can_receive()
    return peer


def answered(bed: Bed, peer: Peer) -> int:
    """Acknowledge what comes, and let time pass; how many came."""
    count = 0
    for _ in range(PERIODS):
        for tag in tags(peer.heard()):
            count += 1
            peer.say(2, m.BasicAck(tag))
        bed.later(100 * MS)
        break_standstill(peer.connection, bed.clock.monotonic_ns())
        peer.read_on()
    return count


@pytest.mark.parametrize(
    "limits",
    [
        {"account_connection_high_messages": "12/6"},
        {"account_user_high_messages": "12/6"},
        {"account_vhost_high": "1KB/500"},
        {"account_connection_high_messages": "12/6", "account_node_high_messages": "9"},
        {"profile": "syndicate", "account_connection_high_messages": "12/6"},
    ],
)
def test_acks_behind_a_debt_that_waits_for_them_are_read(limits: dict[str, object]) -> None:
    bed = Bed(1 << 30, **limits)
    peer = standing(bed)
    assert answered(bed, peer) == 40
    assert peer.connection.gate.is_open
    bed.settle()


def test_meanwhile_one_publish_a_period_comes_in() -> None:
    bed = Bed(account_connection_high_messages="12/6")
    peer = standing(bed)
    peer.publish("full", *[b"x"] * 100)
    before = peer.connection.receive_count
    for _ in range(10):
        bed.later(100 * MS)
        break_standstill(peer.connection, bed.clock.monotonic_ns())
        peer.read_on()
        assert not peer.connection.gate.is_open
    assert peer.connection.receive_count <= before + 10
    assert sum(int(one.escapes) for one in peer.connection.channels.values()) > 0
