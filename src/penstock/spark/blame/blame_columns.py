"""Blame by the column: the rules of `blame.py` for all edges of many places at once, with arrays.

A place is a boot in a bucket; an edge costs about a microsecond. A *node* is an actor in one place,
a *link* one (actor, peer, reason) of it or one member of a group, a *state* what a node can reach
at a moment: its open links, each with the state of the peer behind it. So states are made from the
roots up, a level at a time, and time is divided from the victims down.

Times are places in the sorted list of all moments: sort keys stay small, whatever the width of a
bucket. How long each victim stood in front of each graph is added up and divided once, so the
arithmetic is exact.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from penstock.spark.blame.blame import ARROW, BlameKey, cause_of
from penstock.spark.blame.blame_graph import BlameGraph, Cut, Members
from penstock.spark.schema.arrow_columns import I64, NONE, spread


class _Pieces(NamedTuple):
    """In [start, end) a node's `link` is open and the peer behind it is in state `child`."""

    link: I64
    child: I64
    start: I64
    end: I64


class States:
    """All states of the levels so far, what they are made of, and when each node is in which.

    State 0 is that of an actor that is not held. `entry_*` from first_entry[state] on: its links in
    order, and the state behind each. `span_*`: by node and time, without state 0.
    """

    def __init__(self, graph: BlameGraph) -> None:
        self._graph = graph
        self.first_entry = np.zeros(2, np.int64)
        self.entry_link = self.entry_child = NONE
        self.node = np.full(1, -1, np.int64)
        self.length_ns = np.zeros(1, np.int64)
        self._span_key_start = self._span_key_end = self._span_state = NONE

    def add_level(self, level: int) -> None:
        """The states of the nodes of `level`, once those below are there."""
        graph = self._graph
        low, high = graph.first_of_level[level : level + 2]
        pieces = self._own_pieces(graph.first_of_node[low], graph.first_of_node[high])
        among = slice(*np.searchsorted(graph.group_node, (low, high)))
        if among.stop > among.start:
            of_members = self._member_pieces(graph.own_count + among.start, among)
            pieces = _Pieces(
                *(np.concatenate(both) for both in zip(pieces, of_members, strict=True))
            )
        if len(pieces.link):
            self._add(pieces)

    def _own_pieces(self, low: int, high: int) -> _Pieces:
        """Intervals cut where the peer's state changes."""
        graph = self._graph
        link, start, end = graph.link[low:high], graph.start[low:high], graph.end[low:high]
        base = graph.link_peer[link] * graph.width
        first = np.searchsorted(self._span_key_end, base + start, side="right")
        counts = np.searchsorted(self._span_key_start, base + end, side="left") - first
        owner, at = spread(counts)
        span = first[owner] + at
        held = _Pieces(
            link[owner],
            self._span_state[span],
            np.maximum(start[owner], self._span_key_start[span] - base[owner]),
            np.minimum(end[owner], self._span_key_end[span] - base[owner]),
        )
        # Between those, before and behind: one more than there are spans.
        owner, at = spread(counts + 1)
        span = first[owner] + at
        is_first, is_last = at == 0, at == counts[owner]
        edge = max(0, len(self._span_state) - 1)
        keys_start, keys_end = _padded(self._span_key_start), _padded(self._span_key_end)
        begin = np.where(is_first, start[owner], keys_end[np.clip(span - 1, 0, edge)] - base[owner])
        stop = np.where(is_last, end[owner], keys_start[np.clip(span, 0, edge)] - base[owner])
        is_some = stop > begin
        free = _Pieces(
            link[owner][is_some],
            np.zeros(int(is_some.sum()), np.int64),
            begin[is_some],
            stop[is_some],
        )
        return _Pieces(*(np.concatenate(both) for both in zip(held, free, strict=True)))

    def _member_pieces(self, first_link: int, among: slice) -> _Pieces:
        """The times in which members of groups are held."""
        graph = self._graph
        links = np.arange(first_link, first_link + among.stop - among.start, dtype=np.int64)
        base = graph.link_peer[links] * graph.width
        first = np.searchsorted(self._span_key_start, base, side="left")
        last = np.searchsorted(self._span_key_start, base + graph.width, side="left")
        owner, at = spread(last - first)
        span = first[owner] + at
        return _Pieces(
            links[owner],
            self._span_state[span],
            self._span_key_start[span] - base[owner],
            self._span_key_end[span] - base[owner],
        )

    def _add(self, pieces: _Pieces) -> None:
        graph = self._graph
        width = graph.width
        base = graph.link_node[pieces.link] * width
        key_start, key_end = base + pieces.start, base + pieces.end
        order = np.argsort(key_start, kind="stable")
        sorted_start, sorted_end = key_start[order], key_end[order]
        if np.any(sorted_start[1:] < sorted_end[:-1]):
            start, end, segment, piece = _overlaid(key_start, key_end, pieces.link)
            is_own = pieces.link[piece] < graph.own_count
            # Members count only while nothing holds the group itself.
            has_own = np.zeros(len(start), np.bool_)
            has_own[segment[is_own]] = True
            is_counted = is_own | ~has_own[segment]
            segment, piece = segment[is_counted], piece[is_counted]
        else:
            start, end, piece = sorted_start, sorted_end, order
            segment = np.arange(len(order), dtype=np.int64)
        counts = np.bincount(segment, minlength=len(start))
        first = np.cumsum(counts) - counts
        link, child = pieces.link[piece], pieces.child[piece]
        kind = _interned(link, child, segment, first, counts, len(self.node))
        _, example, kind = np.unique(kind, return_index=True, return_inverse=True)
        state = kind + len(self.node)
        self._keep_states(link, child, first[example], counts[example], start[example] // width)
        lengths = graph.moments[end % width] - graph.moments[start % width]
        np.add.at(self.length_ns, state, lengths)
        self._keep_spans(start, end, state)

    def _keep_states(self, link: I64, child: I64, first: I64, counts: I64, node: I64) -> None:
        owner, at = spread(counts)
        entry = first[owner] + at
        ends = self.first_entry[-1] + np.cumsum(counts)
        self.first_entry = np.concatenate([self.first_entry, ends])
        self.entry_link = np.concatenate([self.entry_link, link[entry]])
        self.entry_child = np.concatenate([self.entry_child, child[entry]])
        self.node = np.concatenate([self.node, node])
        self.length_ns = np.concatenate([self.length_ns, np.zeros(len(counts), np.int64)])

    def _keep_spans(self, start: I64, end: I64, state: I64) -> None:
        """Neighbours in the same state are one. A state belongs to one node."""
        is_first = np.ones(len(start), np.bool_)
        is_first[1:] = (state[1:] != state[:-1]) | (start[1:] != end[:-1])
        last = np.concatenate([np.flatnonzero(is_first)[1:] - 1, [len(start) - 1]])
        self._span_key_start = np.concatenate([self._span_key_start, start[is_first]])
        self._span_key_end = np.concatenate([self._span_key_end, end[last]])
        self._span_state = np.concatenate([self._span_state, state[is_first]])


def _padded(keys: I64) -> I64:
    """So that there is always one to look at."""
    return keys if len(keys) else np.zeros(1, np.int64)


def _overlaid(key_start: I64, key_end: I64, link: I64) -> tuple[I64, I64, I64, I64]:
    """Segments between the changes of each node: start, end; and which pieces lie on which."""
    borders = np.unique(np.concatenate([key_start, key_end]))
    first = np.searchsorted(borders, key_start)
    piece, at = spread(np.searchsorted(borders, key_end) - first)
    segment = first[piece] + at
    order = np.lexsort((link[piece], segment))
    segment, piece = segment[order], piece[order]
    used, segment = np.unique(segment, return_inverse=True)
    return borders[used], borders[used + 1], segment, piece


def _interned(link: I64, child: I64, segment: I64, first: I64, counts: I64, states: int) -> I64:
    """A number for each segment, the same for those with the same entries and no others."""
    _, entry = np.unique(link * states + child, return_inverse=True)
    kinds = int(entry.max()) + 1
    kind: I64 = entry[first].copy()
    known = kinds
    at = 1
    longer = np.flatnonzero(counts > at)
    while len(longer):
        values, found = np.unique(
            kind[longer] * kinds + entry[first[longer] + at], return_inverse=True
        )
        kind[longer] = known + found
        known += len(values)
        at += 1
        longer = longer[counts[longer] > at]
    return kind


class Blame(NamedTuple):
    """Sums of blame: of `place`, for the way `keys[key]`, in nanoseconds > 0."""

    keys: list[BlameKey]
    place: I64
    key: I64
    blamed_ns: I64


def sweep_columns(cut: Cut, members: Members) -> Blame:
    """Who is to blame in each of the places of `cut`, with the members of its boot."""
    if len(cut.actor) == 0:
        return Blame([], NONE, NONE, NONE)
    graph = BlameGraph(cut, members)
    states = States(graph)
    for level in range(graph.levels):
        states.add_level(level)
    paths = _Paths(cut.names)
    return _summed(_divide(graph, states, paths), paths)


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
    place: I64
    path: I64
    cause: I64
    length_ns: I64


def _divide(graph: BlameGraph, states: States, paths: _Paths) -> _Found:
    """Every state's time, divided among the links it leads along, until there are none."""
    link, child, first, counts, excuse = _ways(graph, states)
    state = np.flatnonzero((states.length_ns > 0) & ~graph.is_group[states.node])
    place, length_ns = graph.place[states.node[state]], states.length_ns[state]
    path = paths.grown(np.full(len(state), -1, np.int64), graph.name[states.node[state]])
    arrived = [(NONE, NONE, NONE, NONE)]
    while len(state):
        ends = counts[state] == 0
        arrived.append((place[ends], path[ends], excuse[state[ends]], length_ns[ends]))
        state, place, path, length_ns = (one[~ends] for one in (state, place, path, length_ns))
        owner, at = spread(counts[state])
        part_ns, rest = np.divmod(length_ns, counts[state])
        length_ns = part_ns[owner] + (at < rest[owner])
        entry = first[state[owner]] + at
        is_some = length_ns > 0
        owner, entry, length_ns = owner[is_some], entry[is_some], length_ns[is_some]
        place, way = place[owner], link[entry]
        path = paths.grown(path[owner], graph.name[graph.link_peer[way]])
        limit = graph.link_limit[way]
        ends = limit >= 0
        arrived.append((place[ends], path[ends], limit[ends], length_ns[ends]))
        state, place, path, length_ns = (
            one[~ends] for one in (child[entry], place, path, length_ns)
        )
    columns = [np.concatenate(parts) for parts in zip(*arrived, strict=True)]
    return _Found(graph.causes, columns[0], columns[1], columns[2], columns[3])


def _ways(graph: BlameGraph, states: States) -> tuple[I64, I64, I64, I64, I64]:
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
    pairs, pair = np.unique(found.place * (len(known) + 1) + same[way], return_inverse=True)
    sums = np.zeros(len(pairs), np.int64)
    np.add.at(sums, pair, found.length_ns)
    return Blame(list(known), pairs // (len(known) + 1), pairs % (len(known) + 1), sums)
