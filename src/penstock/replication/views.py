"""What a member tells of itself, of followers and of nodes: for status, `why` and its broker."""

from typing import Final

from msgspec import Struct

from penstock.replication.positions import Position


class FollowerView(Struct, frozen=True):
    """One follower, for status. lag_bytes: of entries that are not on its disk, as far as they are
    kept; heard_ms: since its last frame."""

    name: str
    is_attached: bool
    is_whole: bool
    is_resyncing: bool
    persisted_seq: int
    lag_entries: int
    lag_bytes: int
    heard_ms: int


DISK: Final = "disk"
LINK: Final = "link"
COPY: Final = "copy"
AWAY: Final = "away"


class FollowerWait(Struct, frozen=True):
    """A voter that has not on its disk what the leader has. cause: DISK, LINK, COPY (it is being
    copied, or waits for that) or AWAY (there is no link); ms: from an entry's being sent to the
    answer that it is on the disk, or since the link is silent."""

    name: str
    cause: str
    ms: int


class NodeState(Struct, frozen=True):
    """A voter, for the broker of a leader. seq: of the last entry on its disk, 0 where that does
    not count; is_in_sync: mirrored queues wait for it; is_online: there is a link to it, or it
    leads."""

    name: str
    seq: int
    is_in_sync: bool
    is_online: bool


class MemberView(Struct, frozen=True):
    """A member, for status."""

    name: str
    role: str
    epoch: int
    leader: str
    position: Position
    commit_seq: int
    is_whole: bool
    is_exact: bool
    is_serving: bool
    words: str
    linked: tuple[str, ...]
    refusals: dict[str, str]
    followers: tuple[FollowerView, ...]
