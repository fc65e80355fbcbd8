"""Why messages do not leave a queue or stream: consumers, leases, reader groups, drops.

It reads the windows of a consumer, of a queue, or of all consumers of a queue together; for a
leased queue it names the group that has the messages, for a stream the group that
is behind, since when.
"""

from collections.abc import Generator, Mapping
from typing import Final

from penstock.base.steps import whole
from penstock.explain.explanation import THROTTLED_SHARE
from penstock.explain.window_index import WindowIndex, indexed, paced
from penstock.telemetry.actor_window import LEASE, ActorWindow
from penstock.telemetry.snapshots import NS_PER_S
from penstock.telemetry.words import amount, called, duration, percent, rate, size

POSITION: Final = "position"
LAG_MESSAGES: Final = "lag_messages"
LAG_BYTES: Final = "lag_bytes"
LAG_MESSAGES_MAX: Final = "lag_messages_max"
LAG_BYTES_MAX: Final = "lag_bytes_max"
STILL_NS: Final = "still_ns"
LONG_NS: Final = 60_000_000_000
LEASE_BYTES: Final = "lease_bytes"
LEASE_NS: Final = "lease_ns"
"""In numbers of a consumer that is a lease: what it holds, and for how long the first of it."""
LEASE_DONE: Final = "lease_done"
"""In its numbers too: the first number of its group that is not done with."""
HELD_NS: Final = "held_ns"
"""In numbers and rates: nanoseconds in which a consumer, or each of a queue's, was held."""

ANSWER_NS: Final = "answer_ns"
"""In numbers and rates: how long the client of a consumer with a full window took to ack."""

GIVEN_NS: Final = "given_ns"
GIVEN_COUNT: Final = "given_count"
"""In numbers and rates: how long, and how often, a consumer that had room and for which messages
were ready was given some until it had no room."""

NO_WINDOW: Final = "no_window"
"""In labels: of a consumer that may be given any number of messages, so that nothing but its socket
can have kept them back; of a queue's consumers together, if that is true of each."""

PAUSED: Final = "paused"
"""In labels of a queue and its consumers: an operator has it give them nothing."""

SINGLE_ACTIVE: Final = "single_active"
"""In labels of a queue and its consumers: one of them is given messages, the others stand by."""

CONSUMERS_MANY: Final = 64
"""Consumers of one queue that are compared in one go, at most."""

GIVEN_BACK_SHARE: Final = 0.5
"""Consumers that give back so much of what they are given do not empty their queue."""

_SHARES: Final = {
    "socket": "socket_blocked",
    "flow": "flow_paused",
    "prefetch": "prefetch_full_share",
}


def lag_detail(window: ActorWindow) -> str:
    """How far behind a group is, of how much it may be, and when it last moved."""
    numbers = window.numbers
    lag = f"{amount(numbers.get(LAG_MESSAGES, 0.0))} messages behind"
    if numbers.get(LAG_MESSAGES_MAX, 0.0) > 0:
        lag += f" of {amount(numbers[LAG_MESSAGES_MAX])}"
    lag += f", {size(numbers.get(LAG_BYTES, 0.0))}"
    if numbers.get(LAG_BYTES_MAX, 0.0) > 0:
        lag += f" of {size(numbers[LAG_BYTES_MAX])}"
    still_ns = round(numbers.get(STILL_NS, 0.0))
    return f"{lag}; at offset {amount(numbers.get(POSITION, 0.0))} for {duration(still_ns)}"


def about_lag(window: ActorWindow | None, root: str) -> tuple[str, ...]:
    """What to do about a group that is behind."""
    who = called(root)
    faster = (
        f"let {who} read faster, or raise how far behind it may be: its own max_lag and the "
        "stream's x-max-lag-messages, x-max-lag-bytes"
    )
    if window is None or window.numbers.get(STILL_NS, 0.0) < LONG_NS:
        return (faster,)
    return (
        f"start the query of {who} again, it has not moved for a while; if it never comes back, "
        "end the group with stream.group.remove",
        faster,
    )


def lease_detail(window: ActorWindow, windows: Mapping[str, ActorWindow]) -> str:
    """Who leases messages of the queue that `window` is about, most first; "" for none. window:
    of a queue, of its consumers together, or of one of them."""
    return "; ".join(_one(each) for each in _leases(window, windows))


def about_leases(window: ActorWindow | None, windows: Mapping[str, ActorWindow]) -> tuple[str, ...]:
    """What would let the one who leases most of a queue's messages take more; () for none."""
    found = [] if window is None else _leases(window, windows)
    if not found:
        return ()
    who = found[0].labels[LEASE]
    return (
        f"give {who} more to do at once (maxOffsetsPerTrigger), or a faster sink",
        f"let another consumer take messages beside {who}",
    )


