"""The header of a quorum queue that counts: where it goes, what stays, what it must not break."""

import pytest

from penstock.protocol.content import Address, Message, make_content
from penstock.protocol.property_lookup import PROPERTIES_OFFSET, headers_table_span
from penstock.protocol.values import Table, decode_table, encode_table
from penstock.queues.delivery_count import with_delivery_count


def message(flags: int, values: bytes, body: bytes = b"body") -> Message:
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + flags.to_bytes(2, "big") + values
    made = make_content(3, b"", header, body, 4096)
    made.address = Address("x", "k")
    return made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": 1}, {"a": 1, "x-delivery-count": 7}),
        ({"x-delivery-count": "mine", "z": True}, {"z": True, "x-delivery-count": 7}),
        ({}, {"x-delivery-count": 7}),
    ],
)
def test_it_takes_the_place_of_the_publishers_own(before: Table, after: Table) -> None:
    first = message(0x3000, encode_table(before) + b"\x02")
    shown = with_delivery_count(first, 7)
    header = shown.header()
    span = headers_table_span(header, PROPERTIES_OFFSET)
    assert span is not None and decode_table(header, span[0], span[1])[0] == after
    assert b"\x10x-delivery-countl" in header, "64 bits, as RabbitMQ writes it"
    assert header[-1:] == b"\x02" and shown.body() == b"body", "everything else stays"
    assert (shown.channel, shown.address) == (3, first.address)
    assert first.raw == message(0x3000, encode_table(before) + b"\x02").raw


def test_a_message_without_properties_gets_headers() -> None:
    shown = with_delivery_count(message(0, b""), 0)
    assert shown.header()[12:14] == b"\x20\x00"
    assert shown.raw.endswith(b"\xce") and shown.body() == b"body"


def test_headers_that_are_not_sound_are_left_alone() -> None:
    broken = message(0x2000, b"\x00\x00\x00\x03\xffab")
    assert with_delivery_count(broken, 1) is broken
