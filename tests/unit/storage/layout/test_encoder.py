"""Records: the checksum that follows from the one before is that of the bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.protocol.content import Address, Message, dead_letter, make_content
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.layout.checksum import (
    HAS_CRC32C,
    LOG_VERSION_CRC32,
    LOG_VERSION_CRC32C,
    VERSION_CRC32,
    VERSION_CRC32C,
)
from penstock.storage.layout.encoder import (
    GATHER_BYTES,
    MARK_HIGH,
    NUMBERS_BYTES,
    SUFFIX_BYTES_MOST,
    RecordEncoder,
    reach_of,
    spread,
)
from penstock.storage.layout.format import BODY_HEAD_BYTES, MARK
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.pieces import KEPT_BYTES, Pieces
from penstock.storage.layout.record import Record, is_whole
from penstock.storage.layout.segment import Segment
from penstock.storage.layout.stored import Stored
from penstock.storage.log.log import MessageLog

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
    encoder = RecordEncoder()
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
        pieces = Pieces(encoder.writer)
        encoder.add_body(pieces, segment, queue_id, position, message, flags, stored_ms)
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


def test_a_record_begins_with_the_mark() -> None:
    assert int.from_bytes(MARK, "big", signed=True) == MARK_HIGH >> 32


ROWS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(("plain", "plain", "plain", "other", "letter", "left", "shared", "flags")),
        st.sampled_from((0, 1, 40, 255, 256, 3000, KEPT_BYTES, 40_000)),
    ),
    min_size=1,
    max_size=60,
)


def made(rows: list[tuple[int, str, int]], index: QueueIndex) -> list[Message]:
    """Messages that the queue has joined, some of which are not like those before them."""
    messages: list[Message] = []
    names = Address("ex", "key")
    for _, kind, size in rows:
        header = b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + b"\x10\x00\x02"
        if kind == "flags":
            header = b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + b"\x18\x00\x02\x05"
        one = make_content(1, b"", header, bytes(size), 131_072)
        if kind == "letter":
            one = dead_letter(one.raw, one.body_bytes)
        one.address = Address("ex", "other") if kind == "other" else names
        stored = Stored()
        if kind == "shared":
            stored.join(7)
        stored.join(index.queue_id)
        if kind == "left":
            stored.leave(index.queue_id)
        one.stored = stored
        messages.append(one)
    return messages


@settings(max_examples=150, deadline=None)
@given(rows=ROWS, segment_bytes=st.sampled_from((900, 10_000, 1 << 20)))
def test_many_records_are_what_they_are_one_by_one(
    rows: list[tuple[int, str, int]], segment_bytes: int
) -> None:
    """The same bytes, tables, runs and places, whatever is between them."""
    ends = []
    for is_run in (False, True):
        disk = SimDisk()
        log = MessageLog(disk, Dice(1), segment_bytes)
        index = log.open_queue(1)
        messages = made(rows, index)
        at = 0
        for number, _ in enumerate(rows):
            if number < at:
                continue
            at = number + 1 + rows[number][0] * 4
            part = messages[number:at]
            if is_run:
                log.append_all(index, part, 1000 + number)
            else:
                for one in part:
                    log.append(index, one, 1000 + number)
            if rows[number][0] == 3:
                batch = log.take_batch(True)
                if batch is not None:
                    batch.run()
                    log.done(batch)
        size = log.open_size
        log.take_last_batch().run()
        ends.append(
            (
                disk.contents(),
                size,
                int(index.next_position),
                [(int(run.first), int(run.last), int(run.live)) for run in index.runs],
                [
                    (int(one.stored.position), int(one.stored.offset))
                    for one in messages
                    if isinstance(one.stored, Stored)
                ],
            )
        )
    assert ends[0] == ends[1]
