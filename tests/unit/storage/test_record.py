"""Records: any changed bit, another place, another segment is noticed."""

from penstock.storage.format import CHECKED_AT
from penstock.storage.record import Record, is_whole, make_body, make_ref, message_of
from penstock.storage.scan import scan
from penstock.storage.segment import Segment
from tests.crash.rig import message

IDENTITY = b"\x01\x02\x03\x04\x05\x06\x07\x08"


def body_record(segment: Segment, position: int = 9) -> bytes:
    one = message(b"hello")
    return make_body(segment, 4, position, one, 1, 77) + one.raw


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


def test_a_reference_comes_back() -> None:
    segment = segment_at(640)
    data = make_ref(segment, 5, 6, 64, 1)
    assert is_whole(segment, data, 0, 640)
    record = Record(data, 0, 640)
    assert (record.queue_id, record.position, record.body_offset) == (5, 6, 64)


def test_every_bit_but_those_of_the_mark_is_checked() -> None:
    segment = segment_at(64)
    for data in (body_record(segment), make_ref(segment, 5, 6, 64, 1)):
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
    one = message(b"\xd7REC\0\0\0\0\0\0\x20\0\x01" * 40_000)
    large = make_body(segment, 4, 1, one, 1, 77) + one.raw
    segment.end = 64 + len(large)
    small = body_record(segment, 2)
    damaged = bytes(64) + b"\0" * 20 + large[20:] + small
    found = scan(segment, damaged)
    assert [int(record.position) for record in found.records] == [2]
    whole = bytes(64) + large + small
    assert [int(record.position) for record in scan(segment, whole).records] == [1, 2]
