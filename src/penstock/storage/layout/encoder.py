"""Makes records: their bytes, and the checksum of a record's head from that of the head before it.

Heads of one queue differ in a few numbers: a position that is one more, a size, a time. A CRC is
linear: what a changed bit does to it depends only on how many bits follow,

    crc(a) xor crc(b) = xor of reach[bits that follow] over all bits in which a and b differ

for a and b of one length. So the next checksum costs a few looks into a table, where a call of the
checksum costs as much as the checksum of a kilobyte. What is written is the same.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.wire import (
    BytesWriter,
    read_i32_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
    write_i64_le,
)
from penstock.protocol.content import Message, SharedMessage
from penstock.storage.layout.checksum import (
    LOG_VERSION_CRC32,
    LOG_VERSION_CRC32C,
    VERSION_CRC32,
    VERSION_CRC32C,
)
from penstock.storage.layout.format import (
    BODY,
    BODY_HEAD_BYTES,
    IS_DEAD_LETTER,
    IS_PERSISTENT,
    PLACE_OFFSET_BITS,
    REF,
    REF_BYTES,
)
from penstock.storage.layout.pieces import KEPT_BYTES, PIECE_BYTES, Pieces
from penstock.storage.layout.segment import Segment, Table
from penstock.storage.layout.stored import Stored

GATHER_BYTES: Final = 2048
"""Content from here on is checked where it lies."""
MARK_HIGH: Final = -0x28ADBABD00000000
"""The mark as the upper half of a number of 64 bits, with a sign."""
LOW32: Final = 0xFFFFFFFF

CRC32C: Final = 0x82F63B78
CRC32: Final = 0xEDB88320
POLYNOMIALS: Final = {
    VERSION_CRC32C: CRC32C,
    VERSION_CRC32: CRC32,
    LOG_VERSION_CRC32C: CRC32C,
    LOG_VERSION_CRC32: CRC32,
}
"""Of each format version, its lowest bit the highest power."""
SUFFIX_BYTES_MOST: Final = 513
"""Two names of 255 bytes, their lengths, a frame end: what follows the numbers of a head."""
NUMBERS_BYTES: Final = 44
SIZE_BEHIND: Final = 40
SYNCED_BEHIND: Final = 32
QUEUE_BEHIND: Final = 24
POSITION_BEHIND: Final = 16
HEADER_BEHIND: Final = 12
BODY_BEHIND: Final = 8
STORED_BEHIND: Final = 0
"""Bytes between a number and the suffix; see storage/format, BODY."""

REACHES: Final[dict[int, bytes]] = {}


def reach_of(version: int) -> bytes:
    """What a bit that is followed by n others changes in the checksum of format `version`, four
    bytes for each n from 0 on."""
    found = REACHES.get(version)
    if found is not None:
        return found
    polynomial: i64 = POLYNOMIALS[version]
    writer = BytesWriter()
    value: i64 = 1
    bits: i64 = (SUFFIX_BYTES_MOST + NUMBERS_BYTES) * 8
    while bits >= 0:
        write_i32_be(writer, signed(value))
        value = (value >> 1) ^ (polynomial if value & 1 else 0)
        bits -= 1
    found = writer.getvalue()
    REACHES[version] = found
    return found


def spread(reach: bytes, changed: i64, behind: i64) -> i64:
    """What `changed`, the bits in which two numbers differ, changes in the checksum, with `behind`
    bytes after the number."""
    found: i64 = 0
    bit: i64 = 0
    while changed != 0 and bit < 64:
        if changed & 1 != 0:
            # The bits of a byte count from the lowest, its bytes from the highest.
            follow: i64 = ((behind + (bit >> 3) + 1) << 3) - (bit & 7)
            found ^= i64(read_i32_be(reach, follow << 2))
        changed >>= 1
        bit += 1
    return found & 0xFFFFFFFF


def signed(number: i64) -> int:
    """An unsigned number of 32 bits as the signed one with the same bits."""
    return int(number - 0x100000000) if number > 0x7FFFFFFF else int(number)


class RecordEncoder:
    """Makes the records of one log, one after the other; owner: the log.

    writer: what pieces grow in, empty in between; scratch: what is checked in one go, empty in
    between. The rest describes the head of the last record with a body: segment_number, flags,
    suffix: what must be the same in the next one for its checksum to follow; suffix_bytes: of
    `suffix`; checksum: of the head, behind the segment's seed, once is_known; reach: see
    `reach_of`; its numbers.
    """

    __slots__ = (
        "body_bytes",
        "checksum",
        "flags",
        "header_bytes",
        "is_known",
        "position",
        "queue_id",
        "reach",
        "scratch",
        "segment_number",
        "size",
        "stored_ms",
        "suffix",
        "suffix_bytes",
        "synced_to",
        "writer",
    )

    def __init__(self) -> None:
        self.writer = BytesWriter()
        self.scratch = BytesWriter()
        self.segment_number: i64 = 0
        self.flags: i64 = 0
        self.suffix = b""
        self.suffix_bytes: i64 = 0
        self.reach = b""
        self.is_known = False
        self.checksum: i64 = 0
        self.size: i64 = 0
        self.synced_to: i64 = 0
        self.queue_id: i64 = 0
        self.position: i64 = 0
        self.header_bytes: i64 = 0
        self.body_bytes: i64 = 0
        self.stored_ms: i64 = 0

    # -- one record ------------------------------------------------------------------------------

    def add_body(
        self,
        pieces: Pieces,
        segment: Segment,
        queue_id: i64,
        position: i64,
        message: Message,
        flags: i64,
        stored_ms: i64,
    ) -> None:
        """Put the record with `message` for the end of `segment` behind `pieces`."""
        suffix = message.address.suffix
        raw = message.raw
        body: i64 = len(raw)
        if isinstance(message, SharedMessage) and message.is_dead_letter:
            flags |= IS_DEAD_LETTER
        is_like = (
            self.segment_number == segment.number
            and self.flags == flags
            and (self.suffix is suffix or self.suffix == suffix)
        )
        if not is_like:
            self.segment_number = segment.number
            self.reach = reach_of(int(segment.version))
            self.flags = flags
            self.suffix_bytes = len(suffix)
            self.is_known = False
        # The same names are the same object in all that follows from one publisher.
        self.suffix = suffix
        self._move(segment.synced_to, queue_id, stored_ms)
        self._move_rest(
            self.suffix_bytes + body + BODY_HEAD_BYTES,
            position,
            i64(read_i32_be(raw, 3)),
            i64(message.body_size),
        )
        scratch = self.scratch
        extend = segment.extend
        if not is_like and body < GATHER_BYTES:
            # A second call of the checksum would cost more than the copy.
            self._write_head(scratch)
            scratch.write(raw)
            self._add_checked(pieces, segment)
            return
        if not self.is_known:
            self._write_head(scratch)
            self.checksum = extend(int(segment.seed), scratch.getvalue())
            self.is_known = True
            scratch.truncate(0)
        checksum: i64 = extend(int(self.checksum), raw)
        fresh = pieces.fresh
        write_i64_be(fresh, MARK_HIGH | ((checksum ^ segment.end) & LOW32))
        self._write_head(fresh)
        pieces.add(raw)

    def _move(self, synced_to: i64, queue_id: i64, stored_ms: i64) -> None:
        """The next head has these numbers, which those of one run share; its checksum follows if
        that of this one is known."""
        if self.is_known:
            reach = self.reach
            behind: i64 = self.suffix_bytes
            sum_: i64 = self.checksum
            if synced_to != self.synced_to:
                sum_ ^= spread(reach, synced_to ^ self.synced_to, behind + SYNCED_BEHIND)
            if queue_id != self.queue_id:
                sum_ ^= spread(reach, queue_id ^ self.queue_id, behind + QUEUE_BEHIND)
            if stored_ms != self.stored_ms:
                sum_ ^= spread(reach, stored_ms ^ self.stored_ms, behind + STORED_BEHIND)
            self.checksum = sum_
        self.synced_to = synced_to
        self.queue_id = queue_id
        self.stored_ms = stored_ms

    def _move_rest(self, size: i64, position: i64, header_bytes: i64, body_bytes: i64) -> None:
        """The next head has these numbers, which each record has for itself."""
        if self.is_known:
            reach = self.reach
            behind: i64 = self.suffix_bytes
            sum_: i64 = self.checksum
            sum_ ^= spread(reach, position ^ self.position, behind + POSITION_BEHIND)
            if size != self.size:
                sum_ ^= spread(reach, size ^ self.size, behind + SIZE_BEHIND)
            if body_bytes != self.body_bytes:
                sum_ ^= spread(reach, body_bytes ^ self.body_bytes, behind + BODY_BEHIND)
            if header_bytes != self.header_bytes:
                sum_ ^= spread(reach, header_bytes ^ self.header_bytes, behind + HEADER_BEHIND)
            self.checksum = sum_
        self.size = size
        self.position = position
        self.header_bytes = header_bytes
        self.body_bytes = body_bytes

    def _write_head(self, writer: BytesWriter) -> None:
        """The record from its size up to the content."""
        write_i64_be(writer, self.size << 32 | BODY << 24 | self.flags << 16 | self.suffix_bytes)
        write_i32_be(writer, int(self.synced_to))
        write_i64_be(writer, self.queue_id)
        write_i64_be(writer, self.position)
        write_i64_be(writer, self.header_bytes << 32 | self.body_bytes)
        write_i64_be(writer, self.stored_ms)
        writer.write(self.suffix)

    def add_reference(
        self,
        pieces: Pieces,
        segment: Segment,
        queue_id: i64,
        position: i64,
        offset: i64,
        flags: i64,
    ) -> None:
        """Put the record for one more queue of a message whose body lies at `offset` in `segment`
        behind `pieces`."""
        scratch = self.scratch
        write_i32_be(scratch, REF_BYTES)
        scratch.append(REF)
        scratch.append(int(flags))
        write_i16_be(scratch, 0)
        write_i32_be(scratch, int(segment.synced_to))
        write_i64_be(scratch, queue_id)
        write_i64_be(scratch, position)
        write_i32_be(scratch, int(offset))
        self._add_checked(pieces, segment)

    def _add_checked(self, pieces: Pieces, segment: Segment) -> None:
        """A record of which `scratch` has everything behind the checksum."""
        scratch = self.scratch
        data = scratch.getvalue()
        scratch.truncate(0)
        checksum: i64 = segment.extend(int(segment.seed), data)
        write_i64_be(pieces.fresh, MARK_HIGH | ((checksum ^ segment.end) & LOW32))
        pieces.add(data)

    # -- many records ----------------------------------------------------------------------------

    def add_run(
        self,
        pieces: Pieces,
        table: Table,
        position: i64,
        messages: list[Message],
        first: i64,
        stored_ms: i64,
        segment_bytes: i64,
    ) -> i64:
        """Put records of `messages`, from place `first` on, behind `pieces` and into `table`, at
        ascending positions from `position` on; give the messages their places. Returns how many.

        It ends before the first one that needs a look of its own: of other names than the record
        before it, with a place already or awaited by another queue, published by the broker, or
        without room below `segment_bytes`. All of this is one loop without a call but that of the
        checksum, because every persistent message goes through it.
        """
        segment = table.segment
        queue_id: i64 = table.queue_id
        suffix = messages[first].address.suffix
        if (
            not self.is_known
            or self.segment_number != segment.number
            or self.flags != IS_PERSISTENT
            or (suffix is not self.suffix and suffix != self.suffix)
        ):
            return 0
        self.suffix = suffix
        self._move(segment.synced_to, queue_id, stored_ms)
        synced_to: i64 = segment.synced_to
        suffix_bytes: i64 = self.suffix_bytes
        reach = self.reach
        # The place in `reach` of the lowest bit of a position.
        lowest: i64 = (suffix_bytes + POSITION_BEHIND + 1) << 5
        size: i64 = self.size
        header_bytes: i64 = self.header_bytes
        body_bytes: i64 = self.body_bytes
        before: i64 = self.position
        sum_: i64 = self.checksum
        kind: i64 = BODY << 24 | IS_PERSISTENT << 16 | suffix_bytes
        fresh = pieces.fresh
        entries = table.fresh
        extend = segment.extend
        begin: i64 = segment.end
        end: i64 = begin
        at: i64 = first
        count: i64 = len(messages)
        while at < count:
            message = messages[at]
            stored = message.stored
            if (
                not isinstance(stored, Stored)
                or stored.queue_id != queue_id
                or stored.position != 0
                or stored.size != 0
                or message.address.suffix is not suffix
                or (isinstance(message, SharedMessage) and message.is_dead_letter)
            ):
                break
            raw = message.raw
            body: i64 = len(raw)
            if body + suffix_bytes + BODY_HEAD_BYTES != size:
                fits: i64 = body + suffix_bytes + BODY_HEAD_BYTES
                if end + fits > segment_bytes:
                    break
                sum_ ^= spread(reach, fits ^ size, suffix_bytes + SIZE_BEHIND)
                size = fits
            elif end + size > segment_bytes:
                break
            payload: i64 = i64(message.body_size)
            if payload != body_bytes:
                sum_ ^= spread(reach, payload ^ body_bytes, suffix_bytes + BODY_BEHIND)
                body_bytes = payload
            payload = i64(read_i32_be(raw, 3))
            if payload != header_bytes:
                sum_ ^= spread(reach, payload ^ header_bytes, suffix_bytes + HEADER_BEHIND)
                header_bytes = payload
            changed: i64 = position ^ before
            before = position
            if changed & ~0xFF == 0:
                place: i64 = lowest
                while changed != 0:
                    if changed & 1 != 0:
                        sum_ ^= i64(read_i32_be(reach, place)) & LOW32
                    changed >>= 1
                    place -= 4
            else:
                sum_ ^= spread(reach, changed, suffix_bytes + POSITION_BEHIND)
            checksum: i64 = extend(int(sum_), raw)
            write_i64_be(fresh, MARK_HIGH | ((checksum ^ end) & LOW32))
            write_i64_be(fresh, size << 32 | kind)
            write_i32_be(fresh, int(synced_to))
            write_i64_be(fresh, queue_id)
            write_i64_be(fresh, position)
            write_i64_be(fresh, header_bytes << 32 | body_bytes)
            write_i64_be(fresh, stored_ms)
            fresh.write(suffix)
            if body >= KEPT_BYTES:
                pieces.add(raw)
            else:
                fresh.write(raw)
                if len(fresh) >= PIECE_BYTES:
                    pieces.finish()
            stored.segment = segment
            stored.offset = end
            stored.size = size
            stored.position = position
            write_i64_le(entries, position)
            write_i64_le(entries, size << PLACE_OFFSET_BITS | end)
            end += size
            position += 1
            at += 1
        self.size = size
        self.position = before
        self.header_bytes = header_bytes
        self.body_bytes = body_bytes
        self.checksum = sum_
        if at > first:
            table.added(position - (at - first), at - first, end - begin)
            segment.end = end
            segment.live += at - first
        return at - first
