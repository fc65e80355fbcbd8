"""How long a member waits for what, and how much it keeps."""

from msgspec import Struct

from penstock.base import limits


class Timing(Struct, frozen=True):
    """Milliseconds of a monotonic clock; see limits.

    in_sync_ms: for a member that is in sync and has not on its disk what it was sent.
    promise_wait_ms: for promises of further voters when those there are would have to be resynced.
    hand_over_ms: for a successor that lacks the end of the log of a leader that stops in order.
    retry_ms: between two tries of what was not answered.
    """

    heartbeat_ms: int = limits.CLUSTER_HEARTBEAT_MS.default
    silence_ms: int = limits.CLUSTER_SILENCE_MS.default
    quorum_ms: int = limits.CLUSTER_QUORUM_MS.default
    election_ms: int = limits.CLUSTER_ELECTION_MS.default
    disk_stall_ms: int = limits.CLUSTER_DISK_STALL_MS.default
    link_grace_ms: int = limits.CLUSTER_LINK_GRACE_MS.default
    in_sync_ms: int = limits.CLUSTER_IN_SYNC_MS.default
    promise_wait_ms: int = 500
    hand_over_ms: int = 2000
    retry_ms: int = 1000


class Bounds(Struct, frozen=True):
    """Bytes and counts; see limits."""

    retention_bytes: int = limits.CLUSTER_RETENTION_BYTES.default
    resync_backlog_bytes: int = limits.CLUSTER_RESYNC_BACKLOG_BYTES.default
    follower_bytes: int = limits.CLUSTER_FOLLOWER_BYTES.default
    voters: int = limits.CLUSTER_VOTERS.default
    forgotten: int = limits.CLUSTER_FORGOTTEN.default
