"""A connection that has ended is freed without the collector, however it ends."""

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from penstock.protocol import methods as m
from tests.unit.broker.peer import Bed, Peer

COUNT = 8


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> Counter[str]:
    """How many objects of the broker's classes the collector knows."""
    found: Counter[str] = Counter()
    for one in gc.get_objects():
        kind = type(one)
        if str(kind.__module__).startswith(("penstock.broker.", "penstock.flow.")):
            found[kind.__name__] += 1
    return found


def closed(peer: Peer) -> None:
    peer.say(0, m.ConnectionClose(200, "", 0, 0))
    assert type(peer.heard()[-1].method) is m.ConnectionCloseOk


def failed(peer: Peer) -> None:
    peer.say(7, m.BasicAck(1, False))
    assert type(peer.heard()[-1].method) is m.ConnectionClose
    peer.say(0, m.ConnectionCloseOk())


def lost(peer: Peer) -> None:
    """Nothing is said: the socket is gone."""


def used(peer: Peer) -> None:
    peer.call(2, m.ChannelOpen(), m.ChannelOpenOk)
    peer.call(2, m.ConfirmSelect(), m.ConfirmSelectOk)
    peer.publish("q", b"x", b"y", channel=2)
    peer.publish("deep", *(b"x" * 5_000 for _ in range(40)), channel=2)
    peer.say(1, m.BasicQos(0, 2, False))
    peer.say(1, m.BasicConsume("q", "one"))
    peer.say(1, m.QueueDeclare("", exclusive=True))
    peer.heard()


@pytest.mark.parametrize("end", [closed, failed, lost])
@pytest.mark.parametrize("is_used", [False, True], ids=["idle", "used"])
def test_nothing_of_it_is_left(end: object, is_used: bool) -> None:
    bed = Bed(queue_depth_bytes=10_000)
    first = bed.connect("first")
    first.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    first.call(1, m.QueueDeclare("deep"), m.QueueDeclareOk)
    before: Counter[str] = Counter()
    for number in range(COUNT):
        if number == 2:
            # What is made once for a queue or a user is there by now.
            before = alive()
        peer = bed.connect(f"peer {number}")
        if is_used:
            used(peer)
        end(peer)  # type: ignore[operator]  # one of the functions above
        peer.hang_up()
        bed.run()
        del peer
        for queue in ("q", *("deep" for _ in range(40))):
            # What is parked for it comes after what it had.
            first.call(1, m.QueuePurge(queue), m.QueuePurgeOk)
            bed.run()
    left = alive()
    assert {name: left[name] - before[name] for name in left if left[name] > before[name]} == {}
    bed.settle()
