"""Heads: the checksum that follows from the one before is that of the bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocol.content import Address, make_content
from penstock.storage.layout.checksum import (
    HAS_CRC32C,
    LOG_VERSION_CRC32,
    LOG_VERSION_CRC32C,
    VERSION_CRC32,
    VERSION_CRC32C,
)
from penstock.storage.layout.format import BODY_HEAD_BYTES
from penstock.storage.layout.head import NUMBERS_BYTES, SUFFIX_BYTES_MOST, reach_of, spread
from penstock.storage.layout.pieces import Pieces
from penstock.storage.layout.record import GATHER_BYTES, Record, RecordTools, add_body, is_whole
from penstock.storage.layout.segment import Segment

VERSIONS = (
    (VERSION_CRC32, VERSION_CRC32C, LOG_VERSION_CRC32, LOG_VERSION_CRC32C)
    if HAS_CRC32C
    else (VERSION_CRC32, LOG_VERSION_CRC32)
)
ADDRESSES = (Address("", ""), Address("ex", "key"), Address("e" * 255, "k" * 255))
HEADER = b"\0\x3c\0\0" + bytes(8) + b"\0\0"

RECORDS = st.tuples(
    st.integers(0, 2),
    st.integers(1, 1 << 62),
    st.integers(1, (1 << 63) - 1),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(0, (1 << 31) - 1),
    st.integers(1, 31),
    st.sampled_from((0, 1, 30, 255, 256, GATHER_BYTES, 70_000)),
    st.booleans(),
)


@settings(max_examples=200)
@given(version=st.sampled_from(VERSIONS), rows=st.lists(RECORDS, min_size=2, max_size=8))
def test_every_record_is_whole_whatever_came_before_it(
    version: int, rows: list[tuple[int, int, int, int, int, int, int, bool]]
) -> None:
    tools = RecordTools()
    segment = Segment(1, b"identity", version)
    number = 1
    for address, queue_id, position, stored_ms, synced_to, flags, body_bytes, is_next in rows:
        if is_next:
            number += 1
            segment = Segment(number, b"another%d" % (number % 10), version)
        segment.synced_to = synced_to
        segment.end = synced_to
        message = make_content(1, b"", HEADER, b"b" * body_bytes, 8192)
        message.address = ADDRESSES[address]
        pieces = Pieces(tools.writer)
        add_body(pieces, tools, segment, queue_id, position, message, flags, stored_ms)
        pieces.finish()
        data = b"".join(pieces.parts)
        assert is_whole(segment, data, 0, synced_to)
        record = Record(data, 0, synced_to)
        assert (record.queue_id, record.position) == (queue_id, position)
        assert (record.stored_ms, record.synced_to) == (stored_ms, synced_to)
        assert (record.flags, record.body_bytes) == (flags, body_bytes)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_table_has_a_place_for_every_bit(version: int) -> None:
    """Of the first number before the longest names."""
    reach = reach_of(version)
    behind = SUFFIX_BYTES_MOST + NUMBERS_BYTES - 4
    extend = Segment(1, b"", version).extend
    for bit in range(32):
        changed = (1 << bit).to_bytes(4, "big") + bytes(behind)
        wanted = extend(0, changed) ^ extend(0, bytes(len(changed)))
        assert spread(reach, 1 << bit, behind) == wanted


def test_the_longest_names_are_as_long_as_that() -> None:
    assert len(ADDRESSES[2].suffix) == SUFFIX_BYTES_MOST
    assert BODY_HEAD_BYTES - 8 == NUMBERS_BYTES
