"""A store whose batch found the disk full: since when it waits, with how much, and who waits.

Nothing is lost by it and nothing fails: the batch is tried again until there is room. So whoever
asks about a publisher, a queue or the store has to be told that room is all that is missing.
"""

from collections.abc import Mapping
from typing import Final

from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.words import amount, called, duration, size

FULL_NS: Final = "full_ns"
"""In numbers of a store: how long its batch has waited for room; absent while none does."""
WANTED: Final = "wanted_bytes"
"""Beside it: how much waits, in bytes; `mailbox` says how many messages."""
FULL_STORE: Final = "full_store"
"""In labels of a queue: the store that keeps its messages, while that waits for room."""
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
    found = [window for window in windows.values() if FULL_NS in window.numbers]
    return sorted(found, key=lambda window: (-window.numbers[FULL_NS], window.actor))


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
