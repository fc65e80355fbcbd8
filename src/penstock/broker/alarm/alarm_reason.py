"""What clients and people are told about alarms: usage, limit, and the biggest queue.

    low on memory (1.90/1.90 GB); biggest: queue /events 71 %
Clients compare the beginning, which is RabbitMQ's whole text: `low on memory`, `low on disk`,
`low on disk & memory` (flow-semantics 3.4).
"""

from dataclasses import dataclass

from penstock.telemetry.words import called

TEXT_BYTES_MAX = 255
"""Of a short string on the wire."""
_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True, slots=True)
class Level:
    """How much of a resource is used (memory) or free (disk), its limit, and where an alarm ends;
    bytes."""

    now_bytes: int
    limit_bytes: int
    clear_bytes: int


def pair(now_bytes: int, limit_bytes: int) -> str:
    """Two sizes in the unit of the greater: `1.90/2.00 GB`."""
    for unit, factor in _UNITS:
        if max(now_bytes, limit_bytes) >= factor:
            return f"{now_bytes / factor:.2f}/{limit_bytes / factor:.2f} {unit}"
    return f"{now_bytes}/{limit_bytes} bytes"


def one(bytes_: int) -> str:
    """A size with two digits after the point: `1.71 GB`."""
    for unit, factor in _UNITS:
        if bytes_ >= factor:
            return f"{bytes_ / factor:.2f} {unit}"
    return f"{bytes_} bytes"


def reason(levels: dict[str, Level | None], queues: dict[str, int]) -> str:
    """The text of connection.blocked, at most TEXT_BYTES_MAX bytes. levels: of every resource that
    an alarm is set for, None where the numbers are not known; queues: bytes held, by id."""
    text = f"low on {' & '.join(sorted(levels))}"
    known = [
        ("free " if resource == "disk" else "") + pair(level.now_bytes, level.limit_bytes)
        for resource, level in sorted(levels.items())
        if level is not None
    ]
    if known:
        text += f" ({'; '.join(known)})"
    # The name of the queue gives way, because the numbers are what a reader needs.
    return text + biggest(queues, TEXT_BYTES_MAX - len(text.encode()))


def biggest(queues: dict[str, int], room_bytes: int) -> str:
    """`; biggest: queue /events 71 %` in at most `room_bytes`; "" if all queues are empty."""
    total = sum(queues.values())
    if total == 0:
        return ""
    most = max(queues, key=lambda name: (queues[name], name))
    head = "; biggest: "
    share = f" {100 * queues[most] / total:.0f} %"
    return head + _cut(called(most), room_bytes - len(head) - len(share)) + share


def _cut(text: str, room_bytes: int) -> str:
    data = text.encode("utf-8", "replace")
    if len(data) <= room_bytes:
        return data.decode()
    return data[: room_bytes - 3].decode("utf-8", "ignore") + "..."
