"""A ring of messages and a deque stay the same, whatever is done to both; lists of three messages
stand for long ones."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.content import Message
from penstock.queues import ring as ring_module
from penstock.queues.ring import MessageRing
from scripts.show_build import is_compiled

COUNTS = st.integers(0, 3) | st.integers(0, 20_000)
DEEDS = ("append", "extend", "take", "pop", "join", "clear", "look")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("append", "extend", "take", "pop", "join", "clear", "look")), COUNTS
    ),
    max_size=30,
)


class Twin:
    def __init__(self) -> None:
        self.ring = MessageRing()
        self.twin: deque[Message] = deque()
        self.made = 0

    def some(self, count: int) -> list[Message]:
        self.made += count
        return [Message(b"%d" % number, 0) for number in range(self.made - count, self.made)]

    def do(self, what: str, count: int) -> None:
        if what == "append":
            for message in self.some(count % 50):
                self.ring.append(message)
                self.twin.append(message)
        elif what == "extend":
            messages = self.some(count)
            self.ring.extend(list(messages))
            self.twin.extend(messages)
        elif what == "take":
            for _ in range(min(count, len(self.twin))):
                assert self.ring.first() is self.twin[0]
                assert self.ring.take() is self.twin.popleft()
        elif what == "pop":
            for _ in range(min(count, len(self.twin))):
                assert self.ring.newest() is self.twin[-1]
                assert self.ring.pop() is self.twin.pop()
        elif what == "join":
            other = MessageRing()
            messages = self.some(count)
            other.extend(list(messages))
            for _ in range(min(len(messages), count // 3)):
                other.take()
            self.ring.join(other)
            self.twin.extend(messages[min(len(messages), count // 3) :])
            assert len(other) == 0 and other.every() == []
        elif what == "clear":
            taken = [message for some in self.ring.clear() for message in some]
            assert taken == list(self.twin)
            self.twin.clear()
        else:
            step = 1 + count
            assert self.ring.every(step) == list(self.twin)[::step]


@given(steps=STEPS, block=st.sampled_from((3, 600, 8192)))
def test_ring_and_deque_agree(steps: list[tuple[str, int]], block: int) -> None:
    patch = pytest.MonkeyPatch()
    if not is_compiled(ring_module.__name__):
        # Compiled code has the number in it, and is tried with long rings only.
        patch.setattr(ring_module, "BLOCK", block)
    try:
        twins = Twin()
        for what, count in steps:
            twins.do(what, count)
            assert len(twins.ring) == len(twins.twin)
        assert twins.ring.every() == list(twins.twin)
        while twins.twin:
            assert twins.ring.take() is twins.twin.popleft()
        with pytest.raises(IndexError):
            twins.ring.take()
    finally:
        patch.undo()
