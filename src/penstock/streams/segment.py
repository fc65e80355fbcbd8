"""One segment of a stream as it is kept in memory: what it has, and where in it to look."""

from array import array
from bisect import bisect_right
from typing import Final

from mypy_extensions import i64

from penstock.storage.layout.checksum import VERSION, Extend, extend_of
from penstock.storage.layout.files import File, read_fully
from penstock.streams.format import (
    DATA_AT,
    ENTRY,
    FOOT,
    FOOT_BYTES,
    FOOT_MARK,
    U32,
    file_name,
)

INDEX_STEP_BYTES: Final = 131_072
"""One entry of the index for so many bytes: 24 bytes of memory each, 200 MB for a terabyte."""


class StreamSegment:
    """first, next: offsets of its first message and behind its last; end: of its chunks in the
    file; synced_to: up to where that is on the disk, as far as the mode of the store wants it;
    synced_next: the offset there; safe_to: up to where a sync is known to have covered it;
    safe_next: the offset there; last_us: when its last message came; last_count: messages in its
    last chunk; is_sealed: it takes no more; is_gone: its file is or will be removed; firsts,
    places, times: the index, of every chunk INDEX_STEP_BYTES behind another."""

    __slots__ = (
        "end",
        "extend",
        "first",
        "firsts",
        "identity",
        "is_created",
        "is_gone",
        "is_sealed",
        "last_count",
        "last_us",
        "name",
        "next",
        "places",
        "queue_id",
        "safe_next",
        "safe_to",
        "seed",
        "synced_next",
        "synced_to",
        "times",
        "version",
    )

    def __init__(self, queue_id: i64, first: i64, identity: bytes, version: i64 = VERSION) -> None:
        self.queue_id: i64 = queue_id
        self.first: i64 = first
        self.next: i64 = first
        self.name = file_name(queue_id, first)
        self.identity = identity
        self.version: i64 = version
        self.extend: Extend = extend_of(int(version))
        self.seed: i64 = self.extend(0, identity)
        self.end: i64 = DATA_AT
        self.synced_to: i64 = 0
        self.safe_to: i64 = 0
        self.safe_next: i64 = first
        self.synced_next: i64 = first
        self.last_us: i64 = 0
        self.last_count: i64 = 0
        self.is_created = False
        self.is_sealed = False
        self.is_gone = False
        self.firsts: array[int] = array("q")
        self.places: array[int] = array("q")
        self.times: array[int] = array("q")

    def note_chunk(self, first: i64, place: i64, first_us: i64) -> None:
        """A chunk stands at `place`, behind all the others."""
        if not self.places or place - self.places[-1] >= INDEX_STEP_BYTES:
            self.firsts.append(int(first))
            self.places.append(int(place))
            self.times.append(int(first_us))

    def place_of(self, offset: i64) -> i64:
        """Where to begin to look for `offset`."""
        at: i64 = bisect_right(self.firsts, int(offset)) - 1
        return self.places[at] if at >= 0 else DATA_AT

    def place_near(self, offset: i64) -> i64:
        """About where `offset` stands: between two entries of the index, in proportion."""
        at: i64 = bisect_right(self.firsts, int(offset)) - 1
        if at < 0:
            return DATA_AT
        first: i64 = self.firsts[at]
        place: i64 = self.places[at]
        is_last = at + 1 >= len(self.firsts)
        next_first: i64 = self.next if is_last else self.firsts[at + 1]
        next_place: i64 = self.end if is_last else self.places[at + 1]
        if offset >= next_first:
            return next_place
        return place + (next_place - place) * (offset - first) // (next_first - first)

    def first_at(self, time_us: i64) -> i64:
        """An offset not behind the first message that came at `time_us` or later."""
        # Two chunks may begin at the same time, and what is looked for may be in the one before.
        at: i64 = bisect_right(self.times, int(time_us) - 1) - 1
        return self.firsts[at] if at >= 0 else self.first

    def footer(self) -> bytes:
        """Its footer, to be written behind its chunks when they are safe."""
        parts = [
            ENTRY.pack(self.firsts[at], self.places[at], self.times[at])
            for at in range(len(self.firsts))
        ]
        foot = FOOT.pack(
            len(self.firsts),
            int(self.last_count),
            int(self.next),
            int(self.last_us),
            int(self.end),
        )
        body = b"".join(parts) + foot
        checksum = self.extend(int(self.seed), body)
        return body + U32.pack(checksum) + FOOT_MARK + self.identity


def read_footer(file: File, segment: StreamSegment, size: int) -> bool:
    """Fill `segment` from the footer that ends a file of `size`; False where there is no whole one.
    Raises: OSError."""
    if size < DATA_AT + FOOT_BYTES:
        return False
    tail = read_fully(file, size - FOOT_BYTES, FOOT_BYTES)
    if len(tail) != FOOT_BYTES or tail[36:40] != FOOT_MARK or tail[40:] != segment.identity:
        return False
    # Nothing of it was checked yet: what it says may be more than a number of 64 bits with a sign.
    count, last_count, following, last_us, end = FOOT.unpack_from(tail)
    length = count * ENTRY.size + FOOT_BYTES
    if end != size - length:
        return False
    data = read_fully(file, end, length)
    checksum: int = U32.unpack_from(data, len(data) - 16)[0]
    if checksum != segment.extend(int(segment.seed), data[: len(data) - 16]):
        return False
    for first, place, first_us in ENTRY.iter_unpack(data[: count * ENTRY.size]):
        segment.firsts.append(first)
        segment.places.append(place)
        segment.times.append(first_us)
    segment.next = int(following)
    segment.last_count = int(last_count)
    segment.last_us = int(last_us)
    segment.end = int(end)
    segment.synced_to = segment.end
    segment.synced_next = segment.next
    segment.is_sealed = True
    return True
