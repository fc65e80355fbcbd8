"""Frames between a member and the broker it has started, over a Unix stream socket.

    frame   bytes that follow | kind | payload
              4                 1

    to the member   WARM     everything is imported, nothing is opened
                    ENTRY    an entry; the n-th of a broker has the number n, 1..
                    DONE     count: that many entries are as safe as the broker's own disk makes it,
                             and the directory's position says so
                    READY    JSON of Ready: clients are served
                    FAILED   a sentence; the broker ends
                    MARKED   the number of a MARK: what was written before it was sent before this
                    STALLED  milliseconds for which its disk has been at one job
                    MIRRORED count: 1 while it has mirrored queues, else 0
                    CHANGED  JSON of settings that were changed for good, by key
                    PUBLISHES runs of publishes that are in the log with the next ENTRY as a whole
    to the broker   START    JSON of Start
                    COMMITTED count: that many entries are safe wherever they have to be
                    MARK     number: between two jobs of the disk it is answered by MARKED
                    WAITS    a sentence: what a majority waits for, "" for nothing
                    NODES    JSON of Nodes: who has how many of its entries
                    CONFIG   JSON of the configuration, to be put in force as after SIGHUP
                    PLACES   JSON of Places: what the other brokers of this node have
                    KEPT     JSON of Kept: of changed settings
                    STOP     a clean stop; what it writes are entries too

When either side goes away the broker stops writing and confirms nothing more.
"""

from struct import Struct
from typing import Final, TypeVar

import msgspec
from msgspec import Struct as Record

from penstock.base.config import Config
from penstock.base.limits import CLUSTER_FRAME_BYTES
from penstock.server.cluster.frame_reader import HEAD

WARM: Final = 1
ENTRY: Final = 2
DONE: Final = 3
READY: Final = 4
FAILED: Final = 5
STALLED: Final = 6
MIRRORED: Final = 8
PUBLISHES: Final = 9
CHANGED: Final = 10
START: Final = 16
COMMITTED: Final = 17
STOP: Final = 18
MARK: Final = 19
MARKED: Final = 7
WAITS: Final = 20
NODES: Final = 21
CONFIG: Final = 22
PLACES: Final = 23
KEPT: Final = 24
KINDS: Final = frozenset(
    {WARM, ENTRY, DONE, READY, FAILED, STALLED, START, COMMITTED, STOP, MARK, MARKED, WAITS}
    | {MIRRORED, NODES, PUBLISHES, CONFIG, PLACES, CHANGED, KEPT}
)

COUNT: Final = Struct(">Q")


class PipeFault(ValueError):
    """What came is no frame."""


class PipeEnded(OSError):
    """The member is gone: nothing may be written, nor confirmed."""


class Places(Record):
    """places: which shard has which virtual host; pids: of the processes of this node."""

    places: dict[str, int] = msgspec.field(default_factory=dict)
    pids: list[int] = msgspec.field(default_factory=list)


class Shard(Record):
    """Of a node with several brokers. number: of this one; receive, send: descriptors on which
    connections are handed over, to it and to the others; places: what they have at the start."""

    number: int
    receive: int
    send: dict[int, int]
    places: Places


class Start(Record):
    """inherited: descriptors that were handed down with the process, by name; epoch: that it leads,
    0 for a test's, which writes no position; base: the number of the entry before its first; shard:
    None for the only broker of its node; settings: that were changed at brokers before it, by key;
    those of a node with several are their parent's."""

    config: Config
    inherited: dict[str, int] = msgspec.field(default_factory=dict)
    epoch: int = 0
    base: int = 0
    shard: Shard | None = None
    settings: dict[str, str] = msgspec.field(default_factory=dict)


class Ready(Record):
    """Ports: -1 where there is none; control: path of the control socket; the rest: what was
    brought back."""

    port: int = -1
    tls_port: int = -1
    control: str = ""
    queues: int = 0
    exchanges: int = 0
    bindings: int = 0
    messages: int = 0


class NodeRow(Record):
    """A voter. count: entries of the broker that are on its disk; see
    replication.views.NodeState."""

    name: str
    count: int
    is_in_sync: bool
    is_online: bool


class Nodes(Record):
    """rows: of all voters, the leader's own among them; words: what mirrored queues wait for."""

    rows: list[NodeRow]
    words: str = ""


class Kept(Record):
    """count: so many CHANGED are in etcd; words: why the rest is not yet, "" where that is not
    known; settings: that were changed at another node, by key."""

    count: int
    words: str = ""
    settings: dict[str, str] = msgspec.field(default_factory=dict)


def head(kind: int, size: int) -> bytes:
    """What comes before a payload of `size` bytes."""
    return HEAD.pack(size + 1, kind)


def frame(kind: int, payload: bytes = b"") -> bytes:
    return head(kind, len(payload)) + payload


def count_frame(kind: int, count: int) -> bytes:
    return frame(kind, COUNT.pack(count))


def count_of(payload: bytes) -> int:
    """Of DONE, COMMITTED and STALLED. Raises: PipeFault."""
    if len(payload) != COUNT.size:
        raise PipeFault(f"a count of {len(payload)} bytes instead of {COUNT.size}")
    return int(COUNT.unpack(payload)[0])


Shape = TypeVar("Shape")


def encoded(told: Ready | Start | Nodes | Places | Config | Kept) -> bytes:
    return msgspec.json.encode(told)


def _decoded(payload: bytes, shape: type[Shape], word: str) -> Shape:
    try:
        return msgspec.json.decode(payload, type=shape)
    except (msgspec.DecodeError, ValueError) as error:
        raise PipeFault(f"{word} cannot be read: {error}") from error


def decode_ready(payload: bytes) -> Ready:
    """Raises: PipeFault."""
    return _decoded(payload, Ready, "READY")


def decode_start(payload: bytes) -> Start:
    """Raises: PipeFault."""
    return _decoded(payload, Start, "START")


def decode_nodes(payload: bytes) -> Nodes:
    """Raises: PipeFault."""
    return _decoded(payload, Nodes, "NODES")


def decode_places(payload: bytes) -> Places:
    """Raises: PipeFault."""
    return _decoded(payload, Places, "PLACES")


def decode_kept(payload: bytes) -> Kept:
    """Raises: PipeFault."""
    return _decoded(payload, Kept, "KEPT")


def decode_changed(payload: bytes) -> dict[str, str]:
    """Raises: PipeFault."""
    return _decoded(payload, dict[str, str], "CHANGED")


def decode_config(payload: bytes) -> Config:
    """Raises: PipeFault."""
    return _decoded(payload, Config, "CONFIG")


def check_frame(kind: int, size: int) -> None:
    """Raises: PipeFault, where a frame of this kind with so many bytes of payload may not be."""
    if not 0 <= size < CLUSTER_FRAME_BYTES.default or kind not in KINDS:
        raise PipeFault(
            f"a frame of kind {kind} with {size + 1} bytes: the other end is no Penstock of this "
            "version"
        )
