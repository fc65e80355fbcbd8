"""A client that goes on in another process: all that was agreed on, in one record.

Which virtual host a client wants is known at connection.open. Where another process has it, the
connection is handed over then, and nobody but the two processes notices:

    here    the greeting, the login, tuning; then the record and the socket leave
    there   the record stands for all of that; what the client has said from connection.open on is
            in it, too, and is heard as if it had just come

Rights in the virtual host, and limits of connections, are looked at there. One that was handed over
once is not handed on: where it is not wanted after all it is refused, 530.
"""

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from penstock.base.errors import PenstockError
from penstock.broker.actors.output import Shell
from penstock.broker.session.access import TlsPeer
from penstock.protocol import methods as m
from penstock.protocol.content import EVENT_ACK, Event
from penstock.protocol.methods.codec import method_frame

NOT_ELSEWHERE: Final = -1
"""In the place of a worker's number."""

Short = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
Long = Annotated[int, msgspec.Meta(ge=0, le=4_294_967_295)]


class HandoverFault(PenstockError):
    """What came is no record of a connection."""


class Handover(msgspec.Struct, frozen=True):
    """One connection that waits for its virtual host.

    peer_host: where the client is, without port; peer: as listings show it
    tls_peer: what is known of it by TLS, or that it is an operator; None for neither
    mechanism, user: how it has logged in, and as whom; is_certified: by its certificate
    token: with which it has, "" for none; it is verified again, so that it ends when it is over
    client_properties: a table with its length in front
    channel_max, frame_bytes_max, heartbeat_s: as agreed, see protocol/handshake.Tuning
    said: the bytes from connection.open on
    login: connection.start-ok as it came, b"" where nobody has to say it again
    """

    peer_host: str
    peer: str
    tls_peer: TlsPeer | None
    mechanism: str
    user: str
    is_certified: bool
    token: str
    client_properties: bytes
    capabilities: tuple[str, ...]
    channel_max: Short
    frame_bytes_max: Long
    heartbeat_s: Short
    said: bytes
    login: bytes = b""

    def __repr__(self) -> str:
        """Without anything secret."""
        return f"Handover({self.peer}, user '{self.user}', {len(self.said)} bytes)"


def encode(record: Handover) -> bytes:
    """As `decode` reads it."""
    return msgspec.msgpack.encode(record)


def decode(data: bytes) -> Handover:
    """Raises: HandoverFault."""
    try:
        return msgspec.msgpack.decode(data, type=Handover)
    except msgspec.MsgspecError as fault:
        raise HandoverFault(f"{len(data)} bytes are no record of a connection: {fault}") from fault


def frames_of(events: Iterable[Event]) -> bytes:
    """The bytes that these methods came in."""
    parts = []
    for event in events:
        number = int(event.channel)
        if event.kind == EVENT_ACK:
            for tag in range(int(event.tag), int(event.tag + event.count)):
                ack = m.BasicAck(tag & 0xFFFFFFFFFFFFFFFF, event.flag)
                parts.append(method_frame(number, ack))
        else:
            size = len(event.payload).to_bytes(4, "big")
            parts.append(b"\x01" + number.to_bytes(2, "big") + size + event.payload + b"\xce")
    return b"".join(parts)


class Elsewhere:
    """Which virtual hosts other processes have, and the way there. Nominal base; the server has the
    real one (server/net/handover_socket). A broker alone has none."""

    __slots__ = ()

    def worker_of(self, vhost: str) -> int:
        """The process that has the virtual host, NOT_ELSEWHERE if none or this one has."""
        raise NotImplementedError

    def keeps_logins(self) -> bool:
        """Whether a login may have to be said again, to the broker of another node."""
        return False

    def stays(self, peer_host: str) -> None:
        """A client by TLS, of `peer_host`, is for no virtual host of another process."""

    def take(self, worker: int, record: bytes, shell: Shell) -> None:
        """The client of `shell` has been sent all there is: it goes to `worker` with `record`, of
        `encode`, or is closed. Nothing is read from it meanwhile."""
        raise NotImplementedError
