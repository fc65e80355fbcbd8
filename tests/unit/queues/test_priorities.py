"""A queue with rules, in memory: what it keeps of messages that have left."""

import sys

from penstock.protocol.content import make_content
from penstock.queues.priorities import PriorityQueue
from penstock.queues.queue import DropSink
from penstock.queues.rules import QueueRules

HEADER = b"\x00\x3c\x00\x00" + (1).to_bytes(8, "big") + b"\x00\x00"


def test_a_message_that_has_left_is_not_kept_by_its_place() -> None:
    queue = PriorityQueue(QueueRules(), DropSink())
    for _ in range(100):
        queue.add(make_content(1, b"", HEADER, b"x", 4096))
    alone = make_content(1, b"", HEADER, b"x", 4096)
    # Fewer than are worth cutting off.
    for _ in range(40):
        message = queue.take()
        queue.settled(queue.position)
        assert sys.getrefcount(message) == sys.getrefcount(alone), "nobody else has it"
    assert queue.ready_count() == 60
