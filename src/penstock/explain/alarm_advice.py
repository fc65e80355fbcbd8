"""What ends an alarm: less in queues where that is what takes the room, or another limit."""

from collections.abc import Mapping
from typing import Final

from penstock.explain.window_index import WindowIndex, indexed
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.words import called, name_of, percent, size

DISK: Final = "alarm:disk"
MEMORY: Final = "alarm:memory"
ROOM: Final = 1.5
"""A limit so many times what the broker takes by itself leaves room for messages."""


def about_alarm(alarm: str, detail: str, windows: Mapping[str, ActorWindow]) -> tuple[str, ...]:
    """Best first. alarm: DISK or MEMORY; detail: of the cause, in words, or ""."""
    index = indexed(windows)
    if alarm == DISK:
        free = (f"free space on the broker's disk: {detail}",) if detail else ()
        return (*free, *_drain(index)[:1])
    own = _own_memory(index)
    if own:
        return own
    most = index.largest
    if not most:
        return ()
    rules = index[most].labels.get("rules", "")
    bound = f"bound {called(most)} with x-max-length-bytes so that it cannot recur"
    return (*_drain(index), *(() if "max-length-bytes " in rules else (bound,)))


def _drain(index: WindowIndex) -> tuple[str, ...]:
    most = index.largest
    if not most:
        return ()
    held = index[most].numbers.get("bytes", 0.0)
    share = percent(held / index.queue_bytes)
    return (
        f"consume from or purge {called(most)}: it holds {size(held)}, {share} of what is "
        f"in queues (penstock queues purge {name_of(most)})",
    )


def _own_memory(windows: WindowIndex) -> tuple[str, ...]:
    """Where emptying every queue would not end the memory alarm: what would."""
    node = windows.get("node")
    level = windows.get(MEMORY)
    in_queues = windows.queue_bytes
    if node is None or level is None:
        return ()
    used = level.numbers.get("used_bytes", 0.0)
    clear = level.numbers.get("clear_bytes", 0.0)
    if used - in_queues < clear or clear <= 0:
        return ()
    held = node.numbers.get("memory_bytes", 0.0)
    own = max(0.0, used - held)
    if own < clear:
        return _in_flight(windows, held - in_queues)
    wanted = own * ROOM + in_queues
    return (
        f"raise the limit, if the machine has the memory: the broker itself takes {size(own)}, so "
        f"the alarm ends with no queue: penstock flow set memory.high={wanted / 1e6:.0f}MB",
        f"or have fewer connections, channels and queues: with {_counts(windows)} there is nothing "
        "to consume that would help",
    )


def _in_flight(windows: WindowIndex, bytes_: float) -> tuple[str, ...]:
    """Who has most of what is neither in a queue nor the broker's own."""
    actor = windows.most_in_debt
    if not actor:
        return ()
    most = windows[actor].numbers.get("debt_bytes", 0.0)
    return (
        f"see what {called(actor)} waits for: {size(most)} of {size(bytes_)} that is on its way is "
        f"its work: penstock why connection {called(actor)}",
    )


def _counts(windows: WindowIndex) -> str:
    count = {kind: len(windows.of_kind(kind)) for kind in ("conn", "chan", "queue")}
    return f"{count['conn']} connections, {count['chan']} channels and {count['queue']} queues"
