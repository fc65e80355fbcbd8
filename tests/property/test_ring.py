"""A ring of messages and a deque stay the same, whatever is done to both; lists of three messages
stand for long ones. Messages that can be packed come out as good as they went in."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.cause import Cause
from penstock.protocol.content import Address, Message, make_content
from penstock.queues import ring as ring_module
from penstock.queues.ring import MessageRing, unpacked
from scripts.show_build import is_compiled

COUNTS = st.integers(0, 3) | st.integers(0, 20_000)
DEEDS = ("append", "extend", "take", "take_run", "pop", "join", "clear", "look")
STEPS = st.lists(
    st.tuples(st.sampled_from(DEEDS), COUNTS),
    max_size=30,
)


PUBLISHERS = [(Address("", name), Cause(name)) for name in ("one", "two", "three")]


def framed(number: int) -> Message:
    body = b"%d" % number
    header = b"\0\x3c\0\0" + len(body).to_bytes(8, "big") + b"\0\0"
    raw = make_content(1, b"", header, body, 131_072).raw
    address, origin = PUBLISHERS[number // 7 % len(PUBLISHERS)]
    message = Message(raw, len(body), address)
    message.origin = origin
    return message


def said(message: Message) -> tuple[bytes, int, Address, Cause]:
    return (message.raw, int(message.body_bytes), message.address, message.origin)


class Twin:
    def __init__(self, is_framed: bool) -> None:
        self.is_framed = is_framed
        self.ring = MessageRing()
        self.twin: deque[Message] = deque()
        self.made = 0

    def some(self, count: int) -> list[Message]:
        self.made += count
        numbers = range(self.made - count, self.made)
        if self.is_framed:
            return [framed(number) for number in numbers]
        return [Message(b"%d" % number, 0) for number in numbers]

    def check(self, found: list[Message], wanted: list[Message]) -> None:
        """The same ones, unless they may have been packed meanwhile."""
        if self.is_framed:
            assert [said(one) for one in found] == [said(one) for one in wanted]
        else:
            assert found == wanted

    def do(self, what: str, count: int) -> None:
        if self.is_framed:
            # They are made and compared at length.
            count = min(count, 100)
        if what == "append":
            for message in self.some(count % 50):
                self.ring.append(message)
                self.twin.append(message)
        elif what == "extend":
            messages = self.some(count)
            self.ring.extend(list(messages))
            self.twin.extend(messages)
        elif what == "take":
            some = range(min(count, len(self.twin)))
            found = [one for _ in some for one in (self.ring.first(), self.ring.take())]
            self.check(found[::2], found[1::2])
            self.check(found[::2], [self.twin.popleft() for _ in some])
        elif what == "take_run":
            oldest = self.ring.next_run(count)
            assert len(oldest) <= count and bool(oldest) == bool(count and self.twin)
            self.check(oldest, list(self.twin)[: len(oldest)])
            # Not all that was looked at has to be taken.
            gone = len(oldest) - len(oldest) // 4
            if gone:
                self.ring.drop_run(gone)
            for _ in range(gone):
                self.twin.popleft()
        elif what == "pop":
            some = range(min(count, len(self.twin)))
            found = [one for _ in some for one in (self.ring.newest(), self.ring.pop())]
            self.check(found[::2], found[1::2])
            self.check(found[::2], [self.twin.pop() for _ in some])
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
            taken = [message for some in self.ring.clear() for message in unpacked(some)]
            self.check(taken, list(self.twin))
            self.twin.clear()
        else:
            step = 1 + count
            self.check(self.ring.every(step), list(self.twin)[::step])


@given(steps=STEPS, block=st.sampled_from((3, 600, 1024)), is_framed=st.booleans())
def test_ring_and_deque_agree(steps: list[tuple[str, int]], block: int, is_framed: bool) -> None:
    patch = pytest.MonkeyPatch()
    if not is_compiled(ring_module.__name__):
        # Compiled code has the number in it, and is tried with long rings only.
        patch.setattr(ring_module, "BLOCK", block)
    try:
        twins = Twin(is_framed)
        for what, count in steps:
            twins.do(what, count)
            assert len(twins.ring) == len(twins.twin)
        twins.check(twins.ring.every(), list(twins.twin))
        while twins.twin:
            twins.do("take", 20_000)
        with pytest.raises(IndexError):
            twins.ring.take()
    finally:
        patch.undo()
