"""The wait-for graph of many buckets as arrays: nodes by level, and when each link is open.

A *place* is one boot of a broker in one bucket. No edge leads from one place to another, whatever
names they have in common.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from penstock.spark.blame.blame import (
    CAUSE_OF_CONSUMER,
    CAUSE_OF_REASON,
    CYCLE,
    actor_kind,
    is_group,
)
from penstock.spark.schema.arrow_columns import I64, NONE, spread, united

Members = Mapping[tuple[str, str], Sequence[str]]
"""By boot and the name of a group: the consumers behind it."""


class Places(NamedTuple):
    """By number of a place: its boot in `boots`, which are (node, boot_id), and its bucket."""

    boots: Sequence[tuple[str, str]]
    boot: I64
    bucket_ns: I64


class Cut(NamedTuple):
    """Edges, none across the border of a place. names, reasons: sorted, what the codes stand for.

    place: in `places`; actor, peer: in `names`; reason: in `reasons`; start_ns, end_ns: of the
    edge, which is not empty."""

    names: Sequence[str]
    reasons: Sequence[str]
    places: Places
    place: I64
    actor: I64
    peer: I64
    reason: I64
    start_ns: I64
    end_ns: I64


class BlameGraph:
    """The nodes by level, the links by node, and the intervals in which links are open.

    Level 0 holds what has no links: the roots. What is in a cycle or can reach one is `is_stuck`:
    its links to others of that kind end there, with a cause of their own.
    """

    def __init__(self, cut: Cut, members: Members) -> None:
        size = len(cut.names)
        held, peers = cut.place * size + cut.actor, cut.place * size + cut.peer
        keys = np.unique(np.concatenate([held, peers]))
        actor, peer = np.searchsorted(keys, held), np.searchsorted(keys, peers)
        group, member = _member_links(cut, members, keys, np.unique(actor))
        pairs = np.unique(actor * len(keys) + peer)
        holder, behind = np.divmod(pairs, len(keys))
        level = _levels(holder, behind, group, member, len(keys))
        is_stuck = level < 0
        if np.any(is_stuck):
            # Each cycle has a link that is no group's: from a member of it to somebody else.
            is_left = ~(is_stuck[holder] & is_stuck[behind])
            level = _levels(holder[is_left], behind[is_left], group, member, len(keys))
        # From here on nodes are numbered by level.
        self.levels = int(level.max()) + 1
        order = np.argsort(level, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        self.first_of_level = np.searchsorted(level[order], np.arange(self.levels + 1))
        self.name = keys[order] % size
        self.place = keys[order] // size
        self.is_stuck = is_stuck[order]
        self.is_group = np.array([is_group(name) for name in cut.names], np.bool_)[self.name]
        by_group = np.argsort(place[group], kind="stable")
        self.group_node = place[group][by_group]
        self._links(cut, place[actor], place[peer], place[member][by_group])
        self._rules(cut)

    def _links(self, cut: Cut, actor: I64, peer: I64, member: I64) -> None:
        """Those of actors first, in order of node, peer and reason; then those of groups."""
        by_name, by_reason = len(cut.names), len(cut.reasons)
        key = (actor * by_name + cut.peer) * by_reason + cut.reason
        _, first, link = np.unique(key, return_index=True, return_inverse=True)
        self.own_count = len(first)
        self.link_node = np.concatenate([actor[first], self.group_node])
        self.link_peer = np.concatenate([peer[first], member])
        self.link_reason = cut.reason[first]
        self.moments, ranks = np.unique(
            np.concatenate([cut.start_ns, cut.end_ns]), return_inverse=True
        )
        self.width = len(self.moments)
        start, end = ranks[: len(link)], ranks[len(link) :]
        self.link, self.start, self.end = united(link, start, end, self.width)
        self.first_of_node = np.searchsorted(
            self.link_node[self.link], np.arange(len(self.name) + 1)
        )

    def _rules(self, cut: Cut) -> None:
        """What becomes of time that arrives at a link: -1 for nothing special, or a cause."""
        self.causes = sorted({*CAUSE_OF_REASON.values(), *CAUSE_OF_CONSUMER.values(), CYCLE})
        codes = {cause: code for code, cause in enumerate(self.causes)}
        reasons = [codes.get(CAUSE_OF_REASON.get(reason, ""), -1) for reason in cut.reasons]
        excuses = [codes.get(CAUSE_OF_CONSUMER.get(reason, ""), -1) for reason in cut.reasons]
        is_consumer = np.array([actor_kind(name) == "consumer" for name in cut.names], np.bool_)
        excuse = np.where(
            is_consumer[self.name[self.link_node[: self.own_count]]],
            np.array(excuses, np.int64)[self.link_reason],
            -1,
        )
        nothing = np.full(len(self.group_node), -1, np.int64)
        limit = np.array(reasons, np.int64)[self.link_reason]
        both = self.is_stuck[self.link_node] & self.is_stuck[self.link_peer]
        limit = np.where(both[: self.own_count] & (limit < 0), codes[CYCLE], limit)
        self.link_limit = np.concatenate([limit, nothing])
        self.link_excuse = np.concatenate([excuse, nothing])


def _member_links(cut: Cut, members: Members, keys: I64, held: I64) -> tuple[I64, I64]:
    """(group, member) as nodes, for the members that are held at some time; in order of both."""
    code = {name: at for at, name in enumerate(cut.names)}
    boots = {boot_id: at for at, (_, boot_id) in enumerate(cut.places.boots)}
    size = len(cut.names)
    known = sorted(
        (boots[boot_id] * size + code[group], code[one])
        for (boot_id, group), ones in members.items()
        if boot_id in boots and group in code
        for one in ones
        if one in code
    )
    if not known:
        return NONE, NONE
    whose, one = np.array(known, np.int64).T
    place, name = keys // size, keys % size
    wanted = cut.places.boot[place] * size + name
    first = np.searchsorted(whose, wanted, side="left")
    node, at = spread(np.searchsorted(whose, wanted, side="right") - first)
    member = place[node] * size + one[first[node] + at]
    found = np.minimum(np.searchsorted(keys, member), len(keys) - 1)
    is_there = (keys[found] == member) & np.isin(found, held)
    return node[is_there], found[is_there]


def _levels(holder: I64, peer: I64, group: I64, member: I64, count: int) -> I64:
    """The longest way from each node to one without links, -1 where it never ends."""
    holder, peer = np.concatenate([holder, group]), np.concatenate([peer, member])
    level = np.full(count, -1, np.int64)
    left = np.bincount(holder, minlength=count)
    order = np.argsort(peer, kind="stable")
    first = np.searchsorted(peer[order], np.arange(count + 1))
    ready = np.flatnonzero(left == 0)
    height = 0
    while len(ready):
        level[ready] = height
        owner, at = spread(first[ready + 1] - first[ready])
        above = holder[order[first[ready][owner] + at]]
        left -= np.bincount(above, minlength=count)
        ready = np.unique(above[left[above] == 0])
        height += 1
    return level
