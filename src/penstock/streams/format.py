"""The layout of stream segments. All numbers are little-endian, as Arrow has them.

    QQQQQQQQQQ-OOOOOOOOOOOOOOOOOOOO.stream     header twice | chunk ... | footer
        Q: id of the queue, O: offset of the first message

    header 48   "PENSTREA" 8 | version 4 | 0 4 | queue 8 | first offset 8 | identity 8 |
                checksum 4 | 0 4

    chunk       mark 4 | checksum 4 | size 4 | messages n 4 | first offset 8 | first time us 8 |
                synced_to 8 | addresses k 4 | starts of the ten columns, 4 each | filter 4 |
                columns | filter section (see filtering), to the end
      0  time         n   x 4   us since the first of the chunk
      1  body_at      n+1 x 4   where each body begins in 9, and where the last one ends
      2  header_at    n+1 x 4   the same in 8
      3  address_id   n   x 2   index into 4 and 5
      4  exchange_at  k+1 x 4   the same in 6
      5  key_at       k+1 x 4   the same in 7
      6  exchanges    7  keys    8  headers: property flags and values    9  bodies

    footer      entries, 24 each: first offset 8 | place 8 | first time us 8 | end 48
      end       entries 4 | 0 4 | next offset 8 |
                last time us 8 | end of the chunks 8 | checksum of all of it 4 | "PFOT" 4 |
                identity 8

filter: where that section begins; 1 if none of the messages has a filter value, so that there is no
section; 0 in chunks that were written before there were filters.

Every column begins at a multiple of eight, and so does every chunk: a reader makes arrays of a
column without a copy. A checksum covers everything of its part but itself and the marks before it,
and begins with the segment's random identity. synced_to: what was on the disk for good when the
chunk was made, so that damage is told from a torn write.
"""

import struct
from typing import Final

from mypy_extensions import i64

from penstock.storage.layout.checksum import extend_of

MAGIC: Final = b"PENSTREA"
MARK: Final = b"\xd7SCH"
FOOT_MARK: Final = b"PFOT"

HEADER: Final = struct.Struct("<8sIIQQ8s")
HEADER_BYTES: Final = 48
DATA_AT: Final = 96
"""Where the first chunk begins: behind two copies of the header."""
CHUNK: Final = struct.Struct("<IIQQQI10II")
CHUNK_HEAD_BYTES: Final = 88
CHECKED_AT: Final = 8
NO_VALUES: Final = 1
"""In place of a filter section: nobody gave a value."""
ENTRY: Final = struct.Struct("<QQQ")
FOOT: Final = struct.Struct("<IIQQQ")
FOOT_BYTES: Final = 48
IDENTITY_BYTES: Final = 8
U32: Final = struct.Struct("<I")

COLUMNS: Final = 10
TIMES: Final = 0
BODY_AT: Final = 1
HEADER_AT: Final = 2
ADDRESS_ID: Final = 3
EXCHANGE_AT: Final = 4
KEY_AT: Final = 5
EXCHANGES: Final = 6
KEYS: Final = 7
HEADERS: Final = 8
BODIES: Final = 9

SUFFIX: Final = ".stream"
DAMAGED: Final = ".damaged"


def file_name(queue_id: i64, first: i64) -> str:
    """The file of the segment that begins with offset `first`."""
    return f"{queue_id:010d}-{first:020d}{SUFFIX}"


def parse_name(name: str) -> tuple[int, int] | None:
    """Queue id and first offset, None for a file that is no segment."""
    if len(name) != 31 + len(SUFFIX) or not name.endswith(SUFFIX) or name[10] != "-":
        return None
    queue, first = name[:10], name[11:31]
    if not (queue.isascii() and queue.isdecimal() and first.isascii() and first.isdecimal()):
        return None
    return int(queue), int(first)


def make_header(version: int, queue_id: int, first: int, identity: bytes) -> bytes:
    """The first DATA_AT bytes of a segment."""
    head = HEADER.pack(MAGIC, version, 0, queue_id, first, identity)
    return (head + U32.pack(extend_of(version)(0, head)) + bytes(4)) * 2


def read_header(data: bytes, queue_id: int, first: int) -> tuple[int, bytes] | None:
    """Version and identity, None when neither copy is the header of that segment. data: the first
    DATA_AT bytes.

    Raises: OperatorError for a version that this installation cannot read."""
    return _header_at(data, 0, queue_id, first) or _header_at(data, HEADER_BYTES, queue_id, first)


def _header_at(data: bytes, at: int, queue_id: int, first: int) -> tuple[int, bytes] | None:
    if len(data) < at + HEADER_BYTES:
        return None
    magic, version, _, queue, offset, identity = HEADER.unpack_from(data, at)
    if magic != MAGIC or (queue, offset) != (queue_id, first) or version not in (1, 2):
        return None
    checked = data[at : at + HEADER.size]
    if U32.unpack_from(data, at + HEADER.size)[0] != extend_of(int(version))(0, checked):
        return None
    return int(version), bytes(identity)


def padded(size: i64) -> i64:
    """`size`, up to the next multiple of eight."""
    return (size + 7) // 8 * 8
