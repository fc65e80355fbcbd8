"""The flow map of a time that is over: what a record knows of its actors, as hops and rates."""

from collections.abc import Iterator, Mapping
from typing import Final

from penstock.management.broker_link import Row
from penstock.management.pages.flow_map import FlowMap, flow_map
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.words import name_of

CREDIT: Final = "credit_initial:"
"""Prefix, in numbers of a channel, of what it publishes to."""
HELD_NOW: Final = 0.5
"""A record says how much of its window an actor was held by another, and not for which hop it is at
the end; from this share on the hop is drawn as held."""


def past_map(windows: Mapping[str, ActorWindow], causes: list[Row]) -> FlowMap:
    """windows: under the names people know, prolonged as `why` does it; causes: of the explanation
    of the worst publisher."""
    top = {
        "publishers": [_publisher(one) for one in windows.values() if one.kind == "conn"],
        "queues": [_queue(one) for one in windows.values() if one.kind == "queue"],
        "consumers": [_consumer(one) for one in windows.values() if _is_consumer(one)],
    }
    return flow_map(list(_hops(windows)), top, causes)


def _hops(windows: Mapping[str, ActorWindow]) -> Iterator[Row]:
    for window in windows.values():
        if window.kind == "chan":
            connection = f"conn:{name_of(window.actor).rpartition('/')[0]}"
            if connection in windows:
                yield _hop(windows[connection], window.actor)
            for key in window.numbers:
                if key.startswith(CREDIT):
                    yield _hop(window, key.removeprefix(CREDIT))
        if window.kind in ("chan", "queue", "dead"):
            yield from (_hop(window, block.peer) for block in window.blocks)


def _hop(sender: ActorWindow, receiver: str) -> Row:
    held_ns = sum(block.ns for block in sender.blocks if block.peer == receiver)
    return {
        "sender": sender.actor,
        "receiver": receiver,
        "is_blocked": sender.window_ns > 0 and held_ns >= HELD_NOW * sender.window_ns,
        "in_flight_messages": 0,
    }


def _publisher(window: ActorWindow) -> Row:
    return {
        "name": name_of(window.actor),
        "rate": window.rates.get("published", 0.0),
        "blocked_share": window.blocked_share(),
    }


def _queue(window: ActorWindow) -> Row:
    return {
        "name": name_of(window.actor),
        "in_rate": window.rates.get("published", 0.0),
        "blocked_share": window.blocked_share(),
    }


def _is_consumer(window: ActorWindow) -> bool:
    return window.kind == "consumer" and not window.actor.startswith("consumers:")


def _consumer(window: ActorWindow) -> Row:
    numbers = window.numbers
    tag, _, connection = name_of(window.actor).partition("@conn:")
    waiting = window.times.waiting_ns / window.window_ns if window.window_ns > 0 else 0.0
    return {
        "tag": tag,
        "connection": connection,
        "queue": name_of(window.labels.get("queue", "")),
        "out_rate": window.rates.get("delivered", 0.0),
        "held_share": min(1.0, waiting),
        "unacked": int(numbers.get("unacked", 0.0)),
        "prefetch": int(numbers.get("prefetch", 0.0)),
        "is_full": numbers.get("prefetch_full_share", 0.0) > 0,
    }
