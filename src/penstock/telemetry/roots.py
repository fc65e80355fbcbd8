"""Names the cause at a root: what an actor that nobody holds was doing instead of its work.

The label follows the state the root spent most of its own time in: busy is `cpu`, waiting is the
outside world it waits for, and idle means that the hop in front of it is too narrow.
"""

from collections.abc import Mapping
from typing import Final

from penstock.telemetry.blame import Stay
from penstock.telemetry.window import ActorWindow
from penstock.telemetry.words import amount, called, duration, kind_of, percent, rate, size

DEBT: Final = "debt:"
"""Prefix, in ActorSnapshot.numbers, of the messages an account has outstanding at the actor."""

SHORT_NS: Final = 2_000_000
"""Mean hold below which an idle root means that the loop was busy elsewhere."""

_DISK_KINDS: Final = frozenset({"disk", "store", "wal", "writer"})
_OF_UNKNOWN_ROOT: Final = {
    "memory": "alarm:memory",
    "disk": "alarm:disk",
    "prefetch": "consumer",
    "depth": "consumer",
}


def name_cause(stay: Stay, windows: Mapping[str, ActorWindow]) -> tuple[str, str]:
    """The cause's label and its numbers in words (or "") of one root; see Cause for the labels."""
    window = windows.get(stay.root)
    kind = kind_of(stay.root) if window is None else window.kind
    gate = stay.path[-1].reason.partition(":")[0]
    if stay.is_circle:
        return "circle", f"{called(stay.root)} waits for itself"
    if kind == "alarm":
        return stay.root, "" if window is None else _used(window)
    if kind == "socket":
        return "socket", "the peer does not read what is written to it"
    if window is None:
        return _OF_UNKNOWN_ROOT.get(gate, gate or "unknown"), ""
    if gate == "debt" and kind in ("conn", "chan"):
        return "debt", _outstanding(stay.root, windows)
    if kind == "consumer":
        return "consumer", consumer_detail(window)
    if kind == "queue" and (gate == "depth" or _waits_for_consumers(window)):
        return "consumer", queue_detail(window)
    stops, held_ns = _stops_of(stay, windows)
    return _by_state(window, kind, gate, stops, held_ns)


def dominant_state(window: ActorWindow) -> str:
    """`busy`, `waiting` or `idle`, whichever took most of the time the actor was not blocked;
    "" if none took any.

    An actor that was held itself for a while is idle because of that, so idle then counts only
    where there is nothing else.
    """
    times = window.times
    most_ns = max(times.busy_ns, times.waiting_ns)
    if window.blocked_ns == 0 or most_ns == 0:
        most_ns = max(most_ns, times.idle_ns)
    if most_ns == 0:
        return ""
    if times.busy_ns == most_ns:
        return "busy"
    return "waiting" if times.waiting_ns == most_ns else "idle"


def state_share(window: ActorWindow, state_ns: int) -> str:
    """`state_ns` of the window as a percentage."""
    return percent(state_ns / window.window_ns if window.window_ns > 0 else 0.0)


def queue_detail(window: ActorWindow) -> str:
    """Why a queue's messages are not taken, from its own numbers."""
    numbers = window.numbers
    ready = numbers.get("ready", 0.0)
    backlog = f"; {amount(ready)} ready" if ready > 0 else ""
    trouble = consumer_trouble(window)
    if trouble == "none":
        return f"no consumer{backlog}"
    if trouble == "socket":
        share = percent(numbers["socket_blocked"])
        return f"the sockets of {share} of its consumers are full{backlog}"
    if trouble == "prefetch":
        share = percent(numbers["prefetch_full_share"])
        return f"prefetch window full at {share} of its consumers{backlog}"
    if "acked" in window.rates:
        return f"consumers take {rate(window.rates['acked'])}{backlog}"
    return f"its consumers are slower than its publishers{backlog}"


def consumer_trouble(window: ActorWindow) -> str:
    """What keeps a queue's or consumer's messages back: `none` (no consumer), `socket`,
    `prefetch`, or "" if the numbers do not say."""
    numbers = window.numbers
    if window.kind == "queue" and numbers.get("consumers", 1.0) == 0.0:
        return "none"
    socket = numbers.get("socket_blocked", 0.0)
    prefetch = numbers.get("prefetch_full_share", 0.0)
    if socket > 0.0 and socket >= prefetch:
        return "socket"
    return "prefetch" if prefetch > 0.0 else ""


