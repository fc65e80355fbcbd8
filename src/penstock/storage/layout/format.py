"""The layout of everything the store writes. All numbers are big-endian, those of tables little.

    NNNNNNNNNN.log    header twice | record ... | footer
    NNNNNNNNNN.acks   header | slot ...
    NNNNNNNNNN.spare  the file of a segment that is gone, to be written over; never read

    header 32     "PENSTOCK" 8 | kind 1 | version 1 | uses 2 | segment number 8 | identity 8 |
                  checksum 4
      uses        1: the file was another segment's before; what stands behind the last record, or
                  in place of one that was torn, may be that one's

    record        mark 4 | checksum 4 | size 4 | kind 1 | flags 1 | address bytes 2 | synced_to 4 |
                  queue 8 | position 8 | rest
      BODY        rest: header bytes 4 | body bytes 4 | wall clock ms 8 | address | content frames
      REF         rest: offset 4 of a BODY in the same segment

    footer        tables | directory, 64 for each table | end 48
      table       positions, 8 each, ascending | places, 8 each; see storage/layout/segment
      directory   queue 8 | first 8 | last 8 | record bytes 8 | at 8 | count 4 | fleeting 4 |
                  checksum of the table 4 | 0 12
      end         "PENSTEND" 8 | identity 8 | end of the records 8 | directory at 8 | tables 4 |
                  segment number 8, 0 in versions 1 and 2 | checksum of directory and end 4

    slot 32       checksum 4 | kind 1 | count 3 | queue 8 | first 8 | last 8
      SETTLED     positions first..last of the queue
      DELIVERED   all positions of the queue below last
      SAFE        queue 0, first 0: everything before the offset last of the log is on the disk
      RETURNED    positions first..last of the queue came back to it count times, each of them;
                  count is 0 in all other kinds. A release that does not know it passes it over

A checksum covers everything of its part but itself and the mark, begins with the segment's random
identity, and is XORed with the offset: blocks of another file, or of another place in this one,
never fit. The mark is for finding the next record behind a damaged one.

Flags of records that belong together (see groups): all of them between one with IS_GROUP_FIRST and
one with IS_GROUP_LAST have IS_GROUPED; they stand behind one another in one segment, and count
together or not at all.

synced_to: when the record was made, everything before this offset was on the disk for good. So what
does not fit below the highest synced_to of a segment is damage, and beyond it a torn write. The
last records have none behind them: once the log has been quiet for a second, and once a second
while it is not, a slot says the same.
"""

import struct
from typing import Final

from mypy_extensions import i64

from penstock.storage.layout.checksum import LOG_VERSIONS, log_extend_of

MAGIC: Final = b"PENSTOCK"
END_MAGIC: Final = b"PENSTEND"
MARK: Final = b"\xd7REC"
LOG: Final = 1
ACKS: Final = 2

BODY: Final = 1
REF: Final = 2

WAS_USED: Final = 1
"""In `uses` of a header."""
SPARE_SUFFIX: Final = ".spare"
ORPHANED: Final = ".orphaned"
"""Behind the name of a file with messages of queues that the catalogue has not heard of yet."""
DAMAGED: Final = ".damaged"
"""Behind the name of a log whose beginning cannot be read."""

IS_PERSISTENT: Final = 1
IS_DEAD_LETTER: Final = 2
"""Flag of a BODY: the broker published it, so what it says of deaths is true."""

IS_GROUPED: Final = 4
IS_GROUP_FIRST: Final = 8
IS_GROUP_LAST: Final = 16

MARKS_QUEUE_ID: Final = 1 << 62
"""In place of a queue: the batch that each app has committed last (broker/store/app_marks)."""
OUTBOX_QUEUE_ID: Final = 1 << 61
"""With the id of a stream added, in place of a queue: what commits have for that stream
(broker/transaction/commit_streams). Ids of queues are below."""

SETTLED: Final = 1
DELIVERED: Final = 2
SAFE: Final = 3
RETURNED: Final = 4

COUNT_BITS: Final = 24
COUNT_MAX: Final = (1 << COUNT_BITS) - 1

