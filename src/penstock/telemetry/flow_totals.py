"""How long senders were held, by whom and why, since the broker started: sums that never fall.

Made from the recorder's rounds, once a second: an actor that ends takes what it did since its last
round with it, less than a second. Bound: one snapshot an actor, and a sum for each pair of kinds
and reason.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from penstock.telemetry.snapshots import (
    NEVER_BLOCKED,
    NO_TIME,
    OTHERS,
    ActorSnapshot,
    BlockedTotals,
    per_second,
)

ROUNDS: Final = 11
"""Sums that are kept, of one round each: ten seconds lie between the first and the last."""
PASSED: Final = ("published", "confirmed", "delivered", "acked", "redelivered")
"""Messages that are summed up, of connections and of queues."""
STEP_ACTORS: Final = 512
"""Actors that are forgotten in one step."""
Edge = tuple[str, str, str]


class FlowTotals:
    """blocked_ns: nanoseconds by kind of sender, kind of receiver and reason; stops: how often
    senders of a kind were held; spent_ns: nanoseconds by kind and `busy`, `blocked` or `waiting`;
    passed: messages by `conn:published` and so on, see PASSED.
    """

    __slots__ = ("_before", "_now", "_rounds", "blocked_ns", "passed", "spent_ns", "stops")

    def __init__(self) -> None:
        self.passed: dict[str, float] = {}
        self._rounds: deque[tuple[int, dict[str, float], dict[Edge, int]]] = deque(maxlen=ROUNDS)
        self.blocked_ns: dict[Edge, int] = {}
        self.stops: dict[str, int] = {}
        self.spent_ns: dict[tuple[str, str], int] = {}
        self._before: dict[str, ActorSnapshot] = {}
        self._now: dict[str, ActorSnapshot] = {}

    def begin(self) -> None:
        """A round begins. One that was given up counts as far as it came."""
        self._before |= self._now
        self._now = {}

    def take(self, new: ActorSnapshot) -> None:
        """One actor of the round."""
        old = self._before.pop(new.actor, None)
        self._now[new.actor] = new
        if old is new:
            return
        if old is None or old.started_ns != new.started_ns:
            times, blocked = NO_TIME, NEVER_BLOCKED
        else:
            times, blocked = old.times, old.blocked
        self._spend(new.kind, "busy", new.times.busy_ns - times.busy_ns)
        self._spend(new.kind, "blocked", new.times.blocked_ns - times.blocked_ns)
        self._spend(new.kind, "waiting", new.times.waiting_ns - times.waiting_ns)
        if new.kind in ("conn", "queue"):
            self._pass(new, None if times is NO_TIME else old)
        if new.blocked is not NEVER_BLOCKED:
            self._hold(new.kind, blocked, new.blocked)

    def latest(self) -> list[ActorSnapshot]:
        """Every actor as it was seen last; in a round some that have ended since are among them."""
        return [*self._now.values(), *self._before.values()]

    def rates(self) -> dict[str, float]:
        """What `passed` a second in the last ROUNDS."""
        if len(self._rounds) < 2:
            return {}
        (start_ns, first, _), (end_ns, last, _) = self._rounds[0], self._rounds[-1]
        return {
            name: per_second(count - first.get(name, 0.0), end_ns - start_ns)
            for name, count in last.items()
        }

    def blocked_lately(self) -> dict[Edge, int]:
        """By how many nanoseconds `blocked_ns` has grown in the last ROUNDS; only what has."""
        if len(self._rounds) < 2:
            return {}
        first, last = self._rounds[0][2], self._rounds[-1][2]
        grown = {edge: ns - first.get(edge, 0) for edge, ns in last.items()}
        return {edge: ns for edge, ns in grown.items() if ns > 0}

    def ending(self, now_ns: int) -> Iterator[None]:
        """The round is complete: who was not met is forgotten, in steps. now_ns: when it began."""
        while self._before:
            self._before.popitem()
            if len(self._before) % STEP_ACTORS == 0:
                yield None
        self._before, self._now = self._now, {}
        self._rounds.append((now_ns, dict(self.passed), dict(self.blocked_ns)))

    def _pass(self, new: ActorSnapshot, old: ActorSnapshot | None) -> None:
        for name in PASSED:
            count = new.numbers.get(name, 0.0)
            if old is not None:
                count -= old.numbers.get(name, 0.0)
            if count > 0:
                key = f"{new.kind}:{name}"
                self.passed[key] = self.passed.get(key, 0.0) + count

    def _spend(self, kind: str, mode: str, ns: int) -> None:
        if ns > 0:
            key = (kind, mode)
            self.spent_ns[key] = self.spent_ns.get(key, 0) + ns

    def _hold(self, kind: str, old: BlockedTotals, new: BlockedTotals) -> None:
        stops = new.stops - old.stops
        if stops > 0:
            self.stops[kind] = self.stops.get(kind, 0) + stops
        left = new.blocked_ns - old.blocked_ns
        if left <= 0:
            return
        before = {(one.peer, one.reason, one.first_ns): one.ns for one in old.blocks}
        for one in new.blocks:
            if one.peer == OTHERS:
                continue
            ns = min(left, one.ns - before.get((one.peer, one.reason, one.first_ns), 0))
            if ns > 0:
                self._add((kind, one.peer.partition(":")[0], one.reason), ns)
                left -= ns
        if left > 0:
            # Pairs that were folded together to bound how many there are.
            self._add((kind, OTHERS, OTHERS), left)

    def _add(self, edge: Edge, ns: int) -> None:
        self.blocked_ns[edge] = self.blocked_ns.get(edge, 0) + ns
