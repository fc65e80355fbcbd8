"""Connection negotiation in the server's role: one transition table, and the rules of tuning.

    EXPECT_HEADER --header--> START_SENT --start-ok--> AUTHENTICATING --accepted--> TUNE_SENT
                                                        |         ^                    |
                                                    challenged  secure-ok           tune-ok
                                                        v         |                    v
                                                        SECURE_SENT       OPEN <--open-- TUNED

What the table does not name is the peer's fault, 504 CHANNEL_ERROR with RabbitMQ's text. The table
decides only what comes next; building and sending methods, checking passwords and finding the
virtual host belong to the caller, who hears from `Handshake.take` what to do.
Not handled: closing, which the connection does in every stage; the client's role.
Source: AMQP 0-9-1 sections 1.4.2 and 2.2.4; RabbitMQ's rabbit_reader.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from penstock.base.errors import ConnectionFault
from penstock.protocol.constants import (
    CHANNEL_ERROR,
    FRAME_BYTES_LOWEST,
    NOT_ALLOWED,
    PROTOCOL_HEADER,
)
from penstock.protocol.methods import (
    ConnectionOpen,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from penstock.protocol.values import Table, Value


class HandshakeStage(Enum):
    """How far the negotiation is. Values appear in reply texts and are RabbitMQ's words, except
    that RabbitMQ calls SECURE_SENT securing as well."""

    EXPECT_HEADER = "pre_init"
    START_SENT = "starting"
    AUTHENTICATING = "securing"
    SECURE_SENT = "challenging"
    TUNE_SENT = "tuning"
    TUNED = "opening"
    OPEN = "running"


class HandshakeInput(Enum):
    """What moves the negotiation: from the peer, or the verdict of our own authentication."""

    HEADER = "protocol header"
    START_OK = "connection.start-ok"
    SECURE_OK = "connection.secure-ok"
    TUNE_OK = "connection.tune-ok"
    OPEN = "connection.open"
    OTHER = "any other method"
    CHALLENGED = "one more challenge is needed"
    ACCEPTED = "the credentials are right"


class HandshakeAction(Enum):
    """What the caller must do next; when it fails, it answers with a fault and the end."""

    SEND_START = "send connection.start"
    AUTHENTICATE = "check the response, then take CHALLENGED or ACCEPTED"
    SEND_SECURE = "send connection.secure"
    SEND_TUNE = "send connection.tune"
    NEGOTIATE = "apply what negotiate() returns"
    ENTER_VHOST = "check the virtual host, then send connection.open-ok"


OWN_INPUTS: Final = frozenset({HandshakeInput.CHALLENGED, HandshakeInput.ACCEPTED})

_Stage, _Input, _Action = HandshakeStage, HandshakeInput, HandshakeAction
TRANSITIONS: Final[
    Mapping[tuple[HandshakeStage, HandshakeInput], tuple[HandshakeStage, HandshakeAction]]
] = MappingProxyType(
    {
        (_Stage.EXPECT_HEADER, _Input.HEADER): (_Stage.START_SENT, _Action.SEND_START),
        (_Stage.START_SENT, _Input.START_OK): (_Stage.AUTHENTICATING, _Action.AUTHENTICATE),
        (_Stage.AUTHENTICATING, _Input.CHALLENGED): (_Stage.SECURE_SENT, _Action.SEND_SECURE),
        (_Stage.SECURE_SENT, _Input.SECURE_OK): (_Stage.AUTHENTICATING, _Action.AUTHENTICATE),
        (_Stage.AUTHENTICATING, _Input.ACCEPTED): (_Stage.TUNE_SENT, _Action.SEND_TUNE),
        (_Stage.TUNE_SENT, _Input.TUNE_OK): (_Stage.TUNED, _Action.NEGOTIATE),
        (_Stage.TUNED, _Input.OPEN): (_Stage.OPEN, _Action.ENTER_VHOST),
    }
)

_INPUT_OF: Final[Mapping[type[Method], HandshakeInput]] = MappingProxyType(
    {
        ConnectionStartOk: HandshakeInput.START_OK,
        ConnectionSecureOk: HandshakeInput.SECURE_OK,
        ConnectionTuneOk: HandshakeInput.TUNE_OK,
        ConnectionOpen: HandshakeInput.OPEN,
    }
)


class Handshake:
    """One connection's negotiation. Owner: the connection. stage: how far it is."""

    __slots__ = ("stage",)

    def __init__(self, stage: HandshakeStage = HandshakeStage.EXPECT_HEADER) -> None:
        self.stage = stage

    def take(self, given: HandshakeInput, class_id: int = 0, method_id: int = 0) -> HandshakeAction:
        """Move on and say what to do; on a fault the stage stays.

        class_id, method_id: of the method that was read, for the reply.
        Raises: ConnectionFault 504 for what the peer may not say now; AssertionError when our own
        authentication answers without having been asked.
        """
        found = TRANSITIONS.get((self.stage, given))
        if found is None:
            assert given not in OWN_INPUTS, f"{given} in {self.stage}: nobody asked for it"
            raise ConnectionFault(
                CHANNEL_ERROR,
                f"unexpected method in connection state {self.stage.value}",
                class_id,
                method_id,
            )
        self.stage, action = found
        return action

    def take_method(self, method: Method) -> HandshakeAction:
        """`take` for a method on channel 0. Raises: ConnectionFault 504."""
        given = _INPUT_OF.get(type(method), HandshakeInput.OTHER)
        return self.take(given, method.CLASS_ID, method.METHOD_ID)


