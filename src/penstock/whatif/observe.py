"""From a flight history to what flowed: who published to which queue, how fast, and who took it.

The same function reads the record of a running broker and the rounds of a simulated one, so what
is compared was measured in the same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Final

from penstock.explain.remarks import CONFIRMS
from penstock.explain.root_causes import connection_of
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.telemetry.actor_window import PARKED, SENT, ActorWindow
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.snapshots import NS_PER_S, ActorSnapshot
from penstock.telemetry.window import Trail

PUBLISH_BYTES: Final = 30
"""Of a publish besides its body, about."""
SIZE_UNKNOWN: Final = 1024
STEADY_MESSAGES: Final = 10.0
STEADY_SHARE: Final = 0.25
STEADY_S: Final = 0.01
"""What a steady queue may grow or shrink by in a window: messages, a share of what it holds, or the
messages of so many seconds; whichever is most."""
HELD_SHARE: Final = 0.02
"""Of the time: who was held for less was not limited by it."""
WINDOWED_SHARE: Final = 0.5
"""Of the time in which a client was owed as much as ever: its own limit is what it waited for."""
FULL_WINDOW: Final = 0.9
"""Of the most a client was ever owed: as good as all of it."""
PAGED: Final = 2.0
"""Times its depth mark: more than what its lanes may still bring when it is reached."""
Stood = tuple[int, ActorSnapshot]
"""A snapshot and for how many nanoseconds it was how things stood."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What one connection published to one queue. blocked_share: of the time, 0..1, in which its
    connection was held, or some of its publishes were parked for the queue; unconfirmed,
    unconfirmed_max: publishes of the connection that the broker had read and not confirmed, mean
    and most; full_share: of the time in which it was the most."""

    connection: str
    queue: str
    per_s: float
    blocked_share: float
    has_confirms: bool
    unconfirmed: float = 0.0
    unconfirmed_max: int = 0
    full_share: float = 0.0

    def is_held(self) -> bool:
        """Whether the broker has kept it, or its publishes, from the queue."""
        return self.blocked_share > HELD_SHARE

    def window(self) -> int:
        """Publishes its client keeps unconfirmed at most, 0 where nothing shows that: it was held
        before it reached its own limit, or never came near it."""
        if not self.has_confirms or self.is_held() or self.full_share < WINDOWED_SHARE:
            return 0
        return self.unconfirmed_max


@dataclass(frozen=True, slots=True)
class QueueSeen:
    """One queue in the window. in_per_s, out_per_s: messages taken, and answered by consumers;
    held: messages in it, unanswered ones included, mean over the window; full_share: of its
    consumers' time in which their prefetch window was full; body_bytes: mean; span_s: the window;
    growth_per_s: slope of what it held, so a queue that swings between two levels has none;
    unacked: mean; busy_share: of the time in which a consumer had something unanswered; rounds: how
    often it was looked at."""

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
    span_s: float = 0.0
    growth_per_s: float = 0.0
    unacked: float = 0.0
    busy_share: float = 1.0
    rounds: int = 0

    def is_steady(self) -> bool:
        """Whether as much leaves it as comes, so that what it holds is no matter of when."""
        most_per_s = max(self.in_per_s, self.out_per_s)
        room = max(STEADY_MESSAGES, STEADY_SHARE * self.held, STEADY_S * most_per_s)
        return abs(self.growth_per_s) * self.span_s <= room

    def can_drain_per_s(self) -> float:
        """What its consumers can answer for certain, as far as this window shows it: what they did,
        divided by the share of time in which they had anything to do, which is known from `rounds`
        looks."""
        if self.rounds == 0:
            return self.out_per_s
        share = self.busy_share
        doubt = 1.6 * sqrt(max(share * (1 - share), 1 / self.rounds) / self.rounds)
        return self.out_per_s / min(1.0, share + doubt)

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
        mine = [
            _with_parked(
                _with_confirms(flow, trails, start_ns, look.end_ns), trails, start_ns, look.end_ns
            )
            for flow in _flows_to(actor, window, look.windows, confirming)
        ]
        flows += mine
        seen = _between(trails[actor], start_ns, look.end_ns) if actor in trails else []
        queues.append(_queue(actor, window, mine, seen, look.span_s))
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


def _with_parked(flow: Flow, trails: Mapping[str, Trail], start_ns: int, end_ns: int) -> Flow:
    """Its publishes are held while some are parked for the queue, although its client is not; not
    of one that waits for confirms all the time."""
    if flow.window():
        return flow
    trail = trails.get(flow.connection)
    seen = [] if trail is None else _between(trail, start_ns, end_ns)
    total = sum(stood for stood, _ in seen)
    if total == 0:
        return flow
    parked = sum(stood for stood, one in seen if one.numbers.get(PARKED + flow.queue, 0.0) > 0)
    return replace(flow, blocked_share=max(flow.blocked_share, parked / total))


def _with_confirms(flow: Flow, trails: Mapping[str, Trail], start_ns: int, end_ns: int) -> Flow:
    """With what its connection had unconfirmed."""
    trail = trails.get(flow.connection)
    if trail is None or not flow.has_confirms:
        return flow
    seen = [(stood, _unconfirmed(one)) for stood, one in _between(trail, start_ns, end_ns)]
    total = sum(stood for stood, _ in seen)
    if total == 0:
        return flow
    most = max(count for _, count in seen)
    full = sum(stood for stood, count in seen if count >= FULL_WINDOW * most and most > 0)
    mean = sum(stood * count for stood, count in seen) / total
    return replace(flow, unconfirmed=mean, unconfirmed_max=round(most), full_share=full / total)


def _unconfirmed(one: ActorSnapshot) -> float:
    return max(0.0, one.numbers.get("published", 0.0) - one.numbers.get("confirmed", 0.0))


def _queue(
    actor: str,
    window: ActorWindow,
    flows: Sequence[Flow],
    seen: Sequence[Stood],
    span_s: float,
) -> QueueSeen:
    ready = _mean(seen, "ready", window)
    unacked = _mean(seen, "unacked", window)
    held = ready + unacked
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
        span_s,
        _growth_per_s(seen),
        unacked,
        _busy_share(seen),
        len(seen),
    )


def _growth_per_s(seen: Sequence[Stood]) -> float:
    """Slope of what a queue held, by least squares over time; 0 of fewer than three looks."""
    total_ns = sum(stood_ns for stood_ns, _ in seen)
    if len(seen) < 3 or total_ns == 0:
        return 0.0
    at_s, rows = 0.0, []
    for stood_ns, one in seen:
        stood_s = stood_ns / NS_PER_S
        held = one.numbers.get("ready", 0.0) + one.numbers.get("unacked", 0.0)
        rows.append((stood_s, at_s + stood_s / 2, held))
        at_s += stood_s
    mean_s = sum(weight * middle for weight, middle, _ in rows) / at_s
    mean = sum(weight * held for weight, _, held in rows) / at_s
    spread = sum(weight * (middle - mean_s) ** 2 for weight, middle, _ in rows)
    common = sum(weight * (middle - mean_s) * (held - mean) for weight, middle, held in rows)
    return common / spread if spread > 0 else 0.0


def _busy_share(seen: Sequence[Stood]) -> float:
    """Of the time in which anything was unanswered; 1 where nothing is known."""
    total_ns = sum(stood_ns for stood_ns, _ in seen)
    if total_ns == 0:
        return 1.0
    return sum(stood for stood, one in seen if one.numbers.get("unacked", 0.0) > 0) / total_ns


def prefetch_of(history: FlightHistory, queue: str, window_s: float) -> int:
    """What the consumers of `queue` may have unanswered each, the smallest; 0 for no limit."""
    windows = history.over(window_s)
    found = [
        int(one.numbers.get("prefetch", 0))
        for one in windows.values()
        if one.kind == "consumer" and one.labels.get("queue") == queue
    ]
    return min((one for one in found if one > 0), default=0)


def confirm_mean_ms(seen: Observed) -> float:
    """How long the broker takes from reading a publish to confirming it, mean by Little's law; 0
    where nothing is confirmed."""
    unconfirmed = {one.connection: one.unconfirmed for one in seen.flows if one.has_confirms}
    per_s = sum(one.per_s for one in seen.flows if one.has_confirms)
    return 1000 * sum(unconfirmed.values()) / per_s if per_s > 0 else 0.0


def _between(trail: Trail, start_ns: int, end_ns: int) -> list[Stood]:
    """Each snapshot of the window with how long it stood."""
    found = []
    changes = list(trail.changes())
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
