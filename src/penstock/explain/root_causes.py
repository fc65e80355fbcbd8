"""Names the cause at a root: what an actor that is not held was doing instead of its work.

The label follows the state the root spent most of its own time in: busy is `cpu`, waiting is the
outside world it waits for, and idle means that the hop in front of it is too narrow.

A store whose batch found the disk full is a root of its own: nothing is lost by it and nothing
fails, the batch is tried again until there is room, and room is all that is missing.
"""

from collections.abc import Mapping
from typing import Final

from penstock.explain.blame import Stay
from penstock.explain.consumer_causes import (
    consumer_detail,
    consumer_label,
    consumer_trouble,
    lag_detail,
    lease_detail,
    queue_detail,
)
from penstock.explain.dead_letter_causes import EXPIRED, LATE, LETTERS, letters_detail
from penstock.explain.dead_letter_causes import KIND as LETTER_KIND
from penstock.explain.window_index import indexed
from penstock.telemetry.actor_window import (
    FULL_NS,
    MAIL_SHARE,
    MAILBOX,
    OWED,
    SYNC_NS,
    SYNCS,
    ActorWindow,
)
from penstock.telemetry.words import (
    amount,
    called,
    duration,
    kind_of,
    name_of,
    percent,
    rate,
    size,
)

WANTED: Final = "wanted_bytes"
"""Beside FULL_NS: how much waits, in bytes; `mailbox` says how many messages."""
FULL_STORE: Final = "full_store"
"""In labels of a queue: the store that keeps its messages, while that waits for room."""
SYNC_NOW_NS: Final = "sync_now_ns"
"""In numbers of a store: how long the sync under way has taken; absent without one."""
REPLICAS: Final = "replicas"
"""In labels of a store of a cluster: which followers it waits for, and why."""
MIRRORS: Final = "mirrors"
"""In labels of a store, and of a queue whose messages wait: which mirrors are late, and why."""
UNCOMMITTED: Final = "uncommitted"
"""In numbers of a quorum queue: messages that its store has not answered for; absent for none."""
_ALARM: Final = "alarm:disk"


def wait_for_room(store: ActorWindow, windows: Mapping[str, ActorWindow]) -> str:
    """What a store waits for, in words without a subject; "" while it waits for no room."""
    waited_ns = store.numbers.get(FULL_NS)
    if waited_ns is None:
        return ""
    messages = store.numbers.get("mailbox", 0.0)
    what = f"{amount(messages)} messages ({size(store.numbers.get(WANTED, 0.0))}) find no room"
    if messages == 0.0:
        what = "what was acknowledged finds no room"
    alarm = windows.get(_ALARM)
    free = None if alarm is None else alarm.numbers.get("used_bytes")
    there = "" if free is None else f"; {size(free)} are free"
    return f"for {duration(round(waited_ns))}: {what}{there}"


def full_stores(windows: Mapping[str, ActorWindow]) -> list[ActorWindow]:
    """Those that wait for room now, the one that has waited longest first."""
    return sorted(
        indexed(windows).full, key=lambda window: (-window.numbers[FULL_NS], window.actor)
    )


def full_disk_note(subject: ActorWindow, windows: Mapping[str, ActorWindow]) -> tuple[str, ...]:
    """A sentence without a subject for a store that waits, and for queues whose store does."""
    waits = wait_for_room(subject, windows)
    if waits:
        return (f"waits for room on the disk {waits}; it goes on by itself when there is some",)
    store = windows.get(subject.labels.get(FULL_STORE, ""))
    if store is None:
        return ()
    return (
        f"keeps its messages in {called(store.actor)}, which waits {wait_for_room(store, windows)}",
    )


def uncommitted_note(subject: ActorWindow, windows: Mapping[str, ActorWindow]) -> tuple[str, ...]:
    """A sentence without a subject for a quorum queue that has nothing to give before its store
    answers."""
    count = subject.numbers.get(UNCOMMITTED, 0.0)
    if count == 0.0 or subject.numbers.get("ready", 0.0) > 0:
        return ()
    store = windows.get("store:" + subject.labels.get("vhost", "/"))
    where = "its store" if store is None else called(store.actor)
    waits = "" if store is None else store.labels.get(REPLICAS, "")
    why = f" ({waits})" if waits else ""
    return (f"has {amount(count)} messages that it gives out when {where} answers{why}",)


ACCOUNT_KINDS: Final = frozenset({"conn", "chan", "user", "vhost", "node"})

OF_CONSUMERS: Final = frozenset({"depth", "full", EXPIRED, LATE})
"""Reasons for which a queue takes nothing until its consumers have taken more."""

SHORT_NS: Final = 2_000_000
"""Mean hold below which an idle root means that the loop was busy elsewhere."""

MAILED_SHARE: Final = 0.5
"""A queue whose mailboxes are empty less often than this does not take what it is offered."""

BUSY_LOOP_SHARE: Final = 0.7
"""From here on an actor that was idle had to wait for its turn."""

