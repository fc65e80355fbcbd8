"""What ends an alarm: less in queues where that is what takes the room, or another limit."""

from collections.abc import Mapping
from typing import Final

from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.words import called, name_of, percent, size

DISK: Final = "alarm:disk"
MEMORY: Final = "alarm:memory"
ROOM: Final = 1.5
"""A limit so many times what the broker takes by itself leaves room for messages."""


def about_alarm(alarm: str, detail: str, windows: Mapping[str, ActorWindow]) -> tuple[str, ...]:
    """Best first. alarm: DISK or MEMORY; detail: of the cause, in words, or ""."""
    queues = {
        actor: window.numbers.get("bytes", 0.0)
        for actor, window in windows.items()
        if window.kind == "queue" and window.numbers.get("bytes", 0.0) > 0
    }
    if alarm == DISK:
        free = (f"free space on the broker's disk: {detail}",) if detail else ()
        return (*free, *_drain(queues)[:1])
    own = _own_memory(windows, sum(queues.values()))
    if own:
        return own
    if not queues:
        return ()
    most = max(queues, key=lambda actor: (queues[actor], actor))
    rules = windows[most].labels.get("rules", "")
    bound = f"bound {called(most)} with x-max-length-bytes so that it cannot recur"
    return (*_drain(queues), *(() if "max-length-bytes " in rules else (bound,)))


def _drain(queues: Mapping[str, float]) -> tuple[str, ...]:
    if not queues:
        return ()
    most = max(queues, key=lambda actor: (queues[actor], actor))
    share = percent(queues[most] / sum(queues.values()))
    return (
        f"consume from or purge {called(most)}: it holds {size(queues[most])}, {share} of what is "
        f"in queues (penstock queues purge {name_of(most)})",
    )


def _own_memory(windows: Mapping[str, ActorWindow], in_queues: float) -> tuple[str, ...]:
    """Where emptying every queue would not end the memory alarm: what would."""
    node = windows.get("node")
    level = windows.get(MEMORY)
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


def _in_flight(windows: Mapping[str, ActorWindow], bytes_: float) -> tuple[str, ...]:
    """Who has most of what is neither in a queue nor the broker's own."""
    held = [
        (window.numbers.get("debt_bytes", 0.0), actor)
        for actor, window in windows.items()
        if window.kind == "conn" and window.numbers.get("debt_bytes", 0.0) > 0
    ]
    if not held:
        return ()
    most, actor = max(held)
    return (
        f"see what {called(actor)} waits for: {size(most)} of {size(bytes_)} that is on its way is "
        f"its work: penstock why connection {called(actor)}",
    )


def _counts(windows: Mapping[str, ActorWindow]) -> str:
    count = {"conn": 0, "chan": 0, "queue": 0}
    for window in windows.values():
        if window.kind in count:
            count[window.kind] += 1
    return f"{count['conn']} connections, {count['chan']} channels and {count['queue']} queues"
