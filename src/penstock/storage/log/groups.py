"""Entries that come back after a crash all together or not at all: how they are appended.

They become one group of records, marked in their flags (see format), behind one another in one
segment. A scan leaves out a group of which anything is missing; a footer speaks of whole ones only,
because it is written when they are safe. What is copied by a compaction needs its group no more.

In a store that is not synced in time (`make_lazy`) a loss of power may take a group, or, if it was
copied in part meanwhile, the rest of it; a killed process leaves all or nothing in every mode.
"""

from typing import Final

from mypy_extensions import i64

from penstock.protocol.content import Message
from penstock.storage.layout.format import (
    BODY_HEAD_BYTES,
    DATA_AT,
    IS_GROUP_FIRST,
    IS_GROUP_LAST,
    IS_GROUPED,
    IS_PERSISTENT,
    REF_BYTES,
)
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.stored import Stored
from penstock.storage.log.log import MessageLog

SEGMENT_BYTES_MOST: Final = (1 << 31) - 1
"""Places have so many bits for an offset."""


class GroupEntry:
    """One message for one queue. is_persistent: it comes back after a restart."""

    __slots__ = ("index", "is_persistent", "message")

    def __init__(self, index: QueueIndex, message: Message, is_persistent: bool) -> None:
        self.index = index
        self.message = message
        self.is_persistent = is_persistent


def group_bytes(entries: list[GroupEntry]) -> int:
    """What the records of `entries` take at most."""
    total: i64 = 0
    for entry in entries:
        message = entry.message
        total += REF_BYTES + BODY_HEAD_BYTES + len(message.address.suffix) + len(message.raw)
    return int(total)


def append_group(log: MessageLog, entries: list[GroupEntry], now_ms: int) -> None:
    """Put `entries` into the open batch of `log` as one group, each behind everything its queue
    has, and give their messages their places. now_ms: wall clock; no queue is dropped, and no
    message is in one of them yet. Together they fit SEGMENT_BYTES_MOST.
    """
    room: i64 = group_bytes(entries)
    active = log.active
    segment_bytes: i64 = log.segment_bytes
    if active is not None and active.end > DATA_AT and active.end + room > segment_bytes:
        log.close_active()
    # A group is never divided: it makes its segment larger.
    log.segment_bytes = SEGMENT_BYTES_MOST
    try:
        left: i64 = len(entries)
        flags: i64 = IS_GROUPED | IS_GROUP_FIRST
        for entry in entries:
            left -= 1
            if left == 0:
                flags |= IS_GROUP_LAST
            if entry.is_persistent:
                flags |= IS_PERSISTENT
            _append(log, entry.index, entry.message, flags, now_ms)
            flags = IS_GROUPED
    finally:
        log.segment_bytes = segment_bytes


def _append(log: MessageLog, index: QueueIndex, message: Message, flags: i64, now_ms: i64) -> None:
    place = message.stored
    if place is None:
        stored = Stored()
        message.stored = stored
    else:
        assert isinstance(place, Stored), "only the log gives messages a place"
        stored = place
    position = index.next_position
    stored.join(index.queue_id)
    stored.placed(index.queue_id, position)
    log.append_entry(index, position, message, stored, flags, now_ms)
