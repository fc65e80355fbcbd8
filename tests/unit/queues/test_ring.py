"""The ring lets go of what was taken, and no step of it takes longer the longer it is. That it is a
FIFO: property/test_ring."""

import gc
from collections.abc import Callable
from typing import Final

import pytest
from mypy_extensions import i32

from penstock.base.cause import Cause
from penstock.protocol.content import (
    REFUSED,
    Address,
    Message,
    Resting,
    make_content,
    shared_of,
)
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, Purged
from penstock.queues.ring import (
    BLANK,
    BLOCK,
    PAYERS_MAX,
    MessageRing,
    PackedMessages,
    unpacked,
)

HEADER: Final = b"\0\x3c\0\0" + (6).to_bytes(8, "big")
"""Of a content header without properties, before their flags."""


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
        assert max(len(ring.items), *(len(unpacked(some)) for some in ring.later), 0) <= 2 * BLOCK
        ring.take()
    assert len(ring) == 0 and len(ring.items) <= BLOCK and not ring.later


def test_what_is_taken_as_it_comes_takes_no_room() -> None:
    ring = MessageRing()
    for number in range(3 * BLOCK):
        ring.append(message(number))
        assert ring.take().raw == b"%d" % number
        assert len(ring.items) <= 1024 and not ring.later


def framed(number: int, account: Cause, address: Address) -> Message:
    made = make_content(1, b"", HEADER + b"\0\0", b"%06d" % number, 131_072)
    message = Message(made.raw, made.body_bytes, address)
    message.origin = account
    return message


def rested(count: int, accounts: list[Cause]) -> tuple[MessageRing, list[Message]]:
    """A ring that nobody takes from, filled by publishers in turn, and what went into it."""
    ring = MessageRing()
    addresses = [Address("", account.name) for account in accounts]
    messages = []
    for number in range(count):
        which = number % len(accounts)
        messages.append(framed(number, accounts[which], addresses[which]))
    for at in range(0, count, 100):
        ring.extend(messages[at : at + 100])
    return ring, messages


def is_packed(ring: MessageRing) -> list[bool]:
    return [isinstance(run, PackedMessages) for run in ring.later]


def said(message: Message) -> tuple[bytes, int, Address, Cause]:
    return (message.raw, int(message.body_bytes), message.address, message.origin)


def test_what_rests_in_the_middle_of_a_long_ring_has_no_objects() -> None:
    ring, messages = rested(6 * BLOCK, [Cause("one"), Cause("two"), Cause("three")])
    packed = is_packed(ring)
    assert len(packed) >= 4 and all(packed[:-1]) and not packed[-1]
    assert [said(one) for one in ring.every(7)] == [said(one) for one in messages[::7]]
    assert ring.pop() is messages[-1]
    for message in messages[:-1]:
        assert said(ring.take()) == said(message)
    assert len(ring) == 0


def test_the_collector_looks_at_no_list_of_a_long_ring() -> None:
    """It would visit every message in it: of ten million a quarter of a second in one go."""
    ring, _ = rested(6 * BLOCK, [Cause("one")])
    for number in range(3 * BLOCK):
        ring.append(message(number))
    assert any(is_packed(ring)) and not all(is_packed(ring))
    for some in ring.later:
        assert not gc.is_tracked(some.raws if isinstance(some, PackedMessages) else some)


def test_a_packed_ring_can_be_emptied_from_its_end() -> None:
    ring, messages = rested(4 * BLOCK, [Cause("one")])
    for message in reversed(messages):
        assert said(ring.newest()) == said(message)
        assert said(ring.pop()) == said(message)
    assert len(ring) == 0 and not ring.later


def test_two_packed_rings_become_one() -> None:
    ring, messages = rested(4 * BLOCK, [Cause("one")])
    other, others = rested(4 * BLOCK, [Cause("two")])
    assert ring.take() is messages[0] and other.take() is others[0]
    ring.join(other)
    ring.extend(others[:1])
    wanted = [said(one) for one in (*messages[1:], *others[1:], others[0])]
    assert len(ring) == len(wanted) and len(other) == 0
    assert [said(one) for one in ring.every()] == wanted
    gone = [said(one) for run in ring.clear() for one in unpacked(run)]
    assert gone == wanted


def test_what_is_emptied_meanwhile_is_not_packed() -> None:
    """Or each message would be made twice on its way through."""
    account, address = Cause("one"), Address("", "one")
    ring = MessageRing()
    for _ in range(60):
        ring.extend([framed(number, account, address) for number in range(100)])
        for _ in range(50):
            ring.take()
    assert ring.later and not any(is_packed(ring))


def with_place(message: Message) -> None:
    message.stored = Resting()


def with_answer(message: Message) -> None:
    message.sequence = i32(REFUSED)


@pytest.mark.parametrize("change", [with_place, with_answer])
def test_a_message_that_is_more_than_its_frames_is_not_packed(
    change: Callable[[Message], None],
) -> None:
    ring = MessageRing()
    account, address = Cause("one"), Address("", "one")
    for _ in range(3 * BLOCK):
        message = framed(1, account, address)
        change(message)
        ring.extend([message])
    assert len(ring.later) == 2 and not any(is_packed(ring))


def test_a_shared_message_and_those_of_very_many_publishers_are_not_packed() -> None:
    ring = MessageRing()
    for number in range(3 * BLOCK):
        ring.extend([shared_of(framed(number, Cause("one"), Address("", "one")))])
    assert len(ring.later) == 2 and not any(is_packed(ring))
    ring, _ = rested(3 * BLOCK, [Cause(str(number)) for number in range(PAYERS_MAX + 1)])
    assert len(ring.later) >= 2 and not any(is_packed(ring))


def test_what_is_put_in_now_is_not_packed_yet() -> None:
    """Its queue's durability is told of it after that, and gives it a place."""
    ring = MessageRing()
    account, address = Cause("one"), Address("", "one")
    ring.extend([framed(number, account, address) for number in range(5 * BLOCK)])
    assert not any(is_packed(ring))


def test_a_purge_unpacks_as_it_goes() -> None:
    ring, messages = rested(4 * BLOCK, [Cause("one")])
    size = sum(len(one.raw) + MESSAGE_OVERHEAD_BYTES for one in messages)
    messages[0].origin.store(len(messages), size)
    purged = Purged(len(messages), size)
    purged.messages = ring.clear()
    found = 0
    while some := purged.forget(100):
        found += len(some)
        assert sum(isinstance(run, PackedMessages) for run in purged.messages) <= 3
    assert found == len(messages) and purged.bytes == 0
