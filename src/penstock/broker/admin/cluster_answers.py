"""What a node says of its cluster: shapes of answers, for commands, HTTP and pages; and how the
leaders in an answer would lie evenly."""

from msgspec import Struct


class NodeRow(Struct):
    """One node, as the node that answers sees it.

    address, clients: where nodes, and clients, reach it. is_online: there is a link to it, or it
    answers itself; is_live: its lease in etcd is alive. persisted_seq, lag_entries, lag_bytes: how
    far it is, and behind its leader; -1 where only the leader knows. is_whole: it counts for
    majorities; is_copied: it is being copied from the leader; is_in_sync: mirrored queues wait for
    it, and it has all they have confirmed, as etcd has it. fault: why there is no link.
    """

    name: str
    address: str
    clients: str
    version: str
    is_online: bool
    is_live: bool
    is_leader: bool
    is_voter: bool
    role: str
    persisted_seq: int
    lag_entries: int
    lag_bytes: int
    is_whole: bool
    is_copied: bool
    is_in_sync: bool
    fault: str


class ClusterAnswer(Struct, omit_defaults=True):
    """A cluster, or one shard of it.

    node, role: who answers. phase: led, electing or resigned, as etcd has it. commit_seq: what a
    majority has. is_serving: clients are served by this node's own broker; is_warm: its broker has
    imported everything, and would serve at once. etcd: where it is, or what is wrong with it.
    forwarded: clients whose bytes this node carries to the leader. quorum_critical: nodes that may
    not be stopped now (node-is-quorum-critical). is_mirrored: there are mirrored queues. shards: of
    nodes with several workers, each with its number and virtual hosts; the rest is the first one's.
    missing: which shards' members of this node say nothing, and why.
    """

    version: str
    cluster: str
    cluster_id: str
    node: str
    role: str
    leader: str
    phase: str
    epoch: int
    position_epoch: int
    position_seq: int
    commit_seq: int
    is_serving: bool
    is_warm: bool
    voters: list[str]
    majority: int
    is_etcd_reachable: bool
    etcd: str
    forwarded: int
    disk_stalled_ms: int
    words: str
    quorum_critical: list[str]
    is_mirrored: bool
    nodes: list[NodeRow]
    shard: int = 0
    vhosts: list[str] = []
    shards: list["ClusterAnswer"] = []
    missing: list[str] = []


def moves_of(shards: list[ClusterAnswer]) -> list[tuple[int, str]]:
    """Which shards are to be led by which other nodes, so that each node which may lead has as many
    as the others, or one more; as few as do."""
    leads = {one.shard: one.leader for one in shards if one.leader}
    good = {
        one.shard: {row.name for row in one.nodes if row.is_online and row.is_whole}
        for one in shards
    }
    nodes = sorted(set().union(*good.values(), leads.values()))
    found: list[tuple[int, str]] = []
    while True:
        counts = dict.fromkeys(nodes, 0)
        for leader in leads.values():
            counts[leader] += 1
        best: tuple[int, int, str] | None = None
        # The first one has `/`, where most clients are; among equals it stays where it is.
        for shard, leader in reversed(leads.items()):
            for node in nodes:
                gain = counts[leader] - counts[node]
                if node in good[shard] and gain > 1 and (best is None or gain > best[0]):
                    best = (gain, shard, node)
        if best is None:
            return found
        _, shard, node = best
        leads[shard] = node
        found.append((shard, node))
