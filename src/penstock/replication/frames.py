"""Frames between two members: MessagePack arrays whose first field says which it is.

A frame is refused in words when it is no frame, and a peer when its protocol is more than one
version away.
"""

from typing import Final

import msgspec
from msgspec import Struct

from penstock.base.errors import PenstockError
from penstock.replication.positions import Entry, Position

PROTOCOL: Final = 1
"""Of these frames. A member speaks with those one version before and after its own."""

STREAM: Final = "stream"
RESYNC: Final = "resync"
WAIT: Final = "wait"


class FrameFault(PenstockError):
    """A peer sent what is no frame."""


class Hello(Struct, frozen=True, array_like=True, tag=1):
    """The first frame of both sides."""

    protocol: int
    cluster_id: str
    name: str
    identity: str
    epoch: int


class Refused(Struct, frozen=True, array_like=True, tag=2):
    """The last frame of a link: why it ends, in words for an operator."""

    words: str


class Heartbeat(Struct, frozen=True, array_like=True, tag=3):
    """A sign of life, to every peer. epoch: the highest one known. commit_seq: as far as known.
    disk_ms: of a follower, for how long its disk has been at entries without ending any."""

    epoch: int
    is_leader: bool
    commit_seq: int
    disk_ms: int = 0


LOST: Final = -1
"""No epoch is that one, so no leader lets such a directory go on from where it is."""


class Attach(Struct, frozen=True, array_like=True, tag=4):
    """A follower asks for entries.

    session: tells this attempt from earlier ones.
    position: the last entry it has received whole.
    open_epoch: see MemberState, 0 when its directory is exactly at `position`, LOST when something
    of before may be missing in it.
    is_copied: `position` is the base of a resync whose copy is there.
    """

    epoch: int
    session: int
    position: Position
    is_whole: bool
    open_epoch: int
    is_copied: bool


class Attached(Struct, frozen=True, array_like=True, tag=5):
    """The answer: STREAM from there, RESYNC, or WAIT and ask again.

    position: where the entries begin, or the base of the resync.
    end: the leader's last entry.
    """

    epoch: int
    session: int
    how: str
    position: Position
    end: Position


class Entries(Struct, frozen=True, array_like=True, tag=6):
    """Entries in their order. previous: the position before the first one."""

    epoch: int
    session: int
    previous: Position
    commit_seq: int
    entries: tuple[Entry, ...]


class Ack(Struct, frozen=True, array_like=True, tag=7):
    """Everything up to `position` is on the follower's disk, its position too. disk_ms: how long
    the disk took, from when it had nothing else to do."""

    epoch: int
    session: int
    position: Position
    is_whole: bool
    disk_ms: int = 0


class Fenced(Struct, frozen=True, array_like=True, tag=8):
    """The peer has promised this epoch and takes nothing of earlier ones."""

    epoch: int


Frame = Hello | Refused | Heartbeat | Attach | Attached | Entries | Ack | Fenced

_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


def encode(frame: Frame) -> bytes:
    """`frame` in bytes."""
    return msgspec.msgpack.encode(frame)


def decode(data: bytes) -> Frame:
    """The frame in `data`. Raises: FrameFault when it holds none."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise FrameFault(f"a frame of {len(data)} bytes cannot be read: {error}") from error


def version_refusal(theirs: int) -> str:
    """Why a peer with the protocol version `theirs` is refused, "" when it is not."""
    if abs(theirs - PROTOCOL) <= 1:
        return ""
    older = "older" if theirs < PROTOCOL else "newer"
    return (
        f"protocol version {theirs} between members is too much {older} than {PROTOCOL} here: "
        "members may be one version apart; upgrade one version after the other"
    )
