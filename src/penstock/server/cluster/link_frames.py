"""Frames between members: length, kind, payload; and what two members say to each other first.

    u32 bytes that follow | u8 kind | payload

A connection begins with HELLO from whoever has dialled, which WELCOME or REFUSED answers; before
that a frame has HELLO_BYTES at most, so that a stranger costs nothing.
"""

from typing import Final

import msgspec

from penstock.base.limits import CLUSTER_LINK_FRAME_BYTES
from penstock.broker.session.access import TlsPeer
from penstock.server.cluster.frame_reader import HEAD

PROTOCOL: Final = 1
"""Members whose protocols differ by one understand each other: nodes are upgraded one by one."""
HELLO_BYTES: Final = 8192

HELLO: Final = 1
WELCOME: Final = 2
REFUSED: Final = 3
"""Why not, in a sentence."""
BEAT: Final = 4
"""Nothing else is to be said at the moment."""
NUDGE: Final = 6
"""Something has changed in etcd: look now."""
MESSAGE: Final = 7
"""One of the replication's own messages."""
ASK: Final = 8
"""A part of a copy is asked for: u32 number, request."""
ANSWER: Final = 9
"""u32 number, answer."""
DATA: Final = 10
"""Bytes of a forwarded client, or for it."""
END: Final = 11
"""That side of a forwarded client has said all."""
TAKEN: Final = 13
"""A forwarded client has been handed to the broker; until then it may be taken elsewhere."""
PUBLISHES: Final = 14
"""Publishes of a forwarded client of which nobody knows what became of them; TAKEN says which of
them are in the log. See replication/seen."""
HANDED: Final = 15
"""The record of a client that is handed over, see broker/session/handover."""
SPOILT: Final = 12
"""The answer to an ASK that could not be answered: u32 number, why."""

REPLICATION: Final = "replication"
FORWARD: Final = "forward"
PROBE: Final = "probe"
ASK_BROKER: Final = "ask-broker"
ASK_MEMBER: Final = "ask-member"
HANDOVER: Final = "handover"
"""What a connection is for: the two members themselves, a client, to see who answers, a question
to the control socket of the broker or of the member there, or a client that has logged in at
another broker of its node, whose record HANDED brings."""
FORWARDED: Final = (FORWARD, ASK_BROKER, ASK_MEMBER, HANDOVER)


class LinkFault(Exception):
    """The peer does not keep to the protocol, or is refused; in a sentence."""


class Hello(msgspec.Struct, frozen=True):
    """Who dials, whom it means, and what for.

    protocol: PROTOCOL of the peer.
    cluster, cluster_id: name and identity of the cluster it belongs to; the latter "" before it
    belongs to one.
    name, identity: of the member that dials.
    to: the name of the member that it means.
    boot_id: of its process.
    clock_ms: its wall clock.
    purpose: REPLICATION, FORWARD, PROBE, ASK_BROKER, ASK_MEMBER or HANDOVER.
    client_host, client_port, client_tls: of a forwarded client; what is known by its TLS, which
    ends at the node that it came to.
    asks: PUBLISHES follows.
    """

    protocol: int
    cluster: str
    cluster_id: str
    name: str
    identity: str
    to: str
    boot_id: str
    clock_ms: int
    purpose: str = REPLICATION
    client_host: str = ""
    client_port: int = 0
    client_tls: TlsPeer | None = None
    asks: bool = False


class Welcome(msgspec.Struct, frozen=True):
    """Who has answered. See Hello."""

    protocol: int
    name: str
    identity: str
    boot_id: str


def frame(kind: int, payload: bytes = b"") -> bytes:
    return HEAD.pack(len(payload) + 1, kind) + payload


def check_frame(kind: int, size: int, bound: int = CLUSTER_LINK_FRAME_BYTES.default) -> None:
    """Raises: LinkFault for a frame with so many bytes of payload."""
    if not 0 <= size < bound:
        raise LinkFault(f"sends a frame of {size + 1} bytes, and {bound} are allowed")


def read_head(head: bytes | bytearray) -> tuple[int, int]:
    """Kind, and bytes of the payload, of the first frame. Raises: LinkFault."""
    follows, kind = HEAD.unpack(head)
    check_frame(kind, follows - 1, HELLO_BYTES)
    return kind, follows - 1


def packed(number: int, payload: bytes) -> bytes:
    """The payload of ASK, ANSWER and SPOILT."""
    return number.to_bytes(4, "big") + payload


def unpacked(payload: bytes) -> tuple[int, bytes]:
    """Raises: LinkFault."""
    if len(payload) < 4:
        raise LinkFault("sends a question or an answer without a number")
    return int.from_bytes(payload[:4], "big"), payload[4:]
