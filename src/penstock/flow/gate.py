"""A gate holds one sender, for named reasons; while it is closed, grants its owner owes are kept.

    open  --close(peer, reason)-->  closed for {(peer, reason)}  --open(last reason)-->  open

A gate knows who holds it (`peer`), why (`reason`) and since when; its observer hears of every
change, once. Source: docs/flow.md; architecture section 5.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.clock import Clock

STATE_WINDOW_NS: Final = 1_000_000_000
"""A gate reports `flow` while closed and until this long after its last block *began* (2.3.10)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class GateObserver:
    """Whoever wants to hear of a gate's changes; the owner of the gate, usually an actor."""

    __slots__ = ()

    def gate_closed(self, gate: "Gate", peer: str, reason: str, now_ns: int) -> None:
        """`peer` began to hold the owner for `reason`."""

    def gate_opened(self, gate: "Gate", peer: str, reason: str, now_ns: int) -> None:
        """`peer` no longer holds the owner for `reason`; others may."""

    def grant_deferred(self, gate: "Gate", sender: str, messages: int) -> None:
        """A grant of `messages` to `sender` is kept until this gate opens."""


NOBODY: Final = GateObserver()
"""In place of an observer that has ended: nothing leads from the gate to it then."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Deferred:
    """Something that is released when a gate opens; nominal base of Hop. What waits for a gate that
    rations its grants is released in parts; a hop is not, its own room is rationed (flow/room)."""

    __slots__ = ()

    def release(self) -> None:
        raise NotImplementedError

    def kept_bytes(self) -> i64:
        """How much waits for the gate and can be released in parts; 0 if it cannot."""
        return 0

    def release_part(self, bytes_: i64) -> None:
        """Release `bytes_` of what is kept, which is more than that."""
        raise NotImplementedError


NO_REASONS: Final[dict[tuple[str, str], int]] = {}
NO_HOLDS: Final[dict[tuple[str, str], int]] = {}
NONE_DEFERRED: Final[list[Deferred]] = []
"""What all open gates share, so that thousands of them have no container of their own."""


class Gate:
    """Named reasons why one sender is held.

    name: the owner's actor id; held_ns: how long it was closed, without the hold that runs now;
    grants_under: a reason for which grants are not kept, because they are rationed (flow/room);
    is_granting: no other reason holds it; more_holds: how many hops beside the first are held by
    one peer for one reason.
    Owner: one actor; not shared between threads.
    """

    __slots__ = (
        "blocked_at_ns",
        "clock",
        "deferred",
        "grants_under",
        "held_ns",
        "is_granting",
        "is_open",
        "more_holds",
        "name",
        "observer",
        "reasons",
    )

    def __init__(self, name: str, clock: Clock, observer: GateObserver) -> None:
        self.name = name
        self.clock = clock
        self.observer = observer
        self.is_open = True
        self.is_granting = True
        self.grants_under = ""
        self.reasons: dict[tuple[str, str], int] = NO_REASONS
        self.more_holds: dict[tuple[str, str], int] = NO_HOLDS
        self.deferred: list[Deferred] = NONE_DEFERRED
        self.blocked_at_ns: int = -STATE_WINDOW_NS
        self.held_ns: int = 0

    def close(self, peer: str, reason: str) -> None:
        """Hold the owner for (`peer`, `reason`); again for the same pair changes nothing."""
        key = (peer, reason)
        if key in self.reasons:
            return
        now_ns = self.clock.monotonic_ns()
        if self.is_open:
            self.blocked_at_ns = now_ns
        if self.reasons is NO_REASONS:
            self.reasons = {}
        self.reasons[key] = now_ns
        self.is_open = False
        if reason != self.grants_under:
            self.is_granting = False
        self.observer.gate_closed(self, peer, reason, now_ns)

    def hold(self, peer: str, reason: str) -> None:
        """As `close`, for one of several hops that lead from the owner: it opens when `let_on` was
        called as often."""
        key = (peer, reason)
        if key not in self.reasons:
            self.close(peer, reason)
            return
        if self.more_holds is NO_HOLDS:
            self.more_holds = {}
        self.more_holds[key] = self.more_holds.get(key, 0) + 1

    def let_on(self, peer: str, reason: str) -> None:
        """One hop is not held any more."""
        key = (peer, reason)
        more = self.more_holds.get(key, 0)
        if more > 0:
            self.more_holds[key] = more - 1
        else:
            self.open(peer, reason)

    def open(self, peer: str, reason: str) -> None:
        """Take (`peer`, `reason`) away; when no other keeps grants, release every deferred one."""
        if self._lift(peer, reason):
            self.flush()

    def _lift(self, peer: str, reason: str) -> bool:
        """Take (`peer`, `reason`) away; True if grants are not kept any more."""
        if self.reasons.pop((peer, reason), None) is None:
            return False
        if self.more_holds:
            self.more_holds.pop((peer, reason), None)
        now_ns = self.clock.monotonic_ns()
        if not self.reasons:
            self.is_open = True
            self.held_ns += now_ns - self.blocked_at_ns
        self.is_granting = True
        for _, left in self.reasons:
            if left != self.grants_under:
                self.is_granting = False
        # On record before the grants go out, because they may open further gates upstream.
        self.observer.gate_opened(self, peer, reason, now_ns)
        return self.is_granting

    def flush(self) -> None:
        """Release what was deferred, in the order of deferral."""
        if self.deferred:
            deferred = self.deferred
            self.deferred = NONE_DEFERRED
            for item in deferred:
                item.release()

    def defer(self, item: Deferred, sender: str, messages: int) -> None:
        """Keep `item`'s grant until the gate opens."""
        self.keep(item)
        self.observer.grant_deferred(self, sender, messages)

    def keep(self, item: Deferred) -> None:
        """Release `item` when the gate opens, which no observer is told."""
        if self.deferred is NONE_DEFERRED:
            self.deferred = []
        self.deferred.append(item)

    def drop(self, item: Deferred) -> None:
        """`item` is gone: a grant kept for it would only keep it alive (law 8)."""
        if item in self.deferred:
            self.deferred.remove(item)

    def forget(self, peer: str) -> None:
        """`peer` is gone: every reason it gave goes with it."""
        for key in [key for key in self.reasons if key[0] == peer]:
            self.open(key[0], key[1])

    def state(self, now_ns: int) -> str:
        """`flow` or `running`, as RabbitMQ reports it (scenario 18)."""
        if not self.is_open or now_ns - self.blocked_at_ns < STATE_WINDOW_NS:
            return "flow"
        return "running"

    def snapshot(self) -> tuple[tuple[str, str, int], ...]:
        """(peer, reason, since_ns) of everything that holds the owner now."""
        return tuple((key[0], key[1], since) for key, since in self.reasons.items())