def _leases(window: ActorWindow, windows: Mapping[str, ActorWindow]) -> list[ActorWindow]:
    """The consumers that are leases, of the queue that `window` is about, largest first."""
    if LEASE in window.labels:
        return [window]
    queue = window.labels.get("queue", window.actor)
    found = indexed(windows).leases.get(queue, [])
    return sorted(found, key=lambda one: (-one.numbers.get("unacked", 0.0), one.actor))


def _one(window: ActorWindow) -> str:
    numbers = window.numbers
    count = numbers.get("unacked", 0.0)
    held = f"{amount(count)} message{'' if count == 1 else 's'}"
    bytes_ = size(numbers.get(LEASE_BYTES, 0.0))
    since = duration(round(numbers.get(LEASE_NS, 0.0)))
    return f"{window.labels[LEASE]} holds {held}, {bytes_}, for {since}"


def queue_detail(window: ActorWindow) -> str:
    """Why a queue's messages are not taken, from its own numbers."""
    numbers = window.numbers
    ready = numbers.get("ready", 0.0)
    backlog = f"; {amount(ready)} ready" if ready > 0 else ""
    trouble = consumer_trouble(window)
    share = percent(held_share(window))
    count = numbers.get("consumers", 0.0)
    whose = "its consumer" if count == 1 else f"its {amount(count)} consumers"
    if count == 0:
        whose = "its consumers"
    if trouble == "none":
        return f"no consumer{backlog}"
    if trouble == PAUSED:
        return f"it is paused: consumers are given nothing{backlog}"
    if trouble == "requeue":
        return f"{whose} give back {rate(window.rates['redelivered'])} of what they get{backlog}"
    if trouble == "socket":
        return f"the socket of {whose} was full {share} of the time{backlog}"
    if trouble == "flow":
        return f"{whose} paused by channel.flow {share} of the time{backlog}"
    taken = f": {rate(window.rates['acked'])} acked" if "acked" in window.rates else ""
    if trouble == "prefetch":
        return f"prefetch window of {whose} full {share} of the time{taken}{backlog}"
    if "acked" in window.rates:
        return f"consumers take {rate(window.rates['acked'])}{backlog}"
    return f"its consumers are slower than its publishers{backlog}"


def held_share(window: ActorWindow) -> float:
    """Share of the window in which a consumer, or those of a queue on average, could be given
    nothing; 0..1. Without a count of the time, the share of them held at the end stands in."""
    numbers = window.numbers
    held_ns = window.rates.get(HELD_NS, 0.0)
    if held_ns > 0.0:
        return min(1.0, held_ns / NS_PER_S / max(1.0, numbers.get("consumers", 1.0)))
    return min(1.0, max(numbers.get(name, 0.0) for name in _SHARES.values()))


def consumer_trouble(window: ActorWindow) -> str:
    """What keeps a queue's or consumer's messages back: `none` (no consumer), `socket`, `flow`
    (paused by channel.flow), `prefetch`, `paused` (by an operator), `requeue` (they give most of it
    back), or "" if nothing does for long."""
    numbers = window.numbers
    is_of_many = "consumers" in numbers
    if PAUSED in window.labels:
        return PAUSED
    if is_of_many and numbers["consumers"] == 0.0:
        return "none"
    given_back = window.rates.get("redelivered", 0.0)
    if given_back > GIVEN_BACK_SHARE * window.rates.get("delivered", 0.0):
        return "requeue"
    now = {name: numbers.get(key, 0.0) for name, key in _SHARES.items()}
    most = max(now, key=lambda name: now[name])
    if now[most] > 0.0:
        return most
    # None is held at this moment, but it was: a window that opens and closes all the time.
    if held_share(window) < THROTTLED_SHARE:
        return ""
    if NO_WINDOW in window.labels:
        return "socket"
    return "prefetch" if numbers.get("prefetch", 0.0) > 0.0 else ""


