"""A channel that is closed while its connection lives on is freed without the collector."""

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.peer import Bed, Peer

WATCHED = (
    *("Channel", "Publisher", "Parking", "Inbox", "ChannelSink", "ChannelAnswering", "Gate"),
    *("Lane", "LaneOpened", "UnackedTable", "PropertyRules", "AnswerTimes"),
    *("Consumer", "TimeAccount", "BlockLedger"),
)
COUNT = 12


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> Counter[str]:
    """How many objects of WATCHED the collector knows."""
    found: Counter[str] = Counter()
    for one in gc.get_objects():
        kind = type(one)
        # Some classes of other packages have something else there.
        if str(kind.__module__).startswith("penstock.") and kind.__name__ in WATCHED:
            found[kind.__name__] += 1
    return found


def opened(peer: Peer) -> None:
    peer.call(2, m.ChannelOpen(), m.ChannelOpenOk)


def publishing(peer: Peer) -> None:
    opened(peer)
    peer.call(2, m.ConfirmSelect(), m.ConfirmSelectOk)
    peer.publish("q", b"x", b"y", channel=2)
    assert peer.confirmed()


def consuming(peer: Peer) -> None:
    opened(peer)
    peer.call(2, m.BasicQos(0, 2, False), m.BasicQosOk)
    peer.say(2, m.BasicConsume("q", "one"))
    peer.say(2, m.BasicConsume("q", "two"))
    peer.heard()


def held(peer: Peer) -> None:
    """Its publishes are parked for a queue that takes nothing."""
    opened(peer)
    peer.publish("deep", *(b"x" * 5_000 for _ in range(40)), channel=2)


def in_transaction(peer: Peer) -> None:
    opened(peer)
    peer.call(2, m.TxSelect(), m.TxSelectOk)
    peer.publish("q", b"x", channel=2)


@pytest.mark.parametrize("is_polite", [True, False], ids=["closed", "failed"])
@pytest.mark.parametrize("use", [opened, publishing, consuming, held, in_transaction])
def test_nothing_of_it_is_left(use: object, is_polite: bool) -> None:
    bed = Bed(queue_depth_bytes=10_000)
    peer = bed.connect()
    table: Table = {"x-max-length": 4}
    peer.call(1, m.QueueDeclare("q", arguments=table), m.QueueDeclareOk)
    peer.call(1, m.QueueDeclare("deep"), m.QueueDeclareOk)
    before: Counter[str] = Counter()
    for number in range(COUNT):
        if number == 2:
            # What is made once for a connection or a queue is there by now.
            before = alive()
        use(peer)  # type: ignore[operator]  # one of the functions above
        if is_polite:
            peer.call(2, m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
        else:
            peer.say(2, m.BasicAck(4711, False))
            assert [type(one.method) for one in peer.heard()] == [m.ChannelClose]
            peer.say(2, m.ChannelCloseOk())
        bed.run()
        peer.call(1, m.QueuePurge("deep"), m.QueuePurgeOk)
    left = alive()
    assert {name: left[name] - before[name] for name in WATCHED if left[name] > before[name]} == {}
    bed.settle()
