"""Acknowledgements: slots of one size in a file beside each segment.

A slot speaks only of entries of its own segment, so one whose entry was lost in a crash can never
meet a later message that got the same position (reliability F9). A lost slot is a redelivery.
"""

from mypy_extensions import i64

from penstock.base.wire import BytesWriter, read_i64_be
from penstock.storage.layout.format import (
    ACKS,
    HEADER_BYTES,
    SAFE,
    SLOT,
    SLOT_BYTES,
    U32,
    header,
)
from penstock.storage.layout.segment import Segment


def write_slot(segment: Segment, kind: i64, queue_id: i64, first: i64, last: i64) -> None:
    """Put one slot into the next batch. kind, first, last: see storage/layout/format."""
    writer = segment.acks
    if writer is None:
        writer = BytesWriter()
        segment.acks = writer
        if segment.acks_end == 0:
            writer.write(header(ACKS, int(segment.version), int(segment.number), segment.identity))
    offset: i64 = segment.acks_end + len(writer)
    body: bytes = SLOT.pack(kind, queue_id, first, last)
    checksum: i64 = segment.extend(int(segment.seed), body)
    low: bytes = U32.pack(checksum ^ offset)
    writer.write(low)
    writer.write(body)


class Slot:
    """One acknowledgement that was read."""

    __slots__ = ("first", "kind", "last", "queue_id")

    def __init__(self, kind: i64, queue_id: i64, first: i64, last: i64) -> None:
        self.kind: i64 = kind
        self.queue_id: i64 = queue_id
        self.first: i64 = first
        self.last: i64 = last


def read_slots(segment: Segment, data: bytes) -> tuple[list[Slot], int]:
    """(whole slots, how many are not) of a file whose header was found to be this segment's."""
    found: list[Slot] = []
    torn = 0
    at: i64 = HEADER_BYTES
    end: i64 = len(data)
    while at + SLOT_BYTES <= end:
        slot = slot_at(segment, data, at)
        if slot is not None:
            found.append(slot)
        else:
            torn += 1
        at += SLOT_BYTES
    return found, torn


def safe_to(slots: list[Slot]) -> int:
    """Up to where `slots` say that their segment is on the disk, 0 when none does."""
    end: i64 = 0
    for slot in slots:
        if slot.kind == SAFE and slot.last > end:
            end = slot.last
    return int(end)


def slot_at(segment: Segment, data: bytes, at: i64) -> Slot | None:
    """The slot at offset `at`, None when its checksum does not fit."""
    body = data[at + 4 : at + SLOT_BYTES]
    checksum: i64 = segment.extend(int(segment.seed), body)
    if U32.pack(checksum ^ at) != data[at : at + 4]:
        return None
    return Slot(i64(body[0]), read_i64_be(body, 4), read_i64_be(body, 12), read_i64_be(body, 20))
