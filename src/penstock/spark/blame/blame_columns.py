"""Blame by the column: the rules of `blame.py` for all edges of many buckets at once, with arrays.

`blame.sweep` walks along the changes of one bucket; this gives the same sums, nanosecond for
nanosecond, at a cost of about a microsecond an edge. A *node* is an actor in one bucket, a *link*
one (actor, peer, reason) of it or one member of a group, a *state* what a node can reach at a
moment: its open links, each with the state of the peer behind it. So states are made from the roots
up, a level at a time, and time is divided from the victims down.

Times are places in the sorted list of all moments: sort keys stay small, whatever the width of a
bucket. Nodes that can reach a cycle, which only bugs make, are left to `blame.sweep`.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from penstock.spark.blame.blame import ARROW, BlameKey, Edge, cause_of, sweep
from penstock.spark.blame.blame_graph import Cut, Graph
from penstock.spark.blame.blame_states import States
from penstock.spark.schema.arrays import I64, NONE, spread


class Blame(NamedTuple):
    """Sums of blame: of `bucket`, for the way `keys[key]`, in nanoseconds > 0."""

    keys: list[BlameKey]
    bucket: I64
    key: I64
    blamed_ns: I64


def sweep_columns(cut: Cut, members: Mapping[str, Sequence[str]]) -> Blame:
    """What `blame.sweep` finds in each of the buckets of `cut`. members: as there."""
    if len(cut.actor) == 0:
        return Blame([], NONE, NONE, NONE)
    graph = Graph(cut, members)
    states = States(graph)
    for level in range(graph.levels):
        states.add_level(level)
    paths = _Paths(cut.names)
    found = _divide(graph, states, paths)
    blame = _summed(found, paths)
    return _with_cycles(blame, cut, graph, members)


class _Paths:
    """Ways from a victim on, each once; the names are put together at the end."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self.parent = self.name = NONE

    def grown(self, parent: I64, name: I64) -> I64:
        """The paths that lead from `parent` (-1 for a victim itself) to `name`."""
        size = len(self._names)
        keys, found = np.unique((parent + 1) * size + name, return_inverse=True)
        base = len(self.parent)
        self.parent = np.concatenate([self.parent, keys // size - 1])
        self.name = np.concatenate([self.name, keys % size])
        paths: I64 = base + found
        return paths

    def texts(self) -> list[tuple[str, str, str]]:
        """victim, root and path of each."""
        found: list[tuple[str, str, str]] = []
        for parent, code in zip(self.parent.tolist(), self.name.tolist(), strict=True):
            name = self._names[code]
            if parent < 0:
                found.append((name, name, name))
            else:
                victim, _, text = found[parent]
                found.append((victim, name, text + ARROW + name))
        return found


class _Found(NamedTuple):
    """Time that has arrived. cause: of Graph.causes, -1 for that of the root itself."""

    causes: list[str]
    bucket: I64
    path: I64
    cause: I64
    length_ns: I64


def _divide(graph: Graph, states: States, paths: _Paths) -> _Found:
    """Every state's time, divided among the links it leads along, until there are none."""
    link, child, first, counts, excuse = _ways(graph, states)
    state = np.flatnonzero((states.length_ns > 0) & ~graph.is_group[states.node])
    bucket, length_ns = graph.bucket[states.node[state]], states.length_ns[state]
    path = paths.grown(np.full(len(state), -1, np.int64), graph.name[states.node[state]])
    arrived = [(NONE, NONE, NONE, NONE)]
    while len(state):
        ends = counts[state] == 0
        arrived.append((bucket[ends], path[ends], excuse[state[ends]], length_ns[ends]))
        state, bucket, path, length_ns = (one[~ends] for one in (state, bucket, path, length_ns))
        owner, at = spread(counts[state])
        part_ns, rest = np.divmod(length_ns, counts[state])
        length_ns = part_ns[owner] + (at < rest[owner])
        entry = first[state[owner]] + at
        is_some = length_ns > 0
        owner, entry, length_ns = owner[is_some], entry[is_some], length_ns[is_some]
        bucket, way = bucket[owner], link[entry]
        path = paths.grown(path[owner], graph.name[graph.link_peer[way]])
        limit = graph.link_limit[way]
        ends = limit >= 0
        arrived.append((bucket[ends], path[ends], limit[ends], length_ns[ends]))
        state, bucket, path, length_ns = (
            one[~ends] for one in (child[entry], bucket, path, length_ns)
        )
    columns = [np.concatenate(parts) for parts in zip(*arrived, strict=True)]
    return _Found(graph.causes, columns[0], columns[1], columns[2], columns[3])


def _ways(graph: Graph, states: States) -> tuple[I64, I64, I64, I64, I64]:
    """By state: the links along which time goes on, one a peer; and what a consumer's says."""
    owner, _ = spread(np.diff(states.first_entry))
    excuse_of_entry = graph.link_excuse[states.entry_link]
    excuse = np.full(len(states.node), -1, np.int64)
    excused = np.flatnonzero(excuse_of_entry >= 0)[::-1]
    excuse[owner[excused]] = excuse_of_entry[excused]
    goes_on = np.flatnonzero(excuse_of_entry < 0)
    owner, link, child = owner[goes_on], states.entry_link[goes_on], states.entry_child[goes_on]
    is_first = np.ones(len(link), np.bool_)
    peer = graph.link_peer[link]
    is_first[1:] = (owner[1:] != owner[:-1]) | (peer[1:] != peer[:-1])
    owner, link, child = owner[is_first], link[is_first], child[is_first]
    counts = np.bincount(owner, minlength=len(states.node))
    return link, child, np.cumsum(counts) - counts, counts, excuse


def _summed(found: _Found, paths: _Paths) -> Blame:
    size = len(found.causes) + 1
    ways, way = np.unique(found.path * size + found.cause + 1, return_inverse=True)
    texts = paths.texts()
    keys: list[BlameKey] = []
    for number in ways.tolist():
        victim, root, text = texts[number // size]
        cause = found.causes[number % size - 1] if number % size else cause_of(root)
        keys.append(BlameKey(victim, root, cause, text))
    # A cause by a rule and the same one by the root's name are one.
    known: dict[BlameKey, int] = {}
    same = np.array([known.setdefault(key, len(known)) for key in keys], np.int64)
    buckets, bucket = np.unique(found.bucket, return_inverse=True)
    pairs, pair = np.unique(bucket * (len(known) + 1) + same[way], return_inverse=True)
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, pair, found.length_ns)
    return Blame(list(known), buckets[pairs // (len(known) + 1)], pairs % (len(known) + 1), sums)


def _with_cycles(
    blame: Blame, cut: Cut, graph: Graph, members: Mapping[str, Sequence[str]]
) -> Blame:
    """Adds those who can reach a cycle, each bucket of them by itself."""
    if not np.any(graph.is_stuck):
        return blame
    keys, rows = list(blame.keys), []
    for bucket in np.unique(graph.bucket[graph.is_stuck]).tolist():
        codes = graph.name[graph.is_stuck & (graph.bucket == bucket)]
        victims = {cut.names[code] for code in codes.tolist()}
        for key, blamed_ns in sweep(_edges(cut, bucket), members).items():
            if key.victim in victims:
                rows.append((bucket, len(keys), blamed_ns))
                keys.append(key)
    more = np.array(rows, np.int64).reshape(-1, 3)
    return Blame(
        keys,
        np.concatenate([blame.bucket, more[:, 0]]),
        np.concatenate([blame.key, more[:, 1]]),
        np.concatenate([blame.blamed_ns, more[:, 2]]),
    )


def _edges(cut: Cut, bucket: int) -> list[Edge]:
    rows = np.flatnonzero(cut.bucket == bucket)
    columns = [column[rows].tolist() for column in cut[3:]]
    return [
        Edge(cut.names[actor], cut.names[peer], cut.reasons[reason], start_ns, end_ns)
        for actor, peer, reason, start_ns, end_ns in zip(*columns, strict=True)
    ]
