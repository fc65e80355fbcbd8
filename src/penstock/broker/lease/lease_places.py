"""Where in the log a group's messages lie: what its row names. COMPILED, because a group may hold a
hundred thousand of them, and each request looks at all."""

from mypy_extensions import i64

from penstock.broker.store.durability import StoreDurability
from penstock.queues.leases import LeaseGroup
from penstock.storage.layout.stored import Stored


def waits_for_place(group: LeaseGroup, durability: StoreDurability) -> bool:
    """Whether a message of `group` is on its way to the log and has no position yet."""
    queue_id: i64 = durability.index.queue_id
    for entry in group.entries:
        if entry is not None:
            stored = entry.message.stored
            if isinstance(stored, Stored) and stored.awaits(queue_id):
                return True
    return False


def places_of(group: LeaseGroup, durability: StoreDurability) -> list[list[int]]:
    """Log positions of what `group` holds, [first, count] in the order of its numbers; 0 for what
    has none. The highest is kept in `group.top`."""
    queue_id: i64 = durability.index.queue_id
    runs: list[list[int]] = []
    first: i64 = 0
    count: i64 = 0
    for entry in group.entries:
        position: i64 = 0
        if entry is not None:
            stored = entry.message.stored
            if isinstance(stored, Stored):
                position = stored.position_in(queue_id)
        if position > group.top:
            group.top = position
        if count > 0 and position == (0 if first == 0 else first + count):
            count += 1
            continue
        if count > 0:
            runs.append([int(first), int(count)])
        first = position
        count = 1
    if count > 0:
        runs.append([int(first), int(count)])
    return runs


def note_settled(group: LeaseGroup, count: i64, durability: StoreDurability) -> None:
    """The first `count` of what `group` holds are about to be settled: that is on record until the
    disk knows it."""
    queue_id: i64 = durability.index.queue_id
    at: i64 = 0
    entries = group.entries
    while at < count and at < len(entries):
        entry = entries[at]
        at += 1
        if entry is not None:
            stored = entry.message.stored
            if isinstance(stored, Stored):
                position: i64 = stored.position_in(queue_id)
                if position > 0:
                    group.settled.append(int(position))
