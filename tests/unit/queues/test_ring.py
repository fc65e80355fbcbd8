"""The ring lets go of what was taken. Its order and bound: property/test_queue_model."""

from penstock.protocol.content import Message
from penstock.queues.ring import BLANK, MessageRing


def test_a_taken_place_keeps_no_message_alive() -> None:
    ring = MessageRing()
    for number in (1, 2):
        ring.append(Message(b"%d" % number, 0))
    ring.take()
    assert ring.items[0] is BLANK
