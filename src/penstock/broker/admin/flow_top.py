"""One frame of `penstock flow top`: publishers, queues, consumers and the node, over a window.

The shares are those of the windows `penstock why` answers from; causes are its words.
"""

from collections.abc import Callable, Mapping
from typing import Final

from penstock.broker.admin.answers_flow import ConsumerRow, Frame, PublisherRow, TopQueue
from penstock.broker.broker import Broker
from penstock.explain.consumer_causes import ack_time_ns, queue_detail
from penstock.explain.explain import explain
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.words import called, name_of

NS_PER_MS: Final = 1_000_000


def frame(
    broker: Broker, windows: Mapping[str, ActorWindow], window_s: float, sort: str, limit: int
) -> Frame:
    """windows: under the names people know; sort: of TOP_SORTS; limit: rows of each table, 1.. ."""
    now_ns = broker.clock.monotonic_ns()
    by_kind: dict[str, list[ActorWindow]] = {"conn": [], "queue": [], "consumer": []}
    for window in windows.values():
        if window.kind in by_kind and not window.actor.startswith("consumers:"):
            by_kind[window.kind].append(window)
    connections, queues, consumers = by_kind["conn"], by_kind["queue"], by_kind["consumer"]
    publishers = [w for w in connections if _rate(w, "published") > 0 or w.blocked_ns > 0]
    _order(publishers, sort, "published", ActorWindow.blocked_share)
    _order(queues, sort, "published", ActorWindow.blocked_share, "ready")
    _order(consumers, sort, "delivered", _held_share)

    def cause(kind: str, window: ActorWindow) -> str:
        return _cause(kind, window, windows, now_ns, window_s)

    return Frame(
        profile=broker.profile.name,
        uptime_s=(now_ns - broker.started_ns) / 1e9,
        window_s=max((w.window_ns for w in windows.values()), default=0) / 1e9,
        connections=len(connections),
        throttled=sum(w.blocked_share() >= 0.05 for w in connections),
        in_rate=sum(_rate(w, "published") for w in connections),
        out_rate=sum(_rate(w, "delivered") for w in queues),
        used_bytes=broker.memory_used_bytes,
        limit_bytes=broker.memory_high_bytes,
        alarms=sorted(name_of(source) for source in broker.alarms),
        publishers=[_publisher(w, cause) for w in publishers[:limit]],
        publishers_more=max(0, len(publishers) - limit),
        queues=[_queue(w, cause) for w in queues[:limit]],
        queues_more=max(0, len(queues) - limit),
        consumers=[_consumer(w) for w in consumers[:limit]],
        consumers_more=max(0, len(consumers) - limit),
    )


def _order(
    rows: list[ActorWindow],
    sort: str,
    rate: str,
    share: Callable[[ActorWindow], float],
    number: str = "",
) -> None:
    def key(window: ActorWindow) -> tuple[float, float, float, str]:
        speed = _rate(window, rate)
        if sort == "name":
            return 0.0, 0.0, 0.0, window.actor
        if sort == "rate":
            return -speed, 0.0, 0.0, window.actor
        # Shares within one percent are alike; then the one with more to do comes first.
        return -round(share(window), 2), -window.numbers.get(number, 0.0), -speed, window.actor

    rows.sort(key=key)


def _rate(window: ActorWindow, name: str) -> float:
    return window.rates.get(name, 0.0)


def _held_share(window: ActorWindow) -> float:
    return _share(window, window.times.waiting_ns)


def _share(window: ActorWindow, ns: int) -> float:
    return min(1.0, ns / window.window_ns) if window.window_ns > 0 else 0.0


def _cause(
    kind: str,
    window: ActorWindow,
    windows: Mapping[str, ActorWindow],
    now_ns: int,
    window_s: float,
) -> str:
    """What held it most: the cause's word and where, `consumer at queue /orders`."""
    if window.blocked_ns == 0:
        return ""
    causes = explain(kind, window.actor, windows, now_ns, window_s).causes
    if not causes:
        return ""
    first = causes[0]
    if first.reason == first.root or first.reason == "rate":
        return called(first.root)
    if first.root == window.actor:
        return first.reason
    return f"{first.reason} at {called(first.root)}"


def _publisher(window: ActorWindow, cause: Callable[[str, ActorWindow], str]) -> PublisherRow:
    return PublisherRow(
        name_of(window.actor),
        window.state,
        _rate(window, "published"),
        window.blocked_share(),
        window.longest_ns / NS_PER_MS,
        cause("connection", window),
    )


def _queue(window: ActorWindow, cause: Callable[[str, ActorWindow], str]) -> TopQueue:
    numbers = window.numbers
    ready = int(numbers.get("ready", 0))
    why = cause("queue", window)
    if why == "" and ready > 0:
        why = queue_detail(window).partition(";")[0]
    return TopQueue(
        name_of(window.actor),
        ready,
        int(numbers.get("unacked", 0)),
        _rate(window, "published"),
        _rate(window, "delivered"),
        _share(window, window.times.busy_ns),
        window.blocked_share(),
        _share(window, window.times.waiting_ns),
        why,
    )


def _consumer(window: ActorWindow) -> ConsumerRow:
    numbers = window.numbers
    tag, _, holder = name_of(window.actor).partition("@conn:")
    return ConsumerRow(
        holder,
        tag,
        name_of(window.labels.get("queue", "")),
        _rate(window, "delivered"),
        int(numbers.get("unacked", 0)),
        int(numbers.get("prefetch", 0)),
        numbers.get("prefetch_full_share", 0.0) > 0,
        ack_time_ns(window) / NS_PER_MS,
        _held_share(window),
    )
