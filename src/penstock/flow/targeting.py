"""Whom a memory alarm stops: accounts above their fair share, and everybody only at the very end.

    room          what publishing connections may hold: the memory below which an alarm ends, less
                  what they do not hold, less FALL times what use is above the mark
    fair level    the room divided as water among vessels: sum of min(held, level) = room, so who
                  holds little keeps it, and what the small ones leave is shared by the large ones
    stopped       held > level, until held <= 0.9 * level, so nobody flaps
    everybody     no room at all: what connections hold does not explain the use, or use is so far
                  above the mark that no share is left; back to the few with a tenth of room
    let on        below the end of the alarm, those that hold least first, as many at a time as the
                  room to the mark has shares of SHARE_BYTES, and a tenth of them at least; at once
                  who holds clearly less than one that goes on
So an account below its fair share is never stopped while one above it goes on. Because the level
falls FALL times faster than use rises above the mark, all that connections below it can still add
is less than a FALL-th of the room, whoever they are and however many: the mark is passed by less
than a quarter, without a second mark at which all pay.

Held bytes are those of messages. A message costs more memory than its bytes, up to EXPANSION times
as much when it is small: what use is above its lowest beside the messages counts for connections
in proportion to what they hold. What they have held under this alarm and do not hold any more is
free for what comes in, also while the system has not taken it back: it is no use, or a backlog that
is drained quickly would stop those who had no part in it. Nor does the level fall for what use was
above the mark when that was first seen. What connections that have ended left in queues counts for
those that the same user has open, in equal parts: publishing by short connections is no way around.
Of other processes of the same node only what each has come to use is known: one vessel for each, so
who holds little here is not stopped for what fills there.
Source: flow-semantics section 16, W9; scenario 67; docs/adr/0030.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

RELEASE: Final = (9, 10)
FALL: Final = 4
"""How much faster the level falls than use rises above the mark."""
LATE: Final = (5, 4)
"""An alarm that begins above this part of the mark has been seen too late for any choice."""
EXPANSION: Final = 16
BACK: Final = 10
"""All are stopped until there is room for this part of the mark."""
SHARE_BYTES: Final = 8_388_608
"""About what one client has waiting in the buffers of its sockets when it is let on."""
STEPS: Final = 10
STEP_NS: Final = 250_000_000
"""From letting some on to letting the next on: what came of the first is measured by then."""

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


def fair_level(held: Iterable[int], room_bytes: int) -> int:
    """The level up to which each may hold, so that all together hold `room_bytes`; the highest of
    `held` where all of it has room, 0 where there is no room."""
    rest = max(0, room_bytes)
    ordered = sorted(held)
    count = len(ordered)
    for at, one in enumerate(ordered):
        share = rest // (count - at)
        if one > share:
            return share
        rest -= one
    return ordered[-1] if ordered else 0


def above_level(weights: dict[str, int], level: int, stopped: frozenset[str]) -> frozenset[str]:
    """The names to be stopped now. weights: bytes by name; stopped: the answer of the last time."""
    return frozenset(
        name
        for name, weight in weights.items()
        if weight > level or (name in stopped and weight * RELEASE[1] > level * RELEASE[0])
    )


class MemoryShares:
    """What publishing connections hold of the memory, from one look to the next.

    weights: bytes of memory by connection; others: of other processes of the node; room_bytes: what
    all of these may hold, may be negative; used_bytes: use without what is reusable; lowest_bytes:
    the lowest use seen beside what connections hold and others use, -1 before the first look;
    most_*: when they held most under this alarm, bytes of messages, of memory, and the use of this
    process; most_held_bytes -1 before it; start_bytes: use above which the level falls, the mark
    or what it was passed by, -1 before an alarm."""

    def __init__(self) -> None:
        self.weights: dict[str, int] = {}
        self.others: Sequence[int] = ()
        self.room_bytes = 0
        self.used_bytes = 0
        self.lowest_bytes = -1
        self.start_bytes = -1
        self.most_held_bytes = -1
        self.most_expanded_bytes = 0
        self.most_used_bytes = 0

    def look(
        self,
        holders: list[Holder],
        left_bytes: dict[str, int],
        used_bytes: int,
        limit_bytes: int,
        clear_bytes: int,
        others: Sequence[int] = (),
    ) -> None:
        """left_bytes: by user, held by connections that have ended; used: memory; limit, clear:
        where the alarm begins and ends; others: what each other process of the node has come to
        use, bytes of `used`."""
        raw = _weights(holders, left_bytes)
        held = sum(raw.values())
        self.others = others
        elsewhere = sum(others)
        own_bytes = used_bytes - elsewhere
        self._note_lowest(own_bytes, held)
        if held > self.most_held_bytes:
            self.most_held_bytes = held
            above = max(held, own_bytes - self.lowest_bytes)
            self.most_expanded_bytes = min(EXPANSION * held, above)
            self.most_used_bytes = own_bytes
        expanded = held * self.most_expanded_bytes // max(1, self.most_held_bytes)
        returned = max(0, self.most_used_bytes - own_bytes)
        reusable = max(0, self.most_expanded_bytes - expanded - returned)
        self.used_bytes = used_bytes - reusable
        highest = limit_bytes * LATE[0] // LATE[1]
        start = self.used_bytes if self.start_bytes < 0 else self.start_bytes
        self.start_bytes = max(limit_bytes, min(start, self.used_bytes, highest))
        if held > 0:
            self.weights = {name: one * expanded // held for name, one in raw.items()}
        else:
            self.weights = raw
        beside = self.used_bytes - expanded - elsewhere
        self.room_bytes = clear_bytes - beside - FALL * max(0, self.used_bytes - self.start_bytes)

    def rest(self, own_bytes: int) -> None:
        """A look without an alarm. own: use without that of others."""
        self.most_held_bytes = -1
        self.start_bytes = -1
        self._note_lowest(own_bytes, 0)

    def _note_lowest(self, own_bytes: int, held_bytes: int) -> None:
        beside = max(0, own_bytes - held_bytes)
        if self.lowest_bytes < 0 or beside < self.lowest_bytes:
            self.lowest_bytes = beside

    def level(self) -> int:
        """What one connection may hold without being stopped first, bytes of memory."""
        return fair_level([*self.weights.values(), *self.others], self.room_bytes)

    def above(self, stopped: frozenset[str]) -> frozenset[str]:
        """Who is above the level, or was and is not yet clearly below it."""
        return above_level(self.weights, self.level(), stopped)

    def stage(self, is_targeted: bool, limit_bytes: int, before: str) -> str:
        """SOME or ALL of an alarm that is set, after a look. is_targeted: False stops all at once;
        before: the stage until now."""
        if not is_targeted or limit_bytes == 0:
            return ALL
        if self.used_bytes <= limit_bytes:
            # Shares of next to nothing change with every message: no new choice by them.
            return SOME if self.room_bytes > 0 or before == NOBODY else before
        if before == ALL and self.room_bytes * BACK < limit_bytes:
            return ALL
        return SOME if self.room_bytes > 0 else ALL

    def not_below(self, waiting: frozenset[str]) -> frozenset[str]:
        """Those of `waiting` that do not hold clearly less than one that goes on."""
        going = max((one for name, one in self.weights.items() if name not in waiting), default=0)
        return above_level(self.weights, going, waiting) & waiting

    def next_on(self, waiting: frozenset[str], room_bytes: int, count: int) -> frozenset[str]:
        """Those of `waiting` that are let on now, the alarm being over. room_bytes: up to the mark;
        count: how many waited when it began to be over."""
        many = max(1, room_bytes // SHARE_BYTES, -(-count // STEPS))
        ordered = sorted(waiting, key=lambda name: (self.weights.get(name, 0), name))
        return frozenset(ordered[:many])


def _weights(holders: list[Holder], left_bytes: dict[str, int]) -> dict[str, int]:
    count: dict[str, int] = {}
    for holder in holders:
        count[holder.user] = count.get(holder.user, 0) + 1
    return {
        holder.name: holder.held_bytes + left_bytes.get(holder.user, 0) // count[holder.user]
        for holder in holders
    }