HEADER_BYTES: Final = 32
DATA_AT: Final = 64
"""Where the first record of a log begins: behind two copies of its header."""
CHECKED_AT: Final = 8
"""Where a record's checksum begins to count."""
BODY_HEAD_BYTES: Final = 52
REF_BYTES: Final = 40
DIRECTORY_BYTES: Final = 64
END_BYTES: Final = 48
SLOT_BYTES: Final = 32
HEADER: Final = struct.Struct(">8sBBHq8s")
DIRECTORY_ROW: Final = struct.Struct(">qqqqqIII12x")
END: Final = struct.Struct(">8s8sqqIq")
SLOT: Final = struct.Struct(">IQqq")
U32: Final = struct.Struct(">I")


PLACE_OFFSET_BITS: Final = 31
PLACE_OFFSET_MASK: Final = (1 << 31) - 1
PLACE_SIZE_MASK: Final = (1 << 30) - 1
PLACE_IS_REF: Final = 1 << 61
REF_BIT: Final = 61
PLACE_IS_FLEETING: Final = 1 << 62
FLEETING_BIT: Final = 62
"""For who asks often: a number of 63 bits is looked up as an object."""


def place_of(offset: i64, size: i64, is_ref: bool, is_persistent: bool) -> i64:
    """Where a body lies and how its queue has it, in one number.

    offset: 0..2**31-1; size: of the record with the body, 1..2**30-1.
    """
    place: i64 = size << PLACE_OFFSET_BITS | offset
    if is_ref:
        place |= PLACE_IS_REF
    if not is_persistent:
        place |= PLACE_IS_FLEETING
    return place


def log_name(number: i64) -> str:
    return f"{number:010d}.log"


def acks_name(number: i64) -> str:
    return f"{number:010d}.acks"


def spare_name(number: i64) -> str:
    """The name of a file that was segment `number` and is none any more."""
    return f"{number:010d}{SPARE_SUFFIX}"


def is_spare(name: str) -> bool:
    """Whether a file is there only to be written over."""
    stem = name.removesuffix(SPARE_SUFFIX)
    return stem != name and len(stem) == 10 and stem.isdecimal()


def number_of(name: str) -> int:
    """The segment number in a file's name, -1 when it is none of the store's files."""
    stem, _, kind = name.partition(".")
    if kind not in ("log", "acks") or len(stem) != 10 or not stem.isdecimal():
        return -1
    return int(stem)


def number_aside(name: str) -> int:
    """The segment number in the name of a file that was set aside, -1 for any other."""
    for suffix in (ORPHANED, DAMAGED):
        if name.endswith(suffix):
            return number_of(name.removesuffix(suffix))
    return -1


def header(kind: int, version: int, number: int, identity: bytes, uses: int = 0) -> bytes:
    """The first bytes of a file."""
    head = HEADER.pack(MAGIC, kind, version, uses, number, identity)
    return head + U32.pack(log_extend_of(version)(0, head))


def parse_header(data: bytes, kind: int, number: int) -> tuple[int, bytes] | None:
    """(version, identity) from a header; None when it is damaged or another file's.

    Raises: OperatorError when the version is unknown here.
    """
    found = _header_of(data, kind)
    if found is None or found[2] != number:
        return None
    return found[0], found[1]


def number_in(data: bytes) -> int:
    """The segment number in the header of a log, -1 when it is damaged."""
    found = _header_of(data, LOG)
    return -1 if found is None else found[2]


def was_used(data: bytes) -> bool:
    """Whether a whole header says that its file was another segment's before."""
    return bool(HEADER.unpack(data[:28])[3] & WAS_USED)


def _header_of(data: bytes, kind: int) -> tuple[int, bytes, int] | None:
    """(version, identity, number) from a header, None when it is damaged."""
    if len(data) != HEADER_BYTES:
        return None
    magic, found_kind, version, _, number, identity = HEADER.unpack(data[:28])
    if magic != MAGIC or found_kind != kind or not 1 <= version <= 255:
        return None
    if not _is_whole(data, version):
        return None
    return version, identity, number


def _is_whole(data: bytes, version: int) -> bool:
    """Any version has its checksum here; one from the future is told from damage by trying ours."""
    wanted = U32.unpack(data[28:])[0]
    known = (version,) if version in LOG_VERSIONS else LOG_VERSIONS[:2]
    return any(log_extend_of(each)(0, data[:28]) == wanted for each in known)


def footer_identity(data: bytes) -> bytes:
    """The identity in the last bytes of a log, which nothing has checked yet; b"" without a
    footer."""
    if len(data) != END_BYTES:
        return b""
    magic, identity, _, _, _, _ = END.unpack(data[: END.size])
    return bytes(identity) if magic == END_MAGIC else b""
