"""The queue against naive twins: order, positions, redelivered, counts (F47)."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.protocol.content import Message
from penstock.queues.line import MessageLine
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.ring import BLOCK, unpacked


def message(number: int) -> Message:
    return Message(b"%d" % number, 0)


class QueueTwin(RuleBasedStateMachine):
    """The twin is a list of (position, number, redelivered), kept sorted."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = MessageLine()
        self.ready: list[tuple[int, int, bool]] = []
        self.out: list[tuple[int, int]] = []
        self.published = 0

    @rule(count=st.integers(1, 700))
    def publish(self, count: int) -> None:
        for _ in range(count):
            self.queue.add(message(self.published))
            self.ready.append((self.published, self.published, False))
            self.published += 1

    @precondition(lambda self: self.ready)
    @rule(count=st.integers(1, 700))
    def take(self, count: int) -> None:
        for _ in range(min(count, len(self.ready))):
            position, number, redelivered = self.ready.pop(0)
            taken = self.queue.take()
            assert taken.raw == b"%d" % number
            assert self.queue.position == position
            assert self.queue.redelivered == redelivered
            self.out.append((position, number))

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, min(10, len(self.out))))
        for _ in range(count):
            index = data.draw(st.integers(0, len(self.out) - 1))
            position, number = self.out.pop(index)
            self.queue.put_back(position, message(number))
            self.ready.append((position, number, True))
        self.ready.sort()

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        self.out.pop(data.draw(st.integers(0, len(self.out) - 1)))

    @precondition(lambda self: not self.ready)
    @rule()
    def take_of_nothing(self) -> None:
        with pytest.raises(IndexError):
            self.queue.take()

    @rule()
    def purge(self) -> None:
        purged = self.queue.purge()
        assert purged.count == len(self.ready)
        while purged.bytes and purged.forget(2):
            assert self.queue.ready_count() == 0
        self.ready.clear()

    @invariant()
    def counts_agree(self) -> None:
        assert self.queue.ready_count() == len(self.ready)
        sizes = sum(len(b"%d" % number) for _, number, _ in self.ready)
        assert self.queue.bytes_ready == sizes + MESSAGE_OVERHEAD_BYTES * len(self.ready)
        assert self.queue.publish_count == self.published

    @invariant()
    def the_ring_is_bounded(self) -> None:
        ring = self.queue.ring
        assert len(ring.items) <= 2 * BLOCK
        assert len(ring.items) <= 2 * len(ring) + 1024 or ring.later
        assert len(ring) == len(ring.items) - ring.head + sum(
            len(unpacked(run)) for run in ring.later
        )


TestQueueTwin = QueueTwin.TestCase
TestQueueTwin.settings = settings(max_examples=60, stateful_step_count=40)
