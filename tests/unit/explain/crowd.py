"""A broker with very many actors, as two rounds of a history: what questions are asked of."""

from collections.abc import Iterator

from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.snapshots import (
    NEVER_BLOCKED,
    NS_PER_S,
    ActorSnapshot,
    BlockedTotals,
    BlockTotals,
    Times,
)

WINDOW_NS = 10 * NS_PER_S
CONSUMERS_OF_FIRST = 200
"""Consumers of the queue `q00000`, which is full as every tenth is."""


def history(queues: int, connections: int) -> FlightHistory:
    """Ten seconds in which each of `connections` published to two of `queues`, every tenth of which
    was full, and the first of which has very many consumers; the memory alarm was set."""
    found = FlightHistory()
    found.push(NS_PER_S, {one.actor: one for one in _actors(queues, connections, 0)})
    found.push(
        NS_PER_S + WINDOW_NS, {one.actor: one for one in _actors(queues, connections, WINDOW_NS)}
    )
    return found


def _actors(queues: int, connections: int, age_ns: int) -> Iterator[ActorSnapshot]:
    part = age_ns / WINDOW_NS
    memory = 1e6 * queues * (1 + part)
    yield ActorSnapshot(
        "node", "node", times=Times(age_ns),
        numbers={"memory_bytes": memory, "used_bytes": memory + 5e7, "limit_bytes": 3e6 * queues,
                 "base_bytes": 5e7, "peak_bytes": memory},
    )  # fmt: skip
    yield ActorSnapshot(
        "alarm:memory", "alarm", times=Times(age_ns), labels={"who": "all publishers are held"},
        numbers={"used_bytes": memory + 5e7, "limit_bytes": 3e6 * queues, "clear_bytes": 1e6},
    )  # fmt: skip
    for number in range(queues):
        yield from _queue(number, queues, connections, age_ns)
    for number in range(connections):
        yield from _connection(number, queues, age_ns)


def _queue(number: int, queues: int, connections: int, age_ns: int) -> Iterator[ActorSnapshot]:
    name, part = f"q{number:05}", age_ns / WINDOW_NS
    held_ns = age_ns * 3 // 5 if number % 10 == 0 else 0
    numbers = {
        "ready": 10.0, "consumers": 1.0, "bytes": 1e4 + number + 1e3 * part, "acked": 50.0 * part,
        "memory_bytes": 1e4 + number + 1e3 * part, "depth_bytes": 1e6, "prefetch": 10.0,
    }  # fmt: skip
    for publisher in (number, number - 1):
        if 0 <= publisher < connections:
            numbers[f"debt:conn:{_address(publisher)}"] = 5.0
            numbers[f"sent:conn:{_address(publisher)}"] = 100.0 * part
    yield ActorSnapshot(
        f"queue:/{name}", "queue", times=Times(age_ns - held_ns, 0, held_ns), numbers=numbers,
        blocked=_held(f"consumers:/{name}", "depth", held_ns),
    )  # fmt: skip
    yield ActorSnapshot(
        f"consumers:/{name}", "consumer", times=Times(age_ns), labels={"queue": f"queue:/{name}"},
        numbers=numbers | {"prefetch_full_share": 0.5},
    )  # fmt: skip
    for index in range(CONSUMERS_OF_FIRST if number == 0 else 1 if number < connections else 0):
        yield ActorSnapshot(
            f"consumer:c{index}@conn:{_address(number)}", "consumer", times=Times(0, 0, 0, age_ns),
            labels={"queue": f"queue:/{name}", "channel": "2"},
            numbers={"unacked": 10.0, "prefetch": 10.0, "acked": 50.0 * part},
        )  # fmt: skip


def _connection(number: int, queues: int, age_ns: int) -> Iterator[ActorSnapshot]:
    address, part = _address(number), age_ns / WINDOW_NS
    places = [f"queue:/q{one % queues:05}" for one in (number, number + 1)]
    held_ns = age_ns // 2 if number % 10 == 0 else 0
    times = Times(age_ns - held_ns, 0, held_ns)
    numbers = {
        "published": 200.0 * part, "routed": 200.0 * part, "memory_bytes": 1e4 + number,
        "debt_messages": 10.0, "debt_bytes": 1e4, "wait:confirms:ns": 2e9 * part,
        "wait:confirms:count": 100.0 * part, f"owed:conn:{address}": 100.0,
    }  # fmt: skip
    yield ActorSnapshot(
        f"conn:{address}", "conn", times=times, numbers=numbers,
        labels={"name": f"app-{number}", "user": "u", "vhost": "/"},
        blocked=_held(f"chan:{address}/1", "credit", held_ns),
    )  # fmt: skip
    credit: dict[str, float] = {}
    for place in places:
        credit |= {f"credit_initial:{place}": 100.0, f"credit_now:{place}": 50.0}
    yield ActorSnapshot(
        f"chan:{address}/1", "chan", times=times, labels={"confirms": "yes"},
        numbers={"published": 200.0 * part} | credit,
        blocked=_held(places[0], "credit", held_ns),
    )  # fmt: skip


def _held(peer: str, reason: str, ns: int) -> BlockedTotals:
    if ns == 0:
        return NEVER_BLOCKED
    since_ns = NS_PER_S + WINDOW_NS - ns
    return BlockedTotals(
        ns, 5, ns, since_ns, (BlockTotals(peer, reason, ns, ns, 5, ns, since_ns, since_ns),)
    )


def _address(number: int) -> str:
    return f"10.0.{number // 250}.{number % 250}:5000"
