"""What a connection needs only for what it does is made when it does it: thousands do nothing."""

import gc
from collections import Counter

from tests.unit.broker.peer import Bed

COUNT = 8
NEEDED = {
    *("Account", "AnswerTimes", "Channel", "ChannelAnswering", "ChannelSink", "ChannelVerbs"),
    *("ClientNotifier", "Connection", "ConnectionAnswering", "FrameParser", "Gate", "Heartbeat"),
    *("Inbox", "Lane", "Negotiator", "Parking", "ParkingLot", "PropertyRules", "Publisher"),
    *("ReadingStop", "Session", "TimeAccount", "UnackedTable", "Unfinished"),
}

PEERS = {"Peer", "PeerOutput", "PeerShell", "Received"}
"""The other side."""


def alive() -> Counter[str]:
    """How many objects of the broker's classes the collector knows."""
    found: Counter[str] = Counter()
    for one in gc.get_objects():
        kind = type(one)
        if str(kind.__module__).startswith("penstock."):
            found[kind.__name__] += 1
    return found


def test_an_idle_connection_has_nothing_that_it_does_not_need() -> None:
    bed = Bed()
    peers = [bed.connect("first")]
    gc.collect()
    before = alive()
    peers += [bed.connect(f"peer-{number}") for number in range(COUNT)]
    gc.collect()
    found = {name for name, count in (alive() - before).items() if count >= COUNT}
    assert found - {"Event", "AnswerEntry"} <= NEEDED | PEERS
    assert len(peers) == COUNT + 1
