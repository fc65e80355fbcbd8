"""What is kept of a group's leases: one row of the catalogue, written anew with every request."""

from typing import Final

from msgspec import Struct

from penstock.broker.store.durability import StoreDurability
from penstock.protocol.content import Message
from penstock.queues.leases import LeaseGroup, as_runs
from penstock.storage.layout.stored import Stored

COMPONENT: Final = "lease"
NS_PER_MS: Final = 1_000_000


class LeaseRow(Struct):
    """As the catalogue has it, in JSON.

    runs: log positions of what the group holds, [first, count] in the order of its numbers; 0:
    none, because the message does not come back after a restart.
    settled: positions it is done with that the log may have on the disk as unsettled, in runs too.
    top: the highest position it ever held, which no other message may get.
    """

    acked_to: int = 0
    runs: list[list[int]] = []
    settled: list[list[int]] = []
    top: int = 0
    timeout_ms: int = 0
    query: str = ""
    forgettable: bool = False


def row_name(queue_id: int, group: str) -> str:
    """Under which name of the component the row is kept."""
    return f"{queue_id}/{group}"


def position_of(message: Message, durability: StoreDurability) -> int:
    """The message's position in its queue's log, 0 if it has none."""
    stored = message.stored
    return int(stored.position_in(durability.index.queue_id)) if isinstance(stored, Stored) else 0


def waits_for_place(group: LeaseGroup, durability: StoreDurability) -> bool:
    """Whether a message of `group` is on its way to the log and has no position yet."""
    queue_id = durability.index.queue_id
    for entry in group.entries:
        if entry is not None:
            stored = entry.message.stored
            if isinstance(stored, Stored) and stored.awaits(queue_id):
                return True
    return False


def row_of(group: LeaseGroup, durability: StoreDurability) -> LeaseRow:
    """What is kept of `group` now."""
    positions = [
        0 if entry is None else position_of(entry.message, durability) for entry in group.entries
    ]
    group.top = max(int(group.top), max(positions, default=0))
    return LeaseRow(
        acked_to=int(group.acked_to),
        runs=as_runs(positions),
        settled=as_runs(sorted(group.settled)),
        top=int(group.top),
        timeout_ms=int(group.timeout_ns // NS_PER_MS),
        query=group.query,
        forgettable=group.is_forgettable,
    )
