"""What a stream segment that lost its headers still tells: how far it went, was any of it safe.

Without the identity no checksum can be looked at, so nothing here is read by anybody. But offsets
are given once: what was in it is lost, and no other message may have its offsets.
"""

from typing import Final

from penstock.storage.layout.checksum import VERSION_CRC32, VERSION_CRC32C
from penstock.storage.layout.files import File, read_fully
from penstock.storage.log.roster import Entry
from penstock.streams.format import CHUNK, CHUNK_HEAD_BYTES, DATA_AT, IDENTITY_BYTES, MARK
from penstock.streams.segment import StreamSegment, read_footer

PIECE_BYTES: Final = 1_048_576
VERSIONS: Final = (VERSION_CRC32C, VERSION_CRC32)
SPAN_MAX: Final = 1 << 40
"""More messages than one segment can have: what says so is no chunk."""


class StreamClaims:
    """next: the offset behind the last message, as far as it can be told; count: messages;
    was_safe: a chunk says that something before it had been synced, headers and all."""

    __slots__ = ("count", "next", "was_safe")

    def __init__(self, first: int) -> None:
        self.next = first
        self.count = 0
        self.was_safe = False

    def believe(self, mark: Entry) -> None:
        """What the roster says of the segment."""
        self.was_safe = self.was_safe or mark.safe_to > 0
        self.next = max(self.next, int(mark.safe_next))


def claims_of(file: File, first: int) -> StreamClaims:
    """What looks like chunks in `file`, a segment from offset `first` on: heads with their marks
    and sizes that lead from one to the next. Raises: OSError."""
    claims = StreamClaims(first)
    end = file.size()
    window = ReadWindow(file)
    at = window.mark_from(DATA_AT, end)
    while at >= 0:
        size = _take(window.head_at(at), at, end, claims)
        at = window.mark_from(at + (size or len(MARK)), end)
    return claims


class ReadWindow:
    """A piece of a file, which is read once however many marks are in it: what was published may
    consist of them. at: where it begins."""

    __slots__ = ("at", "data", "file")

    def __init__(self, file: File) -> None:
        self.file = file
        self.at = 0
        self.data = b""

    def mark_from(self, at: int, end: int) -> int:
        """Where the next mark stands from `at` on, -1 for none. Raises: OSError."""
        while at < end:
            self._move(at, len(MARK))
            found = self.data.find(MARK, at - self.at)
            if found >= 0:
                return self.at + found
            if len(self.data) < PIECE_BYTES:
                return -1
            # The last bytes may be the beginning of a mark.
            at = self.at + len(self.data) - len(MARK) + 1
        return -1

    def head_at(self, at: int) -> bytes:
        """As much of the head of a chunk as stands there. Raises: OSError."""
        self._move(at, CHUNK_HEAD_BYTES)
        return self.data[at - self.at : at - self.at + CHUNK_HEAD_BYTES]

    def _move(self, at: int, size: int) -> None:
        if at < self.at or at + size > self.at + len(self.data):
            self.data = read_fully(self.file, at, PIECE_BYTES)
            self.at = at


def _take(head: bytes, at: int, end: int, claims: StreamClaims) -> int:
    """Note what stands at `at` if it may be a chunk; how large it is, 0 when it is none."""
    if len(head) < CHUNK_HEAD_BYTES:
        return 0
    size, count, first, _, synced_to = CHUNK.unpack_from(head, 8)[:5]
    behind = at + size
    if size < CHUNK_HEAD_BYTES or behind > end or synced_to > at:
        return 0
    if first < claims.next or first - claims.next > SPAN_MAX or count == 0:
        return 0
    claims.count += count
    claims.next = first + count
    claims.was_safe = claims.was_safe or synced_to > DATA_AT
    return int(size)


def from_footer(file: File, queue_id: int, first: int) -> StreamSegment | None:
    """The segment as its footer tells of it, which has its identity too; None where there is no
    whole one. Raises: OSError."""
    size = file.size()
    identity = read_fully(file, size - IDENTITY_BYTES, IDENTITY_BYTES) if size > DATA_AT else b""
    for version in VERSIONS:
        segment = StreamSegment(queue_id, first, identity, version)
        if read_footer(file, segment, size):
            return segment
    return None
