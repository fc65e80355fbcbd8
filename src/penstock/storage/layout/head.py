"""The checksum of a record's head, made from that of the head before it.

Heads of one queue differ in a few numbers: a position that is one more, a size, a time. A CRC is
linear: what a changed bit does to it depends only on how many bits follow,

    crc(a) xor crc(b) = xor of reach[bits that follow] over all bits in which a and b differ

for a and b of one length. So the next checksum costs a few looks into a table, where a call of the
checksum costs as much as the checksum of a kilobyte. What is written is the same.
"""

from typing import Final

from mypy_extensions import i64

from penstock.base.wire import BytesWriter, read_i32_be, write_i32_be
from penstock.storage.layout.checksum import (
    LOG_VERSION_CRC32,
    LOG_VERSION_CRC32C,
    VERSION_CRC32,
    VERSION_CRC32C,
)

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
"""Bytes between a number and the suffix; see storage/layout/format, BODY."""

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
        write_i32_be(writer, int(value - 0x100000000 if value > 0x7FFFFFFF else value))
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


class Head:
    """The head of the last record with a body; owner: the log. checksum: of it, behind the
    segment's seed, once is_known; segment_number, flags, suffix: what must be the same in the next
    one; suffix_bytes: of `suffix`; reach: see `reach_of`; the rest are its numbers."""

    __slots__ = (
        "body_bytes",
        "checksum",
        "flags",
        "header_bytes",
        "is_known",
        "position",
        "queue_id",
        "reach",
        "segment_number",
        "size",
        "stored_ms",
        "suffix",
        "suffix_bytes",
        "synced_to",
    )

    def __init__(self) -> None:
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

    def is_like(self, segment_number: i64, flags: i64, suffix: bytes) -> bool:
        """Whether a head with these differs in numbers only."""
        return (
            self.suffix is suffix and self.segment_number == segment_number and self.flags == flags
        )

    def begin(self, segment_number: i64, version: i64, flags: i64, suffix: bytes) -> None:
        """A head that is not like the one before, its numbers 0 and its checksum not known."""
        self.segment_number = segment_number
        self.reach = reach_of(int(version))
        self.flags = flags
        self.suffix = suffix
        self.suffix_bytes = len(suffix)
        self.is_known = False

    def learn(self, checksum: i64) -> None:
        """The checksum of the head with the numbers of the last `move`."""
        self.checksum = checksum
        self.is_known = True

    def move(
        self,
        size: i64,
        synced_to: i64,
        queue_id: i64,
        position: i64,
        header_bytes: i64,
        body_bytes: i64,
        stored_ms: i64,
    ) -> None:
        """The next head has these numbers; its checksum follows if that of this one is known."""
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
            if synced_to != self.synced_to:
                sum_ ^= spread(reach, synced_to ^ self.synced_to, behind + SYNCED_BEHIND)
            if queue_id != self.queue_id:
                sum_ ^= spread(reach, queue_id ^ self.queue_id, behind + QUEUE_BEHIND)
            if stored_ms != self.stored_ms:
                sum_ ^= spread(reach, stored_ms ^ self.stored_ms, behind + STORED_BEHIND)
            self.checksum = sum_
        self.size = size
        self.synced_to = synced_to
        self.queue_id = queue_id
        self.position = position
        self.header_bytes = header_bytes
        self.body_bytes = body_bytes
        self.stored_ms = stored_ms