_DISK_KINDS: Final = frozenset({"disk", "store", "wal", "writer"})
_OF_UNKNOWN_ROOT: Final = {
    "memory": "alarm:memory",
    "disk": "alarm:disk",
    "prefetch": "consumer",
    "depth": "consumer",
    "full": "consumer",
}


def name_cause(stay: Stay, windows: Mapping[str, ActorWindow]) -> tuple[str, str]:
    """The cause's label and its numbers in words (or "") of one root; see Cause for the labels."""
    window = windows.get(stay.root)
    kind = kind_of(stay.root) if window is None else window.kind
    gate = stay.path[-1].reason.partition(":")[0]
    if stay.is_circle:
        return "circle", f"{called(stay.root)} waits for itself"
    if kind == "alarm":
        return stay.root, alarm_detail(connection_of(stay.path[0].who), window, windows)
    if kind == "socket":
        return "socket", _socket_detail(stay.root, windows)
    if window is not None and FULL_NS in window.numbers:
        return "room", wait_for_room(window, windows)
    if kind == "group":
        return "lag", "" if window is None else lag_detail(window)
    if gate == "rate":
        return "rate", "" if window is None else _limit(window)
    if gate == "flow":
        return "flow", "it publishes although it was told channel.flow(active=false)"
    if window is None:
        if kind == "consumers":
            return "consumer", "no consumer"
        return _OF_UNKNOWN_ROOT.get(gate, gate or "unknown"), ""
    if gate == "debt" and kind in ACCOUNT_KINDS:
        return "debt", debt_detail(window, windows)
    if kind == "exchange":
        return "delay", delay_detail(window)
    if kind == LETTER_KIND:
        return LETTERS, letters_detail(window)
    if kind in ("consumer", "consumers"):
        return consumer_label(window), consumer_detail(window, windows)
    late = _late_mirrors(stay, gate, window, windows)
    if late:
        return "mirror", late
    stops, held_ns = _stops_of(stay, windows)
    if kind == "queue" and gate not in OF_CONSUMERS and does_not_take(window):
        if not _is_short(stops, held_ns) and processor_share(windows) < BUSY_LOOP_SHARE:
            return _not_taking(window)
    elif kind == "queue" and (gate in OF_CONSUMERS or _waits_for_consumers(window)):
        return consumer_label(window), lease_detail(window, windows) or queue_detail(window)
    found = _by_state(window, kind, gate, stops, held_ns)
    is_idle = found[0] != "cpu" and dominant_state(window) == "idle"
    if is_idle and processor_share(windows) >= BUSY_LOOP_SHARE:
        share = percent(processor_share(windows))
        return "cpu", f"the broker is busy {share} of the time with all its actors together"
    return found


def _late_mirrors(
    stay: Stay, gate: str, store: ActorWindow, windows: Mapping[str, ActorWindow]
) -> str:
    """What the mirrors of the queue wait for that the store holds, "" where none is late."""
    queue = windows.get(stay.path[-1].who)
    waits = "" if queue is None else queue.labels.get(MIRRORS, "")
    return store.labels.get(MIRRORS, "") if gate == "mirror" else waits


def does_not_take(window: ActorWindow) -> bool:
    """Whether a queue had messages in its mailboxes most of the time and was not at work."""
    mailed = window.numbers.get(MAIL_SHARE, 0.0)
    return mailed >= MAILED_SHARE and dominant_state(window) != "busy"


def processor_share(windows: Mapping[str, ActorWindow]) -> float:
    """How busy the one thread is that all actors work on, 0..1, without its system calls."""
    index = indexed(windows)
    return min(1.0, index.busy_ns / index.span_ns) if index.span_ns > 0 else 0.0


def _not_taking(window: ActorWindow) -> tuple[str, str]:
    mail = window.numbers.get(MAILBOX, 0.0)
    taken = window.rates.get("published", 0.0)
    waiting = f"{amount(mail)} messages wait in its mailboxes"
    if taken == 0.0:
        return "stuck", f"it has taken no message in this time, and {waiting}"
    busy = state_share(window, window.times.busy_ns)
    return "slow", f"it takes {rate(taken)} and is busy {busy}; {waiting}"


def _socket_detail(root: str, windows: Mapping[str, ActorWindow]) -> str:
    text = "the peer does not read what is written to it"
    window = windows.get(f"conn:{name_of(root)}")
    if window is None:
        return text
    owed = sum(count for key, count in window.numbers.items() if key.startswith(OWED))
    return f"{text}; {size(owed)} of messages wait" if owed > 0 else text


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


def delay_detail(window: ActorWindow) -> str:
    """How much a delayed message exchange holds, and when the next message goes on, or why those
    that are due do not."""
    numbers = window.numbers
    count, bytes_ = numbers.get("ready", 0.0), numbers.get("bytes", 0.0)
    held = f"{amount(count)} messages delayed, {size(bytes_)}"
    overdue_for = window.labels.get("overdue_for", "")
    if overdue_for != "":
        return f"{held}; some are overdue: {called(overdue_for)} takes no more"
    if "next_due_ns" not in numbers:
        return held
    return f"{held}; the next is due in {duration(round(numbers['next_due_ns']))}"


