"""Acknowledgements: slots of one size in a file beside each segment, which say as well how often
messages came back.

A slot speaks only of entries of its own segment, so one whose entry was lost in a crash can never
meet a later message that got the same position (reliability F9). A lost slot is a redelivery.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.wire import BytesWriter, read_i64_be
from penstock.storage.layout.format import (
    ACKS,
    COUNT_BITS,
    COUNT_MAX,
    HEADER_BYTES,
    SAFE,
    SLOT,
    SLOT_BYTES,
    U32,
    header,
)
from penstock.storage.layout.segment import Segment

COUNTED_ONE_BY_ONE: Final = 64
"""Of a message that came back this often some returns are not written any more."""


def is_written(count: i64) -> bool:
    """Whether the `count`th return of a message is written: each one at first, then one in 2, one
    in 4 and so on, so that a message that comes back for ever does not fill the disk, and what is
    written is less than 1 in 32 below what it stands for."""
    step: i64 = 1
    while count >= step * COUNTED_ONE_BY_ONE:
        step *= 2
    return count % step == 0 and count <= COUNT_MAX


def write_slot(
    segment: Segment, kind: i64, queue_id: i64, first: i64, last: i64, count: i64 = 0
) -> None:
    """Put one slot into the next batch. kind, first, last, count: see storage/layout/format."""
    writer = segment.acks
    if writer is None:
        writer = BytesWriter()
        segment.acks = writer
        if segment.acks_end == 0:
            writer.write(header(ACKS, int(segment.version), int(segment.number), segment.identity))
    offset: i64 = segment.acks_end + len(writer)
    body: bytes = SLOT.pack(kind << COUNT_BITS | count, queue_id, first, last)
    checksum: i64 = segment.extend(int(segment.seed), body)
    low: bytes = U32.pack(checksum ^ offset)
    writer.write(low)
    writer.write(body)


class Slot:
    """One acknowledgement that was read, or another slot."""

    __slots__ = ("count", "first", "kind", "last", "queue_id")

    def __init__(self, kind: i64, queue_id: i64, first: i64, last: i64, count: i64 = 0) -> None:
        self.kind: i64 = kind
        self.queue_id: i64 = queue_id
        self.first: i64 = first
        self.last: i64 = last
        self.count: i64 = count


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
    count: i64 = int.from_bytes(body[1:4], "big")
    first: i64 = read_i64_be(body, 12)
    return Slot(i64(body[0]), read_i64_be(body, 4), first, read_i64_be(body, 20), count)
