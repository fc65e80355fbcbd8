"""A full queue under backpressure: when it takes publishes again, and that it comes to rest."""

import pytest

from penstock.broker.actors.actor import Actor, Picker
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.peer import Bed, Peer, publish

TURNS_MAX = 50
"""Of all actors, for a handful of messages."""


def declared(peer: Peer, **limits: int) -> None:
    table: Table = {"x-overflow": "backpressure"}
    table.update({f"x-{name.replace('_', '-')}": limit for name, limit in limits.items()})
    peer.call(1, m.QueueDeclare("q", arguments=table), m.QueueDeclareOk)


class Patience(Picker):
    """In turn; a queue that wakes itself for ever fails instead."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0

    def pick(self, ready: list[Actor]) -> int:
        self.turns += 1
        assert self.turns < TURNS_MAX, "the broker does not come to rest"
        return 0


def get(bed: Bed, peer: Peer) -> bytes:
    """One message; fails if the broker does not come to rest after it."""
    bed.broker.scheduler.is_exploring = True
    bed.broker.scheduler.picker = Patience()
    peer.say(1, m.BasicGet("q", no_ack=True))
    return peer.heard()[0].body


@pytest.mark.parametrize("profile", ["penstock", "rabbitmq-4"])
def test_a_message_larger_than_what_was_freed_waits_until_it_fits(profile: str) -> None:
    """A quarter of the limit is free again, but not enough for the one that waits."""
    bed = Bed(profile=profile)
    publisher, taker = bed.connect("p"), bed.connect("t")
    declared(publisher, max_length_bytes=12)
    publisher.publish("q", b"1" * 6, b"2" * 6, b"3" * 7, b"4" * 6)
    queue = bed.broker.vhosts["/"].queues["q"]
    assert queue.messages.ready_count() == 2 and not queue.gate.is_open
    assert get(bed, taker) == b"1" * 6
    assert queue.messages.ready_count() == 1 and not queue.gate.is_open
    assert get(bed, taker) == b"2" * 6
    assert queue.messages.ready_count() == 1, "7 bytes are in, and 6 more are too many"
    assert get(bed, taker) == b"3" * 7
    assert get(bed, taker) == b"4" * 6
    assert queue.gate.is_open
    bed.settle()


def test_what_waited_of_a_connection_that_is_gone_holds_nobody_else() -> None:
    bed = Bed()
    large, small, taker = bed.connect("large"), bed.connect("small"), bed.connect("t")
    declared(large, max_length_bytes=12)
    large.publish("q", b"1" * 6, b"2" * 6, b"3" * 12)
    small.publish("q", b"4" * 2)
    large.hang_up()
    found = [get(bed, taker) for _ in range(4)]
    assert found == [b"1" * 6, b"2" * 6, b"3" * 12, b"4" * 2]
    bed.settle()


def test_what_once_did_not_fit_and_came_in_is_forgotten() -> None:
    """It stayed in its lane for a turn, because one before it was still there to die."""
    bed = Bed()
    publisher, taker = bed.connect("p"), bed.connect("t")
    declared(publisher, max_length=8, max_length_bytes=100)
    dies_at_once = (0x0100, b"\x010")
    publisher.send(publish(1, "", "q", b"x" * 60, dies_at_once), publish(1, "", "q", b"y" * 60))
    assert get(bed, taker) == b"y" * 60
    queue = bed.broker.vhosts["/"].queues["q"]
    bed.broker.scheduler.picker = Patience()
    publisher.publish("q", *[b"z" * 10] * 8)
    publisher.publish("q", b"z" * 10)
    assert queue.messages.ready_count() == 8 and not queue.gate.is_open
    get(bed, taker)
    assert queue.messages.ready_count() == 7, "not yet"
    get(bed, taker)
    assert queue.messages.ready_count() == 7, "a quarter was free, so the ninth came in"
    bed.settle()