def _waits_for_consumers(window: ActorWindow) -> bool:
    state = dominant_state(window)
    if state == "waiting":
        return True
    # An idle queue with a backlog has no consumer to give it to, or it would be busy.
    return state == "idle" and window.numbers.get("ready", 0) > 0 and consumer_trouble(window) != ""


def _stops_of(stay: Stay, windows: Mapping[str, ActorWindow]) -> tuple[int, int]:
    """How often, and for how long in all, the last actor of the path was held by the root."""
    who = stay.path[-2].peer if len(stay.path) > 1 else ""
    if who not in windows:
        return indexed(windows).holds.get(stay.root, (0, 0))
    blocks = [block for block in windows[who].blocks if block.peer == stay.root]
    return sum(block.stops for block in blocks), sum(block.ns for block in blocks)


def _is_short(stops: int, held_ns: int) -> bool:
    """Whether the holds are so short that they are turns of the scheduler: the one loop works for
    other actors, which makes the processor the cause although the root itself was idle."""
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
        replicas = window.labels.get(REPLICAS, "")
        if replicas:
            return "replica", replicas
        sync_ns = sync_time_ns(window)
        sync = f"one sync {duration(sync_ns)}, " if sync_ns > 0 else ""
        return "disk", f"{sync}busy {busy}, waiting {waiting}"
    return ("socket" if kind == "conn" else "waiting"), f"waiting {waiting}"


def sync_time_ns(store: ActorWindow) -> int:
    """Nanoseconds that one sync of a store's files took, the mean of those that ended in the
    window; where none did, how long the one under way has taken; 0 where nothing was synced."""
    ended = store.rates.get(SYNCS, 0.0)
    if ended > 0:
        return round(store.rates.get(SYNC_NS, 0.0) / ended)
    return round(store.numbers.get(SYNC_NOW_NS, 0.0))


def connection_of(actor: str) -> str:
    """The connection an actor belongs to; the actor itself where there is none."""
    if kind_of(actor) == "chan":
        return f"conn:{name_of(actor).rpartition('/')[0]}"
    if kind_of(actor) == "consumer" and "@conn:" in actor:
        return f"conn:{actor.rpartition('@conn:')[2]}"
    return actor


def alarm_detail(
    subject: str, window: ActorWindow | None, windows: Mapping[str, ActorWindow]
) -> str:
    """What is used of what, and what `subject` has to do with it."""
    if window is None:
        return ""
    used = window.numbers.get("used_bytes")
    limit = window.numbers.get("limit_bytes")
    parts = []
    if used is not None and limit is not None:
        word = "free" if window.actor == "alarm:disk" else "used"
        parts.append(f"{size(used)} {word}, limit {size(limit)}")
    if window.actor == "alarm:disk":
        parts += [
            f"{called(store.actor)} waits {wait_for_room(store, windows)}"
            for store in full_stores(windows)
        ]
    mine = windows.get(subject)
    held = 0.0 if mine is None else mine.numbers.get("memory_bytes", 0.0)
    if window.labels.get("mode") == "targeted" and held > 0:
        node = windows.get("node")
        total = held if node is None else node.numbers.get("memory_bytes", held)
        parts.append(f"{called(subject)} holds {size(held)} of {size(max(held, total))} in queues")
    return "; ".join(parts)


def debt_detail(window: ActorWindow, windows: Mapping[str, ActorWindow]) -> str:
    """How much an account has outstanding, its limit, and where most of it is."""
    numbers = window.numbers
    parts = []
    for unit, shown in (("bytes", size), ("messages", amount)):
        high = numbers.get(f"high_{unit}", 0.0)
        if high > 0:
            word = "" if unit == "bytes" else " messages"
            parts.append(f"{shown(numbers.get(f'debt_{unit}', 0.0))}{word} outstanding, limit "
                         f"{shown(high)}{word}")  # fmt: skip
    total, most, actor = indexed(windows).debt_of(window.actor)
    if actor:
        parts.append(
            f"{amount(total)} messages outstanding, {amount(most)} of them in {called(actor)}"
        )
    return "; ".join(parts)


def rate_note(subject: ActorWindow, windows: Mapping[str, ActorWindow]) -> tuple[str, ...]:
    """A sentence without a subject for a queue whose rate limit holds publishers now."""
    limit = windows.get(f"rate:{subject.actor}") if subject.kind == "queue" else None
    if limit is None or limit.numbers.get("waiting", 0.0) == 0:
        return ()
    return (f"lets no more through than its rate limit does: {_limit(limit)}",)


def _limit(window: ActorWindow) -> str:
    """A rate limit in words."""
    numbers = window.numbers
    parts = []
    if numbers.get("messages_per_s", 0.0) > 0:
        parts.append(rate(numbers["messages_per_s"]))
    if numbers.get("bytes_per_s", 0.0) > 0:
        parts.append(f"{size(numbers['bytes_per_s'])}/s")
    if not parts:
        return ""
    passed = window.rates.get("published", 0.0)
    went = f"; {rate(passed)} passed" if passed > 0 else ""
    return f"limit {' and '.join(parts)}{went}"
