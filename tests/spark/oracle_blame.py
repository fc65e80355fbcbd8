"""Root causes by a walk along the changes of one place: the naive twin of `blame_columns`.

It adds up how long each victim stood in front of each graph and then divides each of those times
once, as the columns do, so both give the same nanoseconds. Here a cycle is followed until it comes
back to an actor that is on the way already.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from penstock.spark.blame.blame import (
    ARROW,
    CAUSE_OF_CONSUMER,
    CAUSE_OF_REASON,
    CYCLE,
    BlameKey,
    actor_kind,
    cause_of,
    is_group,
)


class Edge(NamedTuple):
    """`actor` is held by `peer` because of `reason` in [start_ns, end_ns)."""

    actor: str
    peer: str
    reason: str
    start_ns: int
    end_ns: int


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
    for (victim, state), length_ns in _lengths(edges, members).items():
        _Graph(state, members).charge(victim, length_ns, blame)
    return blame


def _lengths(
    edges: Iterable[Edge], members: Mapping[str, Sequence[str]]
) -> dict[tuple[str, State], int]:
    """(victim, what it can reach of the graph) -> nanoseconds. Walks along the changes; one
    concerns those alone that meet its actor on their way."""
    changes = sorted(
        (t_ns, step, *edge[:3])
        for edge in edges
        if edge.end_ns > edge.start_ns
        for t_ns, step in ((edge.start_ns, 1), (edge.end_ns, -1))
    )
    ways: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    watched: defaultdict[str, set[str]] = defaultdict(set)
    now: dict[str, tuple[int, State, set[str]]] = {}
    found: Counter[tuple[str, State]] = Counter()
    for t_ns, same in groupby(changes, itemgetter(0)):
        touched: set[str] = set()
        for _, step, actor, peer, reason in same:
            ways[actor][peer, reason] += step
            if not ways[actor][peer, reason]:
                del ways[actor][peer, reason]
            touched |= {actor} | watched[actor]
        for victim in touched:
            if is_group(victim):
                continue
            state, met = _reach(victim, ways, members)
            since_ns, before, met_before = now.pop(victim, (t_ns, state, met))
            if before != state:
                found[victim, before] += t_ns - since_ns
                since_ns = t_ns
            if state:
                now[victim] = (since_ns, state, met)
            else:
                met = set()
            for actor in met_before - met:
                watched[actor].discard(victim)
            for actor in met:
                watched[actor].add(victim)
    assert not now, "every edge that opened has closed: each brings both changes"
    return found


def _reach(
    victim: str, ways: Mapping[str, Counter[tuple[str, str]]], members: Mapping[str, Sequence[str]]
) -> tuple[State, set[str]]:
    """The open edges that lead on from `victim`, and whom they lead to."""
    found: list[tuple[str, str, str]] = []
    met = {victim}
    ahead = [victim]
    while ahead:
        actor = ahead.pop()
        edges = ways.get(actor, ())
        found += [(actor, *edge) for edge in edges]
        nexts = {peer for peer, _ in edges} or set(members.get(actor, ()))
        ahead += nexts - met
        met |= nexts
    return frozenset(found), met


class _Graph:
    """One state of the wait-for graph."""

    def __init__(self, state: State, members: Mapping[str, Sequence[str]]) -> None:
        self._peers: dict[str, list[str]] = {}
        self._consumer_causes: dict[str, str] = {}
        self._limits: dict[tuple[str, str], str] = {}
        for actor, peer, reason in sorted(state):
            peers = self._peers.setdefault(actor, [])
            if actor_kind(actor) == "consumer" and reason in CAUSE_OF_CONSUMER:
                self._consumer_causes.setdefault(actor, CAUSE_OF_CONSUMER[reason])
            elif peer not in peers:
                peers.append(peer)
                if reason in CAUSE_OF_REASON:
                    self._limits[actor, peer] = CAUSE_OF_REASON[reason]
        self._members = members

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
            cause = self._consumer_causes.get(actor) or cause_of(actor)
            _add(blame, path, actor, cause, length_ns)
            return
        part_ns, rest_ns = divmod(length_ns, len(nexts))
        for index, peer in enumerate(nexts):
            share_ns = part_ns + (index < rest_ns)
            if share_ns == 0:
                continue
            limit = self._limits.get((actor, peer))
            if limit is not None:
                _add(blame, (*path, peer), peer, limit, share_ns)
            elif peer in path:
                _add(blame, (*path, peer), peer, CYCLE, share_ns)
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
