"""Whom a memory alarm stops: first those above their fair share, then everybody.

    fair share     what all publishing connections hold, divided by how many of them hold anything
    above it       held >= share, so of equals all are stopped, and the biggest always is
    back below     held < 0.9 * share, so nobody flaps
    everybody      use above the second mark (the first and a twentieth), or above the first mark
                   and no new low for STALLED_NS, or all of them together hold less than what has
                   to go; back to the few when use is at the first mark and they hold as much
    no new choice  below the first mark, while they hold less than what has to go: shares of next to
                   nothing change with every message, and whom they name would flap

The mean, and not the level a water-filling would find, because water-filling stops only the very
biggest as long as that alone would do, and lets the second biggest run into the second mark, where
the small ones pay for it. Connections that hold nothing do not count, or idle ones would lower
everybody's share. What connections that have ended left in queues counts for those that the same
user has open, in equal parts: publishing by short connections is no way around the alarm.
Source: flow-semantics section 16, W9; scenario 67.
"""

from dataclasses import dataclass
from typing import Final

RELEASE: Final = (9, 10)
STALLED_NS: Final = 10_000_000_000
SECOND_MARK: Final = (21, 20)
FALL: Final = (99, 100)
"""A new low counts from one hundredth below the last one."""

NOBODY: Final = "nobody"
SOME: Final = "some"
ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class Holder:
    """One open connection that has published. held_bytes: waiting for work, resting in queues and
    waiting for consumers' sockets, all on its account; user: whose connection it is."""

    name: str
    user: str
    held_bytes: int


def above_fair_share(
    holders: list[Holder], left_bytes: dict[str, int], stopped: frozenset[str]
) -> frozenset[str]:
    """The names to be stopped now. left_bytes: by user, held by connections that have ended;
    stopped: the answer of the last time. Nobody, if nobody holds anything."""
    weights = _weights(holders, left_bytes)
    holding = [weight for weight in weights.values() if weight > 0]
    if not holding:
        return frozenset()
    total, count = sum(holding), len(holding)
    chosen = set()
    for name, weight in weights.items():
        lowest = total * RELEASE[0] if name in stopped else total * RELEASE[1]
        if weight > 0 and weight * count * RELEASE[1] >= lowest:
            chosen.add(name)
    return frozenset(chosen)


def can_explain(holders: list[Holder], left_bytes: dict[str, int], excess_bytes: int) -> bool:
    """Whether what they hold is at least what has to go; if not, choosing among them is useless."""
    return sum(_weights(holders, left_bytes).values()) >= max(1, excess_bytes)


def fair_share_bytes(holders: list[Holder], left_bytes: dict[str, int]) -> int:
    """What one connection may hold, for people; 0 if nobody holds anything."""
    holding = [weight for weight in _weights(holders, left_bytes).values() if weight > 0]
    return sum(holding) // len(holding) if holding else 0


def _weights(holders: list[Holder], left_bytes: dict[str, int]) -> dict[str, int]:
    count: dict[str, int] = {}
    for holder in holders:
        count[holder.user] = count.get(holder.user, 0) + 1
    return {
        holder.name: holder.held_bytes + left_bytes.get(holder.user, 0) // count[holder.user]
        for holder in holders
    }


class Escalation:
    """NOBODY, SOME or ALL, from one look at the memory to the next."""

    def __init__(self) -> None:
        self.stage = NOBODY
        self.low_bytes = 0
        self.low_at_ns = 0

    def look(
        self,
        is_set: bool,
        is_targeted: bool,
        is_explained: bool,
        used_bytes: int,
        limit_bytes: int,
        now_ns: int,
    ) -> str:
        """The stage from now on. is_set: the alarm itself; is_targeted: False stops all at once;
        is_explained: see `can_explain`."""
        if not is_set:
            self.stage = NOBODY
            return NOBODY
        is_low = used_bytes * FALL[1] < self.low_bytes * FALL[0] or used_bytes <= limit_bytes
        if self.stage == NOBODY or is_low:
            self.low_bytes = used_bytes
            self.low_at_ns = now_ns
        is_far_above = used_bytes * SECOND_MARK[1] > limit_bytes * SECOND_MARK[0]
        if not is_targeted or limit_bytes == 0 or is_far_above:
            self.stage = ALL
        elif used_bytes <= limit_bytes:
            if is_explained or self.stage == NOBODY:
                self.stage = SOME
        elif self.stage != ALL:
            is_stalled = now_ns - self.low_at_ns >= STALLED_NS
            self.stage = ALL if is_stalled or not is_explained else SOME
        return self.stage
