"""What is kept of a group's leases: one row of the catalogue, written anew with every request."""

from typing import Final

from msgspec import Struct

from penstock.broker.lease.lease_places import places_of
from penstock.broker.store.durability import StoreDurability
from penstock.queues.leases import LeaseGroup, as_runs

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


def row_of(group: LeaseGroup, durability: StoreDurability) -> LeaseRow:
    """What is kept of `group` now."""
    runs = places_of(group, durability)
    return LeaseRow(
        acked_to=int(group.acked_to),
        runs=runs,
        settled=as_runs(sorted(group.settled)),
        top=int(group.top),
        timeout_ms=int(group.timeout_ns // NS_PER_MS),
        query=group.query,
        forgettable=group.is_forgettable,
    )