class HeaderVerdict(Enum):
    """What the first eight bytes of a connection are; all but ACCEPTED are answered with
    PROTOCOL_HEADER and the end of the socket."""

    ACCEPTED = "AMQP 0-9-1"
    OTHER_VERSION = "another version of AMQP"
    HTTP = "an HTTP request"
    TLS = "a TLS handshake on a port without TLS"
    UNKNOWN = "no AMQP at all"


def judge_header(header: bytes) -> HeaderVerdict:
    """Judge the first eight bytes of a connection; AMQP 0-9 counts as 0-9-1, as in RabbitMQ."""
    if header in (PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09"):
        return HeaderVerdict.ACCEPTED
    if header.startswith(b"AMQP"):
        return HeaderVerdict.OTHER_VERSION
    if header.startswith((b"GET ", b"HEAD", b"POST", b"PUT ")):
        return HeaderVerdict.HTTP
    if header.startswith(b"\x16\x03") and header[5:6] == b"\x01":
        return HeaderVerdict.TLS
    return HeaderVerdict.UNKNOWN


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """How the server introduces itself. Clients such as Celery decide by product and version."""

    product: str
    version: str
    platform: str
    copyright: str
    information: str
    cluster_name: str


CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
"""What RabbitMQ announces; every one is honoured."""

OWN_CAPABILITIES: Final = (
    "penstock.requests",
    "penstock.chunks",
    "penstock.transactions",
    "penstock.leases",
)
"""What it does not have. Class request, and the verbs of docs/requests.md."""


def server_properties(identity: ServerIdentity, more: tuple[str, ...] = ()) -> Table:
    """The server-properties table of connection.start. more: capabilities besides RabbitMQ's."""
    capabilities: dict[str, Value] = dict.fromkeys((*CAPABILITIES, *more), True)
    return {
        "capabilities": capabilities,
        "cluster_name": identity.cluster_name,
        "copyright": identity.copyright,
        "information": identity.information,
        "platform": identity.platform,
        "product": identity.product,
        "version": identity.version,
    }


def start_method(properties: Table, mechanisms: tuple[str, ...]) -> ConnectionStart:
    """connection.start for AMQP 0-9-1. mechanisms: SASL names, the preferred one first."""
    return ConnectionStart(
        version_major=0,
        version_minor=9,
        server_properties=properties,
        mechanisms=" ".join(mechanisms).encode("ascii"),
        locales=b"en_US",
    )


GOES_ON: Final = "penstock.goes_on"
"""Says a node for a client whom it forwards, and whose former broker is gone: he may declare his
exclusive queues again by the names that were given to them."""


REFERENCE: Final = "penstock.reference:"
"""Begins the reserved field of channel.open that such a node sends: behind it are 32 hexadecimal
digits, by which publishes of the channel are found again in the log of a cluster."""
_REFERENCE_BYTES: Final = 16
_CHANNEL_OPEN: Final = b"\x00\x14\x00\x0a"


def channel_open(number: int, reference: bytes) -> bytes:
    """The frame of a channel.open with a reference of 16 bytes."""
    said = f"{REFERENCE}{reference.hex()}".encode("ascii")
    payload = _CHANNEL_OPEN + bytes((len(said),)) + said
    return b"\x01" + number.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


def reference_of(payload: bytes) -> bytes:
    """The reference in the payload of a channel.open, b"" for none."""
    said = payload[5:]
    begin = REFERENCE.encode("ascii")
    if len(said) != len(begin) + 2 * _REFERENCE_BYTES or not said.startswith(begin):
        return b""
    try:
        return bytes.fromhex(said[len(begin) :].decode("ascii"))
    except ValueError:
        return b""


def client_capabilities(client_properties: Table) -> frozenset[str]:
    """The names of the capabilities a client says it has; empty when it says nothing sensible."""
    said = client_properties.get("capabilities")
    if not isinstance(said, dict):
        return frozenset()
    return frozenset(name for name, value in said.items() if value is True)


@dataclass(frozen=True, slots=True)
class Tuning:
    """What both peers keep to. 0 means no limit, and for the heartbeat: none.

    channel_max: highest channel number, 0..65535; frame_bytes_max: bytes with envelope,
    0 or 4096..2**32-1; heartbeat_s: seconds, 0..65535.
    """

    channel_max: int
    frame_bytes_max: int
    heartbeat_s: int


def tune_method(server: Tuning) -> ConnectionTune:
    """connection.tune offering `server`."""
    return ConnectionTune(
        channel_max=server.channel_max,
        frame_max=server.frame_bytes_max,
        heartbeat=server.heartbeat_s,
    )


def tuning_of(method: ConnectionTuneOk) -> Tuning:
    """What the client asks for, not yet judged."""
    return Tuning(method.channel_max, method.frame_max, method.heartbeat)


def negotiate(server: Tuning, client: Tuning) -> Tuning:
    """What holds after connection.tune-ok: the client's word, where the server allows it.

    A client may ask for less than was offered, never for more; its 0 (no limit) is more than any
    limit of the server's. The client's heartbeat wins whatever was offered.
    Raises: ConnectionFault 530 NOT_ALLOWED with RabbitMQ's text.
    """
    _judge("frame_max", FRAME_BYTES_LOWEST, server.frame_bytes_max, client.frame_bytes_max)
    _judge("channel_max", 1, server.channel_max, client.channel_max)
    return client


def _judge(name: str, lowest: int, offered: int, asked: int) -> None:
    if asked != 0 and asked < lowest:
        raise _refusal(f"{name} = {asked} is lower than the minimum", lowest)
    if offered != 0 and (asked == 0 or asked > offered):
        detail = " (no limit)" if name == "channel_max" and asked == 0 else ""
        raise _refusal(f"{name} = {asked}{detail} is higher than the maximum", offered)


def _refusal(what: str, allowed: int) -> ConnectionFault:
    # RabbitMQ names connection.tune, not tune-ok, as the method at fault.
    return ConnectionFault(
        NOT_ALLOWED,
        f"negotiated {what} allowed value ({allowed})",
        ConnectionTune.CLASS_ID,
        ConnectionTune.METHOD_ID,
    )
