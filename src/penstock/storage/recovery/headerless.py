"""What a segment that lost its headers still tells: whose records it had, and whether any was safe.

Without the identity no checksum can be looked at, so nothing here is a message that could be given
to anybody. It tells a segment that a crash has torn while it was begun, of which nothing counts,
from one that was damaged afterwards, whose messages somebody has to be told of.
"""

from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64

from penstock.base.wire import read_i64_be
from penstock.storage.layout.format import BODY, BODY_HEAD_BYTES, DATA_AT, MARK, REF, REF_BYTES
from penstock.storage.layout.record import offset_of, unsigned
from penstock.storage.layout.segment import Segment

BLOCK_BYTES: Final = 512
"""Disks and file systems move content in multiples of this, and nothing smaller."""


class Claims:
    """entries: queue and position of what looks like records, in the order of the file; was_safe:
    one of them says that something before it had been synced, headers and all."""

    __slots__ = ("entries", "was_safe")

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []
        self.was_safe = False


def claims_of(data: bytes, others: Sequence[Segment]) -> Claims:
    """What looks like records in `data`, all of a segment's file: they have their marks, sizes that
    lead from one to the next, and numbers that can be. Records of `others` are none of them: a
    crash may leave blocks in a file that another one had before."""
    claims = Claims()
    at: i64 = data.find(MARK, DATA_AT)
    while at >= 0:
        size = _claimed_size(data, at)
        if size == 0:
            at = data.find(MARK, at + 1)
            continue
        if _is_of_another(data, at, others):
            at = data.find(MARK, at + size)
            continue
        claims.entries.append((read_i64_be(data, at + 20), read_i64_be(data, at + 28)))
        if unsigned(data, at + 16) > DATA_AT:
            claims.was_safe = True
        at = data.find(MARK, at + size)
    return claims


def _is_of_another(data: bytes, at: i64, others: Sequence[Segment]) -> bool:
    """Whether a block of one of `others` put the record at `at` there."""
    for other in others:
        offset = offset_of(other, data, at)
        if DATA_AT <= offset < other.end and (offset - at) % BLOCK_BYTES == 0:
            return True
    return False


def _claimed_size(data: bytes, at: i64) -> i64:
    """Of what may be a record at `at`; 0 when it is none."""
    left: i64 = len(data) - at
    if left < REF_BYTES:
        return 0
    size: i64 = unsigned(data, at + 8)
    kind: i64 = i64(data[at + 12])
    is_sized = kind == REF and size == REF_BYTES
    if kind == BODY:
        is_sized = BODY_HEAD_BYTES <= size <= left
    if not is_sized or unsigned(data, at + 16) > at:
        return 0
    if read_i64_be(data, at + 20) <= 0 or read_i64_be(data, at + 28) <= 0:
        return 0
    follows = data[at + size : at + size + len(MARK)]
    return size if size == left or follows == MARK else 0