def consumer_detail(window: ActorWindow) -> str:
    """How fast a consumer answers, by Little's law: in flight = rate × time to ack."""
    numbers = window.numbers
    trouble = consumer_trouble(window)
    if trouble == "socket":
        return f"its socket is full {percent(numbers['socket_blocked'])}"
    text = "prefetch window full"
    if trouble == "prefetch":
        text = f"prefetch window full {percent(numbers['prefetch_full_share'])}"
    answer_ns = ack_time_ns(window)
    if answer_ns == 0:
        return text
    return (
        f"{text}: it acks after {duration(answer_ns)} each; {amount(numbers['unacked'])} in flight"
        f" ÷ {duration(answer_ns)} = {rate(window.rates['acked'])}"
    )


def ack_time_ns(window: ActorWindow) -> int:
    """Mean nanoseconds from delivery to ack, by Little's law; 0 if nothing is known of it."""
    unacked = window.numbers.get("unacked", 0.0)
    acked = window.rates.get("acked", 0.0)
    return round(unacked / acked * 1e9) if unacked > 0 and acked > 0 else 0


def debt_of(account: str, windows: Mapping[str, ActorWindow]) -> list[tuple[float, str]]:
    """Where an account's outstanding messages are: (messages, actor), most first."""
    key = DEBT + account
    found = [(w.numbers[key], actor) for actor, w in windows.items() if w.numbers.get(key, 0) > 0]
    return sorted(found, key=lambda pair: (-pair[0], pair[1]))


def _waits_for_consumers(window: ActorWindow) -> bool:
    state = dominant_state(window)
    if state == "waiting":
        return True
    # An idle queue with a backlog has nobody to give it to, or it would be busy.
    return state == "idle" and window.numbers.get("ready", 0) > 0 and consumer_trouble(window) != ""


def _stops_of(stay: Stay, windows: Mapping[str, ActorWindow]) -> tuple[int, int]:
    """How often, and for how long in all, the last actor of the path was held by the root."""
    who = stay.path[-2].peer if len(stay.path) > 1 else ""
    holders = [windows[who]] if who in windows else list(windows.values())
    stops = 0
    held_ns = 0
    for window in holders:
        for block in window.blocks:
            if block.peer == stay.root:
                stops += block.stops
                held_ns += block.ns
    return stops, held_ns


def _is_short(stops: int, held_ns: int) -> bool:
    """Whether the holds are so short that they are turns of the scheduler: the one loop works for
    somebody else, which makes the processor the cause although the root itself was idle."""
    return stops > 0 and held_ns // stops < SHORT_NS


def _by_state(
    window: ActorWindow, kind: str, gate: str, stops: int, held_ns: int
) -> tuple[str, str]:
    state = dominant_state(window)
    times = window.times
    busy = state_share(window, times.busy_ns)
    waiting = state_share(window, times.waiting_ns)
    if state == "busy":
        return "cpu", f"busy {busy}"
    if state == "idle" and _is_short(stops, held_ns):
        each = duration(held_ns // stops)
        return "cpu", f"{amount(stops)} stops of {each}: the broker is at work on other turns"
    if state == "idle":
        idle = state_share(window, times.idle_ns)
        return ("credit" if gate in ("", "credit") else gate), f"idle {idle}"
    if state == "":
        return gate or "unknown", ""
    if kind in _DISK_KINDS:
        sync_ns = round(window.numbers.get("fsync_p50_ns", 0.0))
        sync = f"one sync {duration(sync_ns)}, " if sync_ns > 0 else ""
        return "disk", f"{sync}busy {busy}, waiting {waiting}"
    return ("socket" if kind == "conn" else "waiting"), f"waiting {waiting}"


def _used(window: ActorWindow) -> str:
    used = window.numbers.get("used_bytes")
    limit = window.numbers.get("limit_bytes")
    if used is None or limit is None:
        return ""
    word = "free" if window.actor == "alarm:disk" else "used"
    return f"{size(used)} {word}, limit {size(limit)}"


def _outstanding(account: str, windows: Mapping[str, ActorWindow]) -> str:
    found = debt_of(account, windows)
    if not found:
        return ""
    total = sum(messages for messages, _ in found)
    most, actor = found[0]
    return f"{amount(total)} messages outstanding, {amount(most)} of them in {called(actor)}"