def consumer_detail(window: ActorWindow, windows: Mapping[str, ActorWindow] | None = None) -> str:
    """How fast a consumer answers, by Little's law: in flight = rate × time to ack.

    windows: where the consumers that stand behind a window of several are looked for."""
    numbers = window.numbers
    trouble = consumer_trouble(window)
    share = percent(held_share(window))
    if trouble in ("none", PAUSED, "requeue"):
        return queue_detail(window)
    leased = "" if windows is None else lease_detail(window, windows)
    if leased:
        taken = window.rates.get("acked", 0.0)
        return leased + (f"; {rate(taken)} acked" if taken > 0 else "; it acks nothing")
    if trouble == "socket":
        text = f"socket full {share}: the client does not read what is written to it"
    elif trouble == "flow":
        text = f"paused by channel.flow {share} of the time"
    elif trouble == "prefetch":
        text = f"prefetch window full {share}{_by_little(window)}"
    else:
        taken = window.rates.get("acked", 0.0)
        text = f"took {rate(taken)}, {amount(numbers.get('unacked', 0.0))} in flight"
    slowest = "" if windows is None else _slowest(window, windows)
    ready = numbers.get("ready", 0.0)
    return text + slowest + (f"; {amount(ready)} ready" if ready > 0 else "")


def _by_little(window: ActorWindow) -> str:
    answer_ns = ack_time_ns(window)
    if answer_ns == 0:
        return "" if window.rates.get("acked", 0.0) > 0 else ": it acks nothing"
    next_ns = next_delivery_ns(window)
    ours = f", the next delivery {duration(next_ns)} after the ack" if next_ns > 0 else ""
    return (
        f": an ack comes {duration(answer_ns)} after its delivery{ours}; "
        f"{amount(window.numbers['unacked'])} in flight ÷ {duration(answer_ns)} = "
        f"{rate(window.rates['acked'])}"
    )


def _slowest(window: ActorWindow, windows: Mapping[str, ActorWindow]) -> str:
    """The one consumer of a queue that is held most, where `window` is of all of them."""
    queue = window.labels.get("queue")
    if queue is None or not window.actor.startswith("consumers:"):
        return ""
    index = indexed(windows)
    if queue not in index.slowest:
        whole(_looking_for_slowest(queue, index))
    count, worst = index.slowest[queue]
    if count == 0:
        return ""
    which = "" if count == 1 else f"slowest of {count}: "
    return f" ({which}{called(worst)})"


def comparing(index: WindowIndex) -> Generator[float, None, None]:
    """Find the slowest consumer of each queue that has many, in steps; of others that is a step."""
    for one in paced(index.of_queue.items()):
        if one is None:
            yield 0.0
        elif len(one[1]) > CONSUMERS_MANY:
            yield from _looking_for_slowest(one[0], index)


def _looking_for_slowest(queue: str, index: WindowIndex) -> Generator[float, None, None]:
    count, worst = 0, (0.0, 0, "")
    for one in paced(index.of_queue.get(queue, ())):
        if one is None:
            yield 0.0
        elif not one.actor.startswith("consumers:"):
            count += 1
            worst = max(worst, (held_share(one), ack_time_ns(one), one.actor))
    index.slowest[queue] = count, worst[2]


def consumer_label(window: ActorWindow) -> str:
    """An unread socket and a pause are the client's doing, but not slow work."""
    trouble = consumer_trouble(window)
    return trouble if trouble in ("socket", "flow") else "consumer"


def next_delivery_ns(window: ActorWindow) -> int:
    """Mean nanoseconds we needed to fill its window again when it had acked and messages were
    ready; 0 if that did not happen. Of one consumer."""
    given = window.rates.get(GIVEN_COUNT, 0.0)
    return round(window.rates.get(GIVEN_NS, 0.0) / given) if given > 0 else 0


def rate_without_waits(window: ActorWindow) -> float:
    """What a consumer with a prefetch of 1 would ack a second if its next message were there when
    it acks, at least: the way to it and back is saved as well. 0.0 where nothing is known."""
    own = answer_share(window)
    if window.numbers.get("prefetch", 0.0) != 1.0 or own <= 0 or next_delivery_ns(window) == 0:
        return 0.0
    return window.rates.get("acked", 0.0) / own


def answer_share(window: ActorWindow) -> float:
    """Share of the window in which a consumer's window was full and its client had to answer."""
    return min(1.0, window.rates.get(ANSWER_NS, 0.0) / NS_PER_S)


def ack_time_ns(window: ActorWindow) -> int:
    """Mean nanoseconds from delivery to ack, by Little's law; 0 if nothing is known of it."""
    unacked = window.numbers.get("unacked", 0.0)
    acked = window.rates.get("acked", 0.0)
    given = window.rates.get(GIVEN_COUNT, 0.0)
    if window.numbers.get("prefetch", 0.0) == 1.0 and given > 0:
        # Its window is full from each delivery to its ack, which is known exactly.
        return round(window.rates.get(ANSWER_NS, 0.0) / max(acked, given))
    return round(unacked / acked * NS_PER_S) if unacked > 0 and acked > 0 else 0
