"""The ring lets go of what was taken, and no step of it takes longer the longer it is. That it is a
FIFO: property/test_ring."""

from penstock.protocol.content import Message
from penstock.queues.ring import BLANK, BLOCK, MessageRing


def message(number: int) -> Message:
    return Message(b"%d" % number, 0)


def test_a_taken_place_keeps_no_message_alive() -> None:
    ring = MessageRing()
    for number in (1, 2):
        ring.append(message(number))
    ring.take()
    assert ring.items[0] is BLANK


def test_no_list_of_a_long_ring_is_long() -> None:
    """To cut off the front of a list moves all the rest of it, in one go."""
    ring = MessageRing()
    one = message(1)
    ring.extend([one] * (3 * BLOCK))
    for _ in range(3 * BLOCK):
        ring.append(one)
        ring.extend([one, one])
    for _ in range(len(ring)):
        assert max(len(ring.items), *(len(some) for some in ring.later), 0) <= 2 * BLOCK
        ring.take()
    assert len(ring) == 0 and len(ring.items) <= BLOCK and not ring.later


def test_what_is_taken_as_it_comes_takes_no_room() -> None:
    ring = MessageRing()
    for number in range(3 * BLOCK):
        ring.append(message(number))
        assert ring.take().raw == b"%d" % number
        assert len(ring.items) <= 1024 and not ring.later
