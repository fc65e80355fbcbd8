"""The methods of class connection: negotiation, closing, blocking, new secrets.

Source: AMQP 0-9-1 section 1.4.2; blocked, unblocked and update-secret as RabbitMQ.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from penstock.protocol.methods.base import Fields, Method
from penstock.protocol.values import Table


@dataclass(slots=True)
class ConnectionStart(Method):
    """The server opens the negotiation. mechanisms, locales: separated by spaces."""

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 10
    NAME: ClassVar[str] = "connection.start"
    FIELDS: ClassVar[Fields] = (
        ("version_major", "octet"),
        ("version_minor", "octet"),
        ("server_properties", "table"),
        ("mechanisms", "longstr"),
        ("locales", "longstr"),
    )

    version_major: int = 0
    version_minor: int = 9
    server_properties: Table = field(default_factory=dict)
    mechanisms: bytes = b"PLAIN"
    locales: bytes = b"en_US"


@dataclass(slots=True)
class ConnectionStartOk(Method):
    """The client chooses a mechanism and answers it. response: a secret, kept out of repr."""

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 11
    NAME: ClassVar[str] = "connection.start-ok"
    FIELDS: ClassVar[Fields] = (
        ("client_properties", "table"),
        ("mechanism", "shortstr"),
        ("response", "longstr"),
        ("locale", "shortstr"),
    )

    client_properties: Table = field(default_factory=dict)
    mechanism: str = "PLAIN"
    response: bytes = field(default=b"", repr=False)
    locale: str = "en_US"


@dataclass(slots=True)
class ConnectionSecure(Method):
    """The server challenges the client once more."""

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 20
    NAME: ClassVar[str] = "connection.secure"
    FIELDS: ClassVar[Fields] = (("challenge", "longstr"),)

    challenge: bytes = b""


@dataclass(slots=True)
class ConnectionSecureOk(Method):
    """The client answers the challenge. response: a secret, kept out of repr."""

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 21
    NAME: ClassVar[str] = "connection.secure-ok"
    FIELDS: ClassVar[Fields] = (("response", "longstr"),)

    response: bytes = field(default=b"", repr=False)


@dataclass(slots=True)
class ConnectionTune(Method):
    """What the server offers. frame_max: bytes; heartbeat: seconds; 0 means no limit."""

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 30
    NAME: ClassVar[str] = "connection.tune"
    FIELDS: ClassVar[Fields] = (
        ("channel_max", "short"),
        ("frame_max", "long"),
        ("heartbeat", "short"),
    )

    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


@dataclass(slots=True)
class ConnectionTuneOk(Method):
    """What the client takes. frame_max: bytes; heartbeat: seconds; 0 means no limit."""

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 31
    NAME: ClassVar[str] = "connection.tune-ok"
    FIELDS: ClassVar[Fields] = (
        ("channel_max", "short"),
        ("frame_max", "long"),
        ("heartbeat", "short"),
    )

    channel_max: int = 0
    frame_max: int = 0
    heartbeat: int = 0


@dataclass(slots=True)
class ConnectionOpen(Method):
    """The client enters a virtual host."""

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 40
    NAME: ClassVar[str] = "connection.open"
    FIELDS: ClassVar[Fields] = (
        ("virtual_host", "shortstr"),
        ("reserved_1", "shortstr"),
        ("reserved_2", "bit"),
    )

    virtual_host: str = "/"


@dataclass(slots=True)
class ConnectionOpenOk(Method):
    """The virtual host is open."""

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 41
    NAME: ClassVar[str] = "connection.open-ok"
    FIELDS: ClassVar[Fields] = (("reserved_1", "shortstr"),)


@dataclass(slots=True)
class ConnectionClose(Method):
    """Either side closes. class_id, method_id: the method at fault, 0 when none."""

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 50
    NAME: ClassVar[str] = "connection.close"
    FIELDS: ClassVar[Fields] = (
        ("reply_code", "short"),
        ("reply_text", "shortstr"),
        ("class_id", "short"),
        ("method_id", "short"),
    )

    reply_code: int = 0
    reply_text: str = ""
    class_id: int = 0
    method_id: int = 0


@dataclass(slots=True)
class ConnectionCloseOk(Method):
    """The connection is closed."""

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 51
    NAME: ClassVar[str] = "connection.close-ok"


@dataclass(slots=True)
class ConnectionBlocked(Method):
    """The broker is low on a resource and reads no more publishes."""

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 60
    NAME: ClassVar[str] = "connection.blocked"
    FIELDS: ClassVar[Fields] = (("reason", "shortstr"),)

    reason: str = ""


@dataclass(slots=True)
class ConnectionUnblocked(Method):
    """The broker reads publishes again."""

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 61
    NAME: ClassVar[str] = "connection.unblocked"


@dataclass(slots=True)
class ConnectionUpdateSecret(Method):
    """The client renews its credentials. new_secret: kept out of repr."""

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 70
    NAME: ClassVar[str] = "connection.update-secret"
    FIELDS: ClassVar[Fields] = (("new_secret", "longstr"), ("reason", "shortstr"))

    new_secret: bytes = field(default=b"", repr=False)
    reason: str = ""


@dataclass(slots=True)
class ConnectionUpdateSecretOk(Method):
    """The new credentials were taken."""

    CLASS_ID: ClassVar[int] = 10
    METHOD_ID: ClassVar[int] = 71
    NAME: ClassVar[str] = "connection.update-secret-ok"
