"""The watchdog: a hop that stays closed while its blocker finishes nothing is reported, or mended.

    closed and the blocker finishes something       -> WAITING, the clock starts anew
    closed for T, the blocker finishes nothing      -> STUCK, said once until it moves again
    the same, and the blocker sleeps on nothing     -> LOST: a repay or a grant never came, which is
                                                       a bug of ours; the hop's books start anew
In the second case somebody is at fault whom only people can help: a queue without consumers, a disk
that answers no more. Source: flow-semantics 2.3.11, 16 (W16); scenario 19.
"""

from collections.abc import Callable

from penstock.flow.hop import Hop

OPEN = 0
WAITING = 1
STUCK = 2
LOST = 3

CHAIN_MAX = 16
"""Names in one line of the log; there are fewer kinds of actors than that in a row."""

_FIXES = {
    "lag": "make the reader of that group faster, or end the group with stream.group.remove",
    "depth": "add consumers or let them work faster, or raise the queue's depth mark",
    "full": "add consumers or let them work faster, or raise the queue's maximum length",
    "debt": "see `penstock flow accounts` for what it has under way, or raise its limit",
    "socket": "its client does not read; close it or let it read",
    "unfinished": "its client begins messages that it does not end; let it end them",
    "alarm": "free the resource or raise its mark",
    "pending": "the replicas do not apply; see to their leader",
    "mirror": "a mirror does not answer; see to its node, or take it out of the queue's policy",
}

Holds = Callable[[str], tuple[tuple[str, str], ...]]
"""Who holds an actor, as (peer, reason), oldest first; empty for one that nobody holds."""


class _HopWatch:
    """One closed hop: what it had finished when, and whether that was said."""

    __slots__ = ("epoch", "is_said", "repaid", "since_ns")

    def __init__(self, hop: Hop, now_ns: int) -> None:
        self.epoch = int(hop.epoch)
        self.repaid = hop.repaid()
        self.since_ns = now_ns
        self.is_said = False

    def has_moved(self, hop: Hop) -> bool:
        return self.repaid != hop.repaid() or self.epoch != hop.epoch


class Watchdog:
    """patience_ns: T; look at every hop once a round, rounds end with `end_round`.

    stuck_count, lost_count: verdicts so far. What is remembered is one small record for each hop
    that was closed in the last round."""

    def __init__(self, patience_ns: int) -> None:
        self.patience_ns = patience_ns
        self.stuck_count = 0
        self.lost_count = 0
        self._before: dict[Hop, _HopWatch] = {}
        self._now: dict[Hop, _HopWatch] = {}

    def look(self, hop: Hop, is_asleep: bool, now_ns: int) -> int:
        """OPEN, WAITING, STUCK or LOST. is_asleep: the blocker has nothing to do for this hop and
        nobody holds it."""
        if not hop.is_spent:
            return OPEN
        watch = self._before.get(hop)
        if watch is None or watch.has_moved(hop):
            watch = _HopWatch(hop, now_ns)
        self._now[hop] = watch
        if now_ns - watch.since_ns < self.patience_ns:
            return WAITING
        if is_asleep:
            self.lost_count += 1
            del self._now[hop]
            return LOST
        if watch.is_said:
            return WAITING
        watch.is_said = True
        self.stuck_count += 1
        return STUCK

    def since_ns(self, hop: Hop) -> int:
        """When a hop that was just looked at began to wait."""
        return self._now[hop].since_ns

    def end_round(self) -> None:
        """Every hop was looked at: those that were not are forgotten."""
        self._before = self._now
        self._now = {}


def chain_of(receiver: str, holds: Holds) -> list[tuple[str, str]]:
    """Who holds whom, from `receiver` on, as (actor, reason it is held for); the last is held by
    nobody (reason ""), or is in the list already: then it is a cycle."""
    chain: list[tuple[str, str]] = []
    seen: set[str] = set()
    actor = receiver
    while len(chain) < CHAIN_MAX:
        held = holds(actor)
        chain.append((actor, held[0][1] if held else ""))
        if not held or actor in seen:
            break
        seen.add(actor)
        actor = held[0][0]
    return chain


def line_for(hop: Hop, chain: list[tuple[str, str]], waited_ns: int, is_lost: bool) -> str:
    """One line for people: who waits, how long, for whom, and what to do."""
    waited_s = waited_ns / 1_000_000_000
    text = f"{hop.name}: no credit for {waited_s:.0f} s and nothing was finished; "
    if is_lost:
        return text + (
            f"{hop.receiver} has nothing to do and owes {int(hop.in_flight)} messages: a grant was "
            "lost, which is a bug in Penstock; the credit is given back, please report it"
        )
    last = chain[-1][0]
    names = [actor for actor, _ in chain]
    if last in names[:-1]:
        ring = " -> ".join(names[names.index(last) :])
        return text + f"a cycle: {ring}; close one of its connections"
    reason = chain[-2][1] if len(chain) > 1 else ""
    path = " -> ".join(actor if why == "" else f"{actor} ({why})" for actor, why in chain)
    fix = _FIXES.get(reason, f"look at {last}: it does not finish what it was given")
    return text + f"held by {path}; {fix}"
