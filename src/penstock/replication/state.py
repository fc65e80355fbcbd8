"""What a member is told of its directory, and has to remember over a restart."""

from msgspec import Struct

from penstock.replication.config import MAJORITY


class MemberState(Struct, frozen=True):
    """One small record, written whole and synced.

    cluster_id: "" before the member has been part of any.
    promised: the highest epoch it has promised or taken entries of; lower ones are refused.
    is_whole: False while its directory is a mixture of its own and a leader's.
    open_epoch: the epoch whose entries may lie in the directory behind its position, in part;
    0: the directory is exactly at its position.
    starts: how often the member was started.
    machine: the start of the machine since which everything in the directory was written, or was
    safe before that.
    """

    cluster_id: str = ""
    identity: str = ""
    promised: int = 0
    is_whole: bool = True
    open_epoch: int = 0
    starts: int = 0
    machine: str = ""


class Origin(Struct, frozen=True):
    """What a directory is before its member has seen the cluster.

    has_data: a single node's data. may_create: a cluster is made of it when there is none.
    cluster_id: of that cluster. mode: of that cluster.
    """

    has_data: bool = False
    may_create: bool = True
    cluster_id: str = "penstock"
    mode: str = MAJORITY
