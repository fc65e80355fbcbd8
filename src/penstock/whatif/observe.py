"""From a flight history to what flowed: who published to which queue, how fast, and who took it.

The same function reads the record of a running broker and the rounds of a simulated one, so what
is compared was measured in the same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.explain.remarks import CONFIRMS
from penstock.explain.root_causes import connection_of
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.telemetry.actor_window import SENT, ActorWindow
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.snapshots import NS_PER_S, ActorSnapshot
from penstock.telemetry.window import Trail

PUBLISH_BYTES: Final = 30
"""Of a publish besides its body, about."""
SIZE_UNKNOWN: Final = 1024
STEADY: Final = 0.05
PAGED: Final = 2.0
"""Times its depth mark: more than what its lanes may still bring when it is reached."""
Stood = tuple[int, ActorSnapshot]
"""A snapshot and for how many nanoseconds it was how things stood."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What one connection published to one queue. blocked_share: of the time, 0..1, in which its
    connection was held."""

    connection: str
    queue: str
    per_s: float
    blocked_share: float
    has_confirms: bool


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """One queue in the window. in_per_s, out_per_s: messages taken, and answered by consumers;
    held: messages in it, unanswered ones included, mean over the window; full_share: of its
    consumers' time in which their prefetch window was full; body_bytes: mean."""

    name: str
    in_per_s: float
    out_per_s: float
    held: float
    ready: float
    consumers: int
    full_share: float
    body_bytes: int
    depth_bytes: int
    blocked_share: float

    def is_steady(self) -> bool:
        """Whether as much leaves it as comes, so that what it holds is no matter of when."""
        return abs(self.in_per_s - self.out_per_s) <= STEADY * max(self.in_per_s, self.out_per_s)

    def is_paged(self) -> bool:
        """Whether it holds more than its mark allows in memory, so most of it lies on a disk."""
        size = self.body_bytes + PUBLISH_BYTES + MESSAGE_OVERHEAD_BYTES
        return 0 < PAGED * self.depth_bytes < self.held * size


@dataclass(frozen=True, slots=True)
class Observed:
    """span_s: how long the window really is; queues: those with traffic, busiest first."""

    span_s: float
    queues: tuple[QueueSeen, ...]
    flows: tuple[Flow, ...]

    def in_per_s(self) -> float:
        return sum(one.in_per_s for one in self.queues)


def observe(history: FlightHistory, window_s: float, until_ns: int | None = None) -> Observed:
    """What flowed in the last `window_s` seconds before `until_ns`, None for the end."""
    look = history.look(window_s, until_ns)
    start_ns = look.end_ns - round(look.span_s * NS_PER_S)
    trails = dict(history.coarse.trails())
    trails.update(history.fine.trails())
    confirming = {
        connection_of(actor)
        for actor, window in look.windows.items()
        if window.kind == "chan" and window.labels.get(CONFIRMS) == "yes"
    }
    flows: list[Flow] = []
    queues: list[QueueSeen] = []
    for actor, window in look.windows.items():
        in_per_s = window.rates.get("published", 0.0)
        out_per_s = window.rates.get("acked", 0.0)
        if window.kind != "queue" or in_per_s + out_per_s == 0:
            continue
        mine = list(_flows_to(actor, window, look.windows, confirming))
        flows += mine
        seen = _between(trails[actor], start_ns, look.end_ns) if actor in trails else []
        queues.append(_queue(actor, window, mine, seen))
    queues.sort(key=lambda one: -one.in_per_s)
    return Observed(look.span_s, tuple(queues), tuple(flows))


def _flows_to(
    actor: str, window: ActorWindow, windows: Mapping[str, ActorWindow], confirming: set[str]
) -> "list[Flow]":
    found = []
    for name, per_s in window.rates.items():
        if name.startswith(SENT) and per_s > 0:
            connection = name.removeprefix(SENT)
            sender = windows.get(connection)
            share = 0.0 if sender is None else sender.blocked_share()
            found.append(Flow(connection, actor, per_s, share, connection in confirming))
    return found


def _queue(
    actor: str, window: ActorWindow, flows: Sequence[Flow], seen: Sequence[Stood]
) -> QueueSeen:
    ready = _mean(seen, "ready", window)
    held = ready + _mean(seen, "unacked", window)
    at_rest = _mean(seen, "bytes", window)
    size = at_rest / held - MESSAGE_OVERHEAD_BYTES - PUBLISH_BYTES if held >= 1 else SIZE_UNKNOWN
    sent = sum(flow.per_s for flow in flows)
    blocked = sum(flow.per_s * flow.blocked_share for flow in flows)
    numbers = window.numbers
    return QueueSeen(
        actor,
        window.rates.get("published", 0.0),
        window.rates.get("acked", 0.0),
        held,
        ready,
        int(numbers.get("consumers", 0)),
        _mean(seen, "prefetch_full_share", window),
        max(1, round(size)),
        int(numbers.get("depth_bytes", 0)),
        blocked / sent if sent > 0 else 0.0,
    )


def prefetch_of(history: FlightHistory, queue: str, window_s: float) -> int:
    """What the consumers of `queue` may have unanswered each, the smallest; 0 for no limit."""
    windows = history.over(window_s)
    found = [
        int(one.numbers.get("prefetch", 0))
        for one in windows.values()
        if one.kind == "consumer" and one.labels.get("queue") == queue
    ]
    return min((one for one in found if one > 0), default=0)


def _between(trail: Trail, start_ns: int, end_ns: int) -> list[Stood]:
    """Each snapshot of the window with how long it stood."""
    found = []
    changes = trail.changes
    for index, (at_ns, snapshot) in enumerate(changes):
        next_ns = changes[index + 1][0] if index + 1 < len(changes) else end_ns
        stood_ns = min(next_ns, end_ns) - max(at_ns, start_ns)
        if stood_ns > 0:
            found.append((stood_ns, snapshot))
    return found


def _mean(seen: Sequence[Stood], name: str, window: ActorWindow) -> float:
    """Of a number of the moment, over time; what it is at the end where nothing else is known."""
    total_ns = sum(stood_ns for stood_ns, _ in seen)
    if total_ns == 0:
        return window.numbers.get(name, 0.0)
    return sum(stood * one.numbers.get(name, 0.0) for stood, one in seen) / total_ns
