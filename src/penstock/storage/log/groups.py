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


def record_bytes(message: Message) -> i64:
    """What one record of `message` takes at most."""
    return REF_BYTES + BODY_HEAD_BYTES + len(message.address.suffix) + len(message.raw)


def group_bytes(entries: list[GroupEntry]) -> int:
    """What the records of `entries` take at most."""
    total: i64 = 0
    for entry in entries:
        total += record_bytes(entry.message)
    return int(total)


class GroupAppend:
    """One group on its way into the open batch of `log`, each message behind everything its queue
    has; until it is whole nothing else is appended, and the batch is not taken.

    entries: no message of them is in its queue yet; what a queue was to have that is dropped
    meanwhile is left out, but the last one's never is. room: what `group_bytes` says of them, at
    most SEGMENT_BYTES_MOST; now_ms: wall clock."""

    __slots__ = ("at", "entries", "flags", "log", "now_ms")

    def __init__(self, log: MessageLog, entries: list[GroupEntry], room: i64, now_ms: i64) -> None:
        active = log.active
        if active is not None and active.end > DATA_AT and active.end + room > log.segment_bytes:
            log.close_active()
        self.log = log
        self.entries = entries
        self.now_ms: i64 = now_ms
        self.at: i64 = 0
        self.flags: i64 = IS_GROUPED | IS_GROUP_FIRST

    def step(self, most: i64) -> bool:
        """Append up to `most` more; True if there are others. They get their places."""
        log = self.log
        entries = self.entries
        segment_bytes: i64 = log.segment_bytes
        # A group is never divided: it makes its segment larger.
        log.segment_bytes = SEGMENT_BYTES_MOST
        at: i64 = self.at
        last: i64 = len(entries) - 1
        end: i64 = at + most
        if end > last + 1:
            end = last + 1
        try:
            while at < end:
                entry = entries[at]
                if not entry.index.is_dropped:
                    flags: i64 = self.flags
                    if at == last:
                        flags |= IS_GROUP_LAST
                    if entry.is_persistent:
                        flags |= IS_PERSISTENT
                    _append(log, entry.index, entry.message, flags, self.now_ms)
                    self.flags = IS_GROUPED
                at += 1
        finally:
            self.at = at
            log.segment_bytes = segment_bytes
        return at <= last


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
