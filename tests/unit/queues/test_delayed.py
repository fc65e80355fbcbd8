"""Messages that wait for their time: their order, their counts, and what they are released as."""

import random

import pytest

from penstock.protocol.content import Address, Message, dead_letter, is_dead_letter, make_content
from penstock.protocol.integers import LongInteger
from penstock.protocol.property_lookup import PROPERTIES_OFFSET, headers_table_span
from penstock.protocol.values import Table, Value, decode_table, encode_table, find_field
from penstock.queues.delayed import DelayedMessages, delay_of, release
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, NO_BOUND, DropSink
from penstock.queues.rules import NEVER, QueueRules

MS = 1_000_000


class Sink(DropSink):
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.left = NO_BOUND

    def dropped(self, message: Message, reason: int) -> None:
        self.bodies.append(message.body())
        self.left -= 1

    def room(self, reason: int) -> int:
        return self.left


def message(body: bytes, table: Table | None) -> Message:
    flags = b"\x00\x00" if table is None else b"\x20\x00" + encode_table(table)
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + flags
    made = make_content(1, b"", header, body, 4096)
    made.address = Address("x", "k")
    return made


def table_of(one: Message) -> Table:
    header = one.header()
    span = headers_table_span(header, PROPERTIES_OFFSET)
    assert span is not None
    return decode_table(header, span[0], span[1])[0]


def held() -> tuple[DelayedMessages, Sink]:
    sink = Sink()
    return DelayedMessages(QueueRules(), sink), sink


def test_by_time_then_by_arrival() -> None:
    messages, sink = held()
    dice = random.Random(7)
    due = []
    for number in range(300):
        messages.now_ns += dice.randrange(3) * MS
        delay = dice.randrange(1, 40)
        messages.add(message(b"%03d" % number, {"x-delay": delay}))
        due.append((int(messages.now_ns) + delay * MS, b"%03d" % number))
    due.sort()
    assert messages.next_expiry_ns() == due[0][0]
    for at_ns in range(0, int(messages.now_ns) + 50 * MS, 7 * MS):
        messages.expire(at_ns, 1000)
        assert sink.bodies == [body for due_ns, body in due if due_ns <= at_ns]
    assert messages.ready_count() == 0 and messages.next_expiry_ns() == NEVER
    assert (messages.bytes_ready, messages.body_bytes_ready) == (0, 0)


def test_no_more_than_the_budget_and_the_sink_take() -> None:
    messages, sink = held()
    for _ in range(10):
        messages.add(message(b"m", {"x-delay": 1}))
    assert messages.expire(MS, 4) == 4
    sink.left = 3
    assert messages.expire(MS, 100) == 3
    assert messages.expire(MS, 100) == 0 and messages.ready_count() == 3


def test_bytes_and_counts() -> None:
    messages, _ = held()
    one = message(b"12345", {"x-delay": 1})
    messages.add(one)
    assert messages.bytes_ready == len(one.raw) + MESSAGE_OVERHEAD_BYTES
    assert (messages.body_bytes_ready, messages.publish_count) == (5, 1)
    assert messages.ready_messages() == [one]
    assert not messages.find_live(10 * MS, 10)
    purged = messages.purge()
    assert purged.count == 1 and purged.forget(5) == [one] and purged.forget(5) == []
    assert (messages.ready_count(), messages.bytes_ready, messages.body_bytes_ready) == (0, 0, 0)


def test_what_a_message_asks_for() -> None:
    assert delay_of(message(b"", None)) == 0
    assert delay_of(message(b"", {"other": 5})) == 0
    assert delay_of(message(b"", {"x-delay": 5})) == 5


@pytest.mark.parametrize(
    ("delay", "after", "octet"),
    [
        (5, -5, b"I"),
        (LongInteger(5), -5, b"l"),
        (1 << 40, -(1 << 40), b"l"),
        ("5", -5, b"I"),
        (5.5, -5, b"I"),
    ],
)
def test_a_released_message_says_that_it_was_delayed(
    delay: Value, after: int, octet: bytes
) -> None:
    found = release(message(b"body", {"a": 1, "x-delay": delay, "z": [1, 2]}))
    table = table_of(found.message)
    assert table == {"a": 1, "x-delay": after, "z": [1, 2]}
    header = found.message.header()
    span = headers_table_span(header, PROPERTIES_OFFSET)
    assert span is not None
    place = find_field(header, span[0], span[1], "x-delay")
    assert place is not None and header[place[0] : place[0] + 1] == octet
    assert (found.keys, found.deaths) == (["k"], {})
    assert found.message.body() == b"body"
    assert found.message.address.exchange == "x"


def test_copies_are_keys_and_blind_ones_go() -> None:
    found = release(message(b"", {"x-delay": 5, "CC": ["a", 1], "BCC": ["b"]}))
    assert found.keys == ["k", "a", "b"]
    assert table_of(found.message) == {"CC": ["a", 1], "x-delay": -5}


def test_a_dead_letter_stays_one() -> None:
    plain = message(b"", {"x-delay": 5})
    dead = dead_letter(plain.raw, 0)
    dead.address = plain.address
    assert is_dead_letter(release(dead).message)
    assert not is_dead_letter(release(plain).message)


def test_without_headers_it_is_released_as_it_is() -> None:
    found = release(message(b"m", None))
    assert found.keys == ["k"] and table_of(found.message) == {}


def test_what_comes_back_from_the_disk_is_due_when_it_would_have_been() -> None:
    """Overdue ones too: in the order of their times, also of those before the machine's start."""
    messages, sink = held()
    messages.now_ns = 1000 * MS
    for body, delay, age in ((b"d", 700, 600), (b"b", 10, 5000), (b"a", 10, 6000), (b"c", 1, 1)):
        messages.restore(message(body, {"x-delay": delay}), True, age * MS)
    assert messages.ready_count() == 4 and messages.next_expiry_ns() == 1
    assert messages.bytes_ready == sum(
        len(one.raw) + MESSAGE_OVERHEAD_BYTES for one in messages.ready_messages()
    )
    assert messages.expire(messages.now_ns, 9) == 3 and sink.bodies == [b"a", b"b", b"c"]
    assert messages.next_expiry_ns() == 1100 * MS
