"""One frame of `penstock flow top`: publishers, queues, consumers and the node, over a window.

The shares are those of the windows `penstock why` answers from; causes are its words.
"""

from collections.abc import Mapping
from typing import Final

from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.answers_flow import ConsumerRow, Frame, PublisherRow, TopQueue
from penstock.broker.broker import Broker
from penstock.explain.blame import following
from penstock.explain.causes import causes_of
from penstock.explain.consumer_causes import ack_time_ns, comparing, queue_detail
from penstock.explain.window_index import Least, WindowIndex, indexing, paced
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.words import called, name_of

NS_PER_MS: Final = 1_000_000


class _Table:
    """The rows of one kind that come first, of those that were looked at."""

    def __init__(self, sort: str, limit: int, rate: str, number: str = "") -> None:
        """rate: what rows are ordered by; number: of two alike the one with more of it is first."""
        self.first: Least[ActorWindow] = Least(limit)
        self._sort, self._rate, self._number = sort, rate, number

    def offer(self, window: ActorWindow, share: float) -> None:
        """share: of the window in which it was held."""
        self.first.offer(self._key(window, share), window)

    def more(self) -> int:
        """Rows that are left out."""
        return max(0, self.first.count - self.first.limit)

    def _key(self, window: ActorWindow, share: float) -> tuple[float | str, ...]:
        speed = _rate(window, self._rate)
        if self._sort == "name":
            return 0.0, 0.0, 0.0, window.actor
        if self._sort == "rate":
            return -speed, 0.0, 0.0, window.actor
        # Shares within one percent are alike; then the one with more to do comes first.
        return -round(share, 2), -window.numbers.get(self._number, 0.0), -speed, window.actor


Places = dict[str, list[tuple[float | str, ...]]]
"""Of the rows of each table, smallest first."""


def frame(
    broker: Broker, windows: Mapping[str, ActorWindow], window_s: float, sort: str, limit: int
) -> Steps[Frame]:
    """In steps. windows: under the names people know; sort: of TOP_SORTS; limit: rows of each
    table, 1.. ."""
    answer, _ = yield from placed_frame(broker, windows, window_s, sort, limit)
    return answer


def placed_frame(
    broker: Broker, windows: Mapping[str, ActorWindow], window_s: float, sort: str, limit: int
) -> Steps[tuple[Frame, Places]]:
    """The same with the places of its rows."""
    now_ns = broker.clock.monotonic_ns()
    index = yield from indexing(windows)
    yield from comparing(index)
    publishers = _Table(sort, limit, "published")
    queues = _Table(sort, limit, "published", "ready")
    consumers = _Table(sort, limit, "delivered")
    throttled, in_rate, out_rate = 0, 0.0, 0.0
    for w in paced(index.of_kind("conn")):
        if w is None:
            yield 0.0
            continue
        throttled += w.blocked_share() >= 0.05
        in_rate += _rate(w, "published")
        if _rate(w, "published") > 0 or w.blocked_ns > 0:
            publishers.offer(w, w.blocked_share())
    for w in paced(index.of_kind("queue")):
        if w is None:
            yield 0.0
            continue
        out_rate += _rate(w, "delivered")
        queues.offer(w, w.blocked_share())
    for w in paced(index.of_kind("consumer")):
        if w is None:
            yield 0.0
        elif not w.actor.startswith("consumers:"):
            consumers.offer(w, _held_share(w))
    published: list[PublisherRow] = []
    for w in publishers.first.rows():
        published.append(_publisher(w, (yield from _cause(w, index))))
        yield 0.0
    kept: list[TopQueue] = []
    for w in queues.first.rows():
        kept.append(_queue(w, (yield from _cause(w, index))))
        yield 0.0
    taken: list[ConsumerRow] = []
    for one in paced(consumers.first.rows()):
        if one is None:
            yield 0.0
        else:
            taken.append(_consumer(one))
    answer = Frame(
        profile=broker.profile.name,
        uptime_s=(now_ns - broker.started_ns) / 1e9,
        window_s=index.span_ns / 1e9,
        connections=len(index.of_kind("conn")),
        throttled=throttled,
        in_rate=in_rate,
        out_rate=out_rate,
        used_bytes=broker.memory_used_bytes,
        limit_bytes=broker.memory_high_bytes,
        alarms=sorted(name_of(source) for source in broker.alarms),
        publishers=published,
        publishers_more=publishers.more(),
        queues=kept,
        queues_more=queues.more(),
        consumers=taken,
        consumers_more=consumers.more(),
    )
    places = {
        "publishers": publishers.first.keys(),
        "queues": queues.first.keys(),
        "consumers": consumers.first.keys(),
    }
    yield from index.emptying()
    return answer, places


def _rate(window: ActorWindow, name: str) -> float:
    return window.rates.get(name, 0.0)


def _held_share(window: ActorWindow) -> float:
    return _share(window, window.times.waiting_ns)


def _share(window: ActorWindow, ns: int) -> float:
    return min(1.0, ns / window.window_ns) if window.window_ns > 0 else 0.0


def _cause(window: ActorWindow, windows: WindowIndex) -> Steps[str]:
    """What held it most: the cause's word and where, `consumer at queue /orders`."""
    if window.blocked_ns == 0:
        return ""
    causes = yield from causes_of((yield from following(window.actor, windows)), windows)
    if not causes:
        return ""
    first = causes[0]
    if first.reason == first.root or first.reason == "rate":
        return called(first.root)
    if first.root == window.actor:
        return first.reason
    return f"{first.reason} at {called(first.root)}"


def _publisher(window: ActorWindow, cause: str) -> PublisherRow:
    return PublisherRow(
        name_of(window.actor),
        window.state,
        _rate(window, "published"),
        window.blocked_share(),
        window.longest_ns / NS_PER_MS,
        cause,
    )


def _queue(window: ActorWindow, why: str) -> TopQueue:
    numbers = window.numbers
    ready = int(numbers.get("ready", 0))
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
