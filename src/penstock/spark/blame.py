"""Root causes: follow who holds whom to whoever is held by nobody, and charge the time there.

The open edges `actor -> peer` at one moment form the wait-for graph. Between two changes of that
graph every held actor is a *victim* of the roots its edges lead to. Its time is split equally among
several peers at every branch, in whole nanoseconds. The sweep adds up how long each state of the
graph lasted and then divides each state once, so the arithmetic is exact:

    sum of blame of a victim          = time in which at least one of its gates was closed
    blame of a victim within a bucket <= length of the bucket
    blame of two adjacent buckets     = blame of both in one pass, but for 1 ns a branch and state

A queue that waits for its consumers names the group `consumers:/orders`; the group is resolved to
the consumers of that queue which are held themselves, if any (their prefetch window is full, their
socket is), else it is a root. A cycle cannot happen in a correct broker; it is charged to the cause
"cycle" so that it shows. Source of the rule: docs/flow.md, law 10.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

ARROW: Final = " → "
UNEXPLAINED: Final = frozenset({"cycle", "unknown"})
NOBODY: Final = "nobody"

_CAUSE_OF_KIND: Final = {
    "consumers": "slow consumers",
    "consumer": "slow consumers",
    "client": "slow consumers",
    NOBODY: "no consumer",
    "socket": "slow reader",
    "conn": "broker work",
    "chan": "broker work",
    "queue": "broker work",
    "store": "disk",
    "disk": "disk",
    "quota": "quota",
    "account": "debt account",
}


class Edge(NamedTuple):
    """`actor` is held by `peer` because of `reason` in [start_ns, end_ns)."""

    actor: str
    peer: str
    reason: str
    start_ns: int
    end_ns: int


class BlameKey(NamedTuple):
    """Who suffered, whom it is charged to, under which name, by which way."""

    victim: str
    root: str
    cause: str
    path: str


State = frozenset[tuple[str, str, str]]


def sweep(
    edges: Iterable[Edge],
    members: Mapping[str, Sequence[str]],
) -> dict[BlameKey, int]:
    """Charge every nanosecond in which an actor of `edges` was held.

    edges: any order, may overlap, empty ones are ignored. members: the actors behind a group name.
    Returns blame in nanoseconds, every value > 0.
    """
    blame: dict[BlameKey, int] = {}
    for state, length_ns in state_lengths(edges).items():
        graph = _Graph(state, members)
        for victim in graph.victims():
            graph.charge(victim, length_ns, blame)
    return blame


def state_lengths(edges: Iterable[Edge]) -> dict[State, int]:
    """How long each distinct set of open edges lasted; the empty set is left out."""
    changes: list[tuple[int, int, tuple[str, str, str]]] = []
    for actor, peer, reason, start_ns, end_ns in edges:
        if end_ns > start_ns:
            changes.append((start_ns, 1, (actor, peer, reason)))
            changes.append((end_ns, -1, (actor, peer, reason)))
    changes.sort()
    lengths: dict[State, int] = {}
    open_count: dict[tuple[str, str, str], int] = {}
    since_ns = 0
    for t_ns, step, edge in changes:
        if open_count and t_ns > since_ns:
            state = frozenset(open_count)
            lengths[state] = lengths.get(state, 0) + t_ns - since_ns
        since_ns = t_ns
        count = open_count.get(edge, 0) + step
        if count:
            open_count[edge] = count
        else:
            del open_count[edge]
    assert not open_count, "every edge that opened closed again, because each brings both changes"
    return lengths


def held_ns(edges: Iterable[Edge]) -> dict[str, int]:
    """How long each actor had at least one closed gate: the other side of the books."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for edge in edges:
        if edge.end_ns > edge.start_ns and not is_group(edge.actor):
            spans.setdefault(edge.actor, []).append((edge.start_ns, edge.end_ns))
    return {actor: _union_ns(found) for actor, found in spans.items()}


def is_group(actor: str) -> bool:
    """Whether the name stands for the consumers of a queue, which are no victims themselves."""
    return actor.startswith("consumers:")


def actor_kind(actor: str) -> str:
    """The part before the first colon: conn, chan, queue, consumer, alarm, ..."""
    return actor.partition(":")[0]


def cause_of(root: str) -> str:
    """What a person calls the root: "slow consumers", "memory alarm", "disk", "broker work"."""
    kind, _, name = root.partition(":")
    if kind == "alarm":
        return f"{name} alarm"
    return _CAUSE_OF_KIND.get(kind, "unknown")


def _union_ns(spans: list[tuple[int, int]]) -> int:
    total_ns = 0
    reached_ns = 0
    for start_ns, end_ns in sorted(spans):
        total_ns += max(0, end_ns - max(start_ns, reached_ns))
        reached_ns = max(reached_ns, end_ns)
    return total_ns


class _Graph:
    """One state of the wait-for graph."""

    def __init__(self, state: State, members: Mapping[str, Sequence[str]]) -> None:
        self._peers: dict[str, list[str]] = {}
        for actor, peer, reason in sorted(state):
            # The window of a consumer is full because its own application has not acknowledged:
            # the chain ends at the consumer, whatever stands behind it.
            ends_here = actor_kind(actor) == "consumer" and reason == "prefetch"
            peers = self._peers.setdefault(actor, [])
            if not ends_here and peer not in peers:
                peers.append(peer)
        self._members = members

    def victims(self) -> list[str]:
        """Every held actor; groups are only a way through."""
        return [actor for actor in self._peers if not is_group(actor)]

    def charge(self, victim: str, length_ns: int, blame: dict[BlameKey, int]) -> None:
        self._follow(victim, length_ns, (victim,), blame)

    def _follow(
        self,
        actor: str,
        length_ns: int,
        path: tuple[str, ...],
        blame: dict[BlameKey, int],
    ) -> None:
        nexts = self._nexts(actor)
        if not nexts:
            _add(blame, path, actor, cause_of(actor), length_ns)
            return
        part_ns, rest_ns = divmod(length_ns, len(nexts))
        for index, peer in enumerate(nexts):
            share_ns = part_ns + (index < rest_ns)
            if share_ns == 0:
                continue
            if peer in path:
                _add(blame, (*path, peer), peer, "cycle", share_ns)
            else:
                self._follow(peer, share_ns, (*path, peer), blame)

    def _nexts(self, actor: str) -> list[str]:
        peers = self._peers.get(actor, [])
        if peers or not is_group(actor):
            return peers
        return [member for member in self._members.get(actor, ()) if member in self._peers]


def _add(
    blame: dict[BlameKey, int],
    path: tuple[str, ...],
    root: str,
    cause: str,
    length_ns: int,
) -> None:
    key = BlameKey(path[0], root, cause, ARROW.join(path))
    blame[key] = blame.get(key, 0) + length_ns
