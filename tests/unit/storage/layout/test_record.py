"""Records: any changed bit, another place, another segment is noticed."""

import pytest

from penstock.base.wire import BytesWriter
from penstock.protocol.content import dead_letter, is_dead_letter
from penstock.storage.layout.encoder import GATHER_BYTES, RecordEncoder
from penstock.storage.layout.format import CHECKED_AT
from penstock.storage.layout.pieces import Pieces
from penstock.storage.layout.record import Record, is_whole, message_of
from penstock.storage.layout.scan import scan
from penstock.storage.layout.segment import Segment
from tests.crash.life import message

IDENTITY = b"\x01\x02\x03\x04\x05\x06\x07\x08"


def body_record(segment: Segment, position: int = 9, body: bytes = b"hello") -> bytes:
    pieces = Pieces(BytesWriter())
    encoder = RecordEncoder()
    encoder.add_body(pieces, segment, 4, position, message(body), 1, 77)
    assert len(encoder.scratch) == 0
    pieces.finish()
    return b"".join(pieces.parts)


def ref_record(segment: Segment) -> bytes:
    pieces = Pieces(BytesWriter())
    RecordEncoder().add_reference(pieces, segment, 5, 6, 64, 1)
    pieces.finish()
    return b"".join(pieces.parts)


def segment_at(end: int, identity: bytes = IDENTITY) -> Segment:
    segment = Segment(1, identity)
    segment.end = end
    return segment


def test_a_message_comes_back() -> None:
    segment = segment_at(64)
    segment.synced_to = 60
    data = b"??" + body_record(segment)
    assert is_whole(segment, data, 2, 64)
    record = Record(data, 2, 64)
    assert (record.queue_id, record.position, record.stored_ms) == (4, 9, 77)
    assert (record.size, record.synced_to, record.flags) == (len(data) - 2, 60, 1)
    found = message_of(record, data, 2, {})
    assert found.body() == b"hello"
    assert found.raw == message(b"hello").raw
    assert (found.address.exchange, found.address.routing_key) == ("ex", "key")


@pytest.mark.parametrize("size", [0, GATHER_BYTES // 2, GATHER_BYTES, 300_000])
def test_small_and_large_records_are_checked_the_same_way(size: int) -> None:
    segment = segment_at(0x7FFFFF00)
    segment.synced_to = 0x7FFFFE00
    data = body_record(segment, 1 << 40, b"z" * size)
    assert is_whole(segment, data, 0, 0x7FFFFF00)
    record = Record(data, 0, 0x7FFFFF00)
    assert (record.position, record.synced_to, record.size) == (1 << 40, 0x7FFFFE00, len(data))
    assert message_of(record, data, 0, {}).body() == b"z" * size


def test_a_reference_comes_back() -> None:
    segment = segment_at(640)
    data = ref_record(segment)
    assert is_whole(segment, data, 0, 640)
    record = Record(data, 0, 640)
    assert (record.queue_id, record.position, record.body_offset) == (5, 6, 64)


def test_f12_every_bit_but_those_of_the_mark_is_checked() -> None:
    segment = segment_at(64)
    for data in (body_record(segment), ref_record(segment)):
        assert is_whole(segment, data, 0, 64)
        for bit in range((CHECKED_AT - 4) * 8, len(data) * 8):
            changed = bytearray(data)
            changed[bit >> 3] ^= 1 << (bit & 7)
            assert not is_whole(segment, bytes(changed), 0, 64)


def test_another_place_and_another_segment_do_not_fit() -> None:
    segment = segment_at(64)
    data = body_record(segment)
    assert not is_whole(segment, data, 0, 65)
    assert not is_whole(segment_at(64, bytes(8)), data, 0, 64)
    assert not is_whole(segment, data[:-1], 0, 64)


def test_a_body_full_of_marks_does_not_stop_the_search() -> None:
    """Whoever publishes cannot make recovery slow, nor bring in a record of his own."""
    segment = segment_at(64)
    large = body_record(segment, 1, b"\xd7REC\0\0\0\0\0\0\x20\0\x01" * 40_000)
    segment.end = 64 + len(large)
    small = body_record(segment, 2)
    damaged = bytes(64) + b"\0" * 20 + large[20:] + small
    found = scan(segment, damaged)
    assert [int(record.position) for record in found.records] == [2]
    whole = bytes(64) + large + small
    assert [int(record.position) for record in scan(segment, whole).records] == [1, 2]


def test_a_dead_letter_comes_back_as_one() -> None:
    """Otherwise the next death would take its record of deaths for the publisher's word."""
    made = message(b"dead")
    letter = dead_letter(made.raw, made.body_bytes)
    letter.address = made.address
    pieces = Pieces(BytesWriter())
    RecordEncoder().add_body(pieces, segment_at(64), 4, 9, letter, 1, 77)
    pieces.finish()
    data = b"".join(pieces.parts)
    found = message_of(Record(data, 0, 64), data, 0, {})
    assert is_dead_letter(found) and found.raw == made.raw
    plain = body_record(segment_at(64))
    assert not is_dead_letter(message_of(Record(plain, 0, 64), plain, 0, {}))
