"""What a member has to remember over a restart, besides how far it has applied."""

from msgspec import Struct


class MemberState(Struct, frozen=True):
    """One small record, written whole and synced.

    cluster_id: "" before the member has been part of any.
    promised: the highest epoch it has promised or taken entries of; lower ones are refused.
    is_whole: False while its directory is a mixture of its own and a leader's.
    open_epoch: the epoch whose entries may lie in the directory behind its position, in part;
    0: the directory is exactly at its position.
    starts: how often the member was started.
    """

    cluster_id: str = ""
    identity: str = ""
    promised: int = 0
    is_whole: bool = True
    open_epoch: int = 0
    starts: int = 0
