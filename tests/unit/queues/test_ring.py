"""The ring: a list with a moving head that lets go of what was taken."""

import pytest

from penstock.protocol.content import Message
from penstock.queues.ring import BLANK, MessageRing


def message(number: int) -> Message:
    return Message(b"%d" % number, 0)


def test_order_across_many_cuts() -> None:
    ring = MessageRing()
    given = taken = 0
    for _ in range(20):
        for _ in range(300):
            ring.append(message(given))
            given += 1
        for _ in range(250):
            assert ring.take().raw == b"%d" % taken
            taken += 1
        assert len(ring) == given - taken
        assert len(ring.items) <= 2 * len(ring) + 1024


def test_a_taken_place_keeps_no_message_alive() -> None:
    ring = MessageRing()
    ring.append(message(1))
    ring.append(message(2))
    ring.take()
    assert ring.items[0] is BLANK


def test_clear_gives_the_rest() -> None:
    ring = MessageRing()
    for number in range(3):
        ring.append(message(number))
    ring.take()
    assert [one.raw for one in ring.clear()] == [b"1", b"2"]
    assert len(ring) == 0
    with pytest.raises(IndexError):
        ring.take()
