"""The messages of a queue. The laws are in property/test_queue_model."""

import pytest

from penstock.protocol.content import Message
from penstock.queues.line import MessageLine
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES


def message(raw: bytes) -> Message:
    return Message(raw, 0)


def test_first_in_first_out() -> None:
    queue = MessageLine()
    for raw in (b"a", b"b", b"c"):
        queue.add(message(raw))
    assert [queue.take().raw for _ in range(3)] == [b"a", b"b", b"c"]
    assert (queue.position, queue.redelivered) == (2, False)
    with pytest.raises(IndexError):
        queue.take()


def test_what_comes_back_is_first_and_in_its_order() -> None:
    queue = MessageLine()
    for raw in (b"a", b"b", b"c"):
        queue.add(message(raw))
    first, second = queue.take(), queue.take()
    queue.put_back(1, second)
    queue.put_back(0, first)
    taken = [(queue.take().raw, int(queue.position), queue.redelivered) for _ in range(3)]
    assert taken == [(b"a", 0, True), (b"b", 1, True), (b"c", 2, False)]


def test_purge_drops_what_is_ready_and_what_comes_back_later_stays() -> None:
    queue = MessageLine()
    for raw in (b"a", b"b", b"c"):
        queue.add(message(raw))
    first = queue.take()
    assert queue.purge() == 2 and queue.bytes_ready == 0
    queue.put_back(0, first)
    queue.add(message(b"d"))
    assert queue.bytes_ready == 2 + 2 * MESSAGE_OVERHEAD_BYTES
    assert [queue.take().raw, queue.take().raw] == [b"a", b"d"]
