"""Mirrored queues: which nodes have to have what is confirmed, and how far each of them is.

A cluster commits what a majority of its nodes has on the disk. The messages of a queue with a
policy of `ha-mode` are confirmed later, and cost the queue credit until then: when every mirror of
the queue that is in sync has them. The leader's member says who is in sync, and takes one out that
is late for longer than cluster_in_sync_ms; that is agreed on in etcd before this broker hears of
it, so that whoever is in sync there holds all that was confirmed.

In a profile that emulates RabbitMQ every mirror that is online is waited for, in sync or not, and
each costs the channel two credits a message (flow/pending). Source: seed S1; flow-semantics 7, W11,
scenarios 46 and 47.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.queues.mirror_rule import MirrorRule

NOTHING_LACKS: Final = 1 << 62


class MirrorNode:
    """Another node. count: entries of this broker that are on its disk; is_in_sync: mirrored queues
    wait for it; is_online: there is a link to it."""

    __slots__ = ("count", "is_in_sync", "is_online", "name")

    def __init__(self, name: str, count: i64, is_in_sync: bool, is_online: bool) -> None:
        self.name = name
        self.count = count
        self.is_in_sync = is_in_sync
        self.is_online = is_online


@mypyc_attr(allow_interpreted_subclasses=True)
class MirrorListener:
    """Is told how mirrors are. Nominal base."""

    __slots__ = ()

    def mirrors_moved(self) -> None:
        """They have more on their disks, or others are waited for."""
        raise NotImplementedError

    def sync_changed(self, name: str, is_in_sync: bool) -> None:
        """Mirrored queues go on without the node `name`, or wait for it again."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class MemberLink:
    """Hears whether this broker has mirrored queues. Nominal base; the member's pipe."""

    __slots__ = ()

    def mirrored(self, is_mirrored: bool) -> None:
        raise NotImplementedError


class Mirrors:
    """own: this node's name in its cluster, "" for a broker without one; others: nodes that have
    copies, by name; is_told: the member has said so since this broker began; waits_online: as
    RabbitMQ, for everybody who is online; credits: that a message costs its channel for each
    mirror, 0 for none; count: mirrored queues; words: what they wait for, "" for nothing. Bound:
    the cluster's voters."""

    __slots__ = (
        "count",
        "credits",
        "is_told",
        "listener",
        "member",
        "others",
        "own",
        "own_is_in_sync",
        "waits_online",
        "words",
    )

    def __init__(self, credits_: int) -> None:
        self.own = ""
        self.others: dict[str, MirrorNode] = {}
        self.own_is_in_sync = False
        self.is_told = False
        self.credits: i64 = credits_
        self.waits_online = credits_ > 0
        self.count: i64 = 0
        self.words = ""
        self.member: MemberLink | None = None
        self.listener: MirrorListener | None = None

    def update(self, nodes: list[MirrorNode], own_is_in_sync: bool, words: str) -> None:
        """The member has said how far the others are."""
        before = self.others
        self.others = {one.name: one for one in nodes}
        self.own_is_in_sync = own_is_in_sync
        self.is_told = True
        self.words = words
        listener = self.listener
        if listener is None:
            return
        if self.count > 0:
            for one in nodes:
                known = before.get(one.name)
                if known is not None and known.is_in_sync != one.is_in_sync:
                    listener.sync_changed(one.name, one.is_in_sync)
        listener.mirrors_moved()

    def counted(self, change: i64) -> None:
        """There are `change` mirrored queues more."""
        before: i64 = self.count
        self.count += change
        if self.member is not None and (before == 0) != (self.count == 0):
            self.member.mirrored(self.count > 0)

    def of(self, rule: MirrorRule, queue: str) -> list[MirrorNode]:
        """The nodes that mirror `queue`, by name."""
        names = rule.mirrors(queue, list(self.others), self.own)
        return [self.others[name] for name in names]

    def waits_for(self, node: MirrorNode) -> bool:
        """Whether mirrored queues wait for `node`."""
        return node.is_online if self.waits_online else node.is_in_sync


class Mirroring:
    """How one queue is mirrored."""

    __slots__ = ("mirrors", "queue", "rule")

    def __init__(self, mirrors: Mirrors, rule: MirrorRule, queue: str) -> None:
        self.mirrors = mirrors
        self.rule = rule
        self.queue = queue

    def nodes(self) -> list[MirrorNode]:
        """Its mirrors, whether in sync or not."""
        return self.mirrors.of(self.rule, self.queue)

    def covered(self) -> i64:
        """The number of the last entry that every mirror has which is waited for; NOTHING_LACKS
        where that is nobody."""
        mirrors = self.mirrors
        if not mirrors.is_told:
            return 0
        least: i64 = NOTHING_LACKS
        for node in mirrors.of(self.rule, self.queue):
            if mirrors.waits_for(node) and node.count < least:
                least = node.count
        return least

    def late(self, need: i64) -> list[str]:
        """The names of the mirrors that are waited for and have not the entry `need`."""
        mirrors = self.mirrors
        return [one.name for one in self.nodes() if mirrors.waits_for(one) and one.count < need]
