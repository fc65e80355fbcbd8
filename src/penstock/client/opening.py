"""What a client answers while a connection opens: credentials, properties, limits agreed on."""

import sys
from dataclasses import dataclass
from typing import Final

from penstock import __version__
from penstock.base.errors import ConnectionFault
from penstock.base.limits import CHANNELS_MAX, FRAME_BYTES_MAX
from penstock.client.url import BrokerUrl
from penstock.protocol.constants import FRAME_BYTES_LOWEST, NOT_ALLOWED, NOT_IMPLEMENTED
from penstock.protocol.methods import ConnectionStart, ConnectionStartOk, ConnectionTune
from penstock.protocol.values import Table

MECHANISM: Final = "PLAIN"
EXTERNAL: Final = "EXTERNAL"


@dataclass(frozen=True, slots=True)
class Agreed:
    """What both sides keep to. channels_max: 1..65535; frame_bytes_max: bytes, 4096..;
    heartbeat_s: seconds, 0 for none."""

    channels_max: int
    frame_bytes_max: int
    heartbeat_s: int


def client_properties(name: str, more: Table) -> Table:
    """What this client says of itself. `name`: shown by the broker as the connection's name; more:
    what a program adds of its own."""
    properties: Table = {
        "product": "Penstock client",
        "version": __version__,
        "platform": f"Python {sys.version_info.major}.{sys.version_info.minor}",
        "capabilities": {
            "authentication_failure_close": True,
            "basic.nack": True,
            "connection.blocked": True,
            "consumer_cancel_notify": True,
            "exchange_exchange_bindings": True,
            "publisher_confirms": True,
        },
    }
    if name:
        properties["connection_name"] = name
    return {**properties, **more}


def start_ok(start: ConnectionStart, url: BrokerUrl, name: str, more: Table) -> ConnectionStartOk:
    """Answer connection.start with SASL PLAIN; with EXTERNAL where the address names no user and
    the broker knows who comes.

    Raises: ConnectionFault 540 when the broker does not offer PLAIN.
    """
    offered = start.mechanisms.decode("utf-8", "replace").split()
    if url.user == "" and EXTERNAL in offered:
        return ConnectionStartOk(client_properties(name, more), EXTERNAL, b"", "en_US")
    if MECHANISM not in offered:
        raise ConnectionFault(
            NOT_IMPLEMENTED,
            f"the broker offers {' '.join(offered) or 'no mechanism'}; this client speaks PLAIN",
        )
    secret = f"\0{url.user}\0{url.password}".encode()
    return ConnectionStartOk(client_properties(name, more), MECHANISM, secret, "en_US")


def agree(tune: ConnectionTune, url: BrokerUrl) -> Agreed:
    """The lower of what both sides want, where 0 means no wish.

    A heartbeat of 0 asked for in the address switches heartbeats off whatever the broker offers.
    Raises: ConnectionFault 530 when the broker asks for frames below the specification's minimum.
    Source: AMQP 0-9-1 section 1.4.2.6.
    """
    frame_bytes_max = _lower(tune.frame_max, url.frame_bytes_max or FRAME_BYTES_MAX.default)
    if frame_bytes_max < FRAME_BYTES_LOWEST:
        raise ConnectionFault(
            NOT_ALLOWED,
            f"frame_max {frame_bytes_max} is below the minimum of {FRAME_BYTES_LOWEST} bytes",
        )
    heartbeat_s = tune.heartbeat
    if url.heartbeat_s is not None:
        heartbeat_s = _lower(tune.heartbeat, url.heartbeat_s) if url.heartbeat_s else 0
    channels_max = _lower(tune.channel_max, url.channels_max) or CHANNELS_MAX.highest
    return Agreed(channels_max, frame_bytes_max, heartbeat_s)


def _lower(first: int, second: int) -> int:
    return min(first, second) if first and second else first or second
