"""One client's TLS, between the bytes of its socket and content; and whom a certificate names.

A session works on memory alone. What a socket brought goes in and content comes out, and the other
way round, so the sockets, the poller and every rule of flow control are the same with TLS as
without. Only the handshake costs real time; it is made elsewhere (`handshakes.py`).
Source: RFC 8446, RFC 5246; RabbitMQ's ssl_cert_login_from.
"""

import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

from penstock.base.limits import TLS_SILENT_BYTES
from penstock.broker.session.access import TlsPeer

RECORD_BYTES: Final = 16_384
"""The most content of one record (RFC 8446, 5.1)."""

SEALED_BYTES: Final = 16 * RECORD_BYTES
"""Handed to OpenSSL at once: it never gives back what it has needed once for what it has sealed."""

COMMON_NAME: Final = "common_name"
DISTINGUISHED_NAME: Final = "distinguished_name"
ALTERNATIVE_NAME: Final = "subject_alternative_name"

_SHORT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "commonName": "CN",
        "countryName": "C",
        "localityName": "L",
        "stateOrProvinceName": "ST",
        "organizationName": "O",
        "organizationalUnitName": "OU",
        "domainComponent": "DC",
        "userId": "UID",
        "streetAddress": "STREET",
    }
)
"""Names of attributes in a distinguished name (RFC 4514, 3)."""

_SPECIAL: Final = frozenset('\\,+"<>;=')


class TlsFault(Exception):
    """What a peer sent is no TLS that can be gone on with."""


class TlsSession:
    """One peer's TLS, beginning with the handshake. Not thread-safe: the handshake may be made by
    another thread, one step at a time, and nothing else touches the session meanwhile.

    is_ended: the peer has said that no content follows (close_notify)."""

    __slots__ = ("_incoming", "_outgoing", "_session", "_silent_bytes", "is_ended")

    def __init__(self, context: ssl.SSLContext, *, is_server: bool = True) -> None:
        """is_server: the peer has dialled."""
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        self._silent_bytes = 0
        self.is_ended = False

    def feed(self, data: bytes) -> None:
        """Bytes from the socket, for `shake`."""
        self._incoming.write(data)

    def shake(self) -> bool:
        """Go on with the handshake; True once it is done. Raises: TlsFault."""
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except (ssl.SSLError, OSError) as fault:
            raise TlsFault(said(fault)) from fault
        return True

    def to_send(self) -> bytes:
        """What TLS itself has to say: of the handshake, alerts, answers to updates of keys."""
        return self._outgoing.read()

    @property
    def has_answer(self) -> bool:
        """Whether `to_send` has anything."""
        return self._outgoing.pending > 0

    def opened(self, data: bytes) -> bytes:
        """The content of what came from the socket; it may be empty. Raises: TlsFault."""
        self._incoming.write(data)
        parts = []
        try:
            while True:
                part = self._session.read(RECORD_BYTES)
                if not part:
                    self.is_ended = True
                    break
                parts.append(part)
                if self._incoming.pending == 0 and self._session.pending() == 0:
                    # Another read would only say, by an exception, that it wants more.
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_ended = True
        except (ssl.SSLError, OSError) as fault:
            raise TlsFault(said(fault)) from fault
        if parts:
            self._silent_bytes = 0
            return parts[0] if len(parts) == 1 else b"".join(parts)
        self._silent_bytes += len(data)
        if self._silent_bytes > TLS_SILENT_BYTES.default:
            raise TlsFault(
                f"{self._silent_bytes} bytes of TLS in a row without content, more than "
                f"{TLS_SILENT_BYTES.default}"
            )
        return b""

    def sealed(self, data: bytes) -> bytes:
        """The bytes to send for `data`, behind whatever `to_send` has. Raises: TlsFault."""
        parts = []
        view = memoryview(data)
        try:
            for at in range(0, len(data), SEALED_BYTES):
                self._session.write(view[at : at + SEALED_BYTES])
                parts.append(self._outgoing.read())
        except (ssl.SSLError, OSError) as fault:
            raise TlsFault(said(fault)) from fault
        return b"".join(parts) if parts else self._outgoing.read()

    def farewell(self) -> bytes:
        """The bytes that say that no content follows (close_notify)."""
        # It waits for the peer's own, or the peer was faulty: ours is written either way.
        with suppress(ssl.SSLError, OSError, ValueError):
            self._session.unwrap()
        return self._outgoing.read()

    def certificate(self) -> Mapping[str, Any]:
        """The peer's, as ssl shows it; empty if it has shown none."""
        return dict(self._session.getpeercert() or {})

    def peer(self, user_from: str) -> TlsPeer:
        """What the handshake has found out. user_from: COMMON_NAME and the like."""
        certificate = self.certificate()
        cipher = self._session.cipher()
        return TlsPeer(
            self._session.version() or "",
            "" if cipher is None else cipher[0],
            distinguished_name(certificate.get("subject", ())),
            user_of(certificate, user_from),
        )


def said(fault: OSError) -> str:
    """What OpenSSL says of it, without the places in its source."""
    reason = getattr(fault, "reason", None)
    verify = getattr(fault, "verify_message", None)
    words = str(reason or fault.strerror or fault).lower().replace("_", " ")
    return f"{words}: {verify}" if verify else words


def distinguished_name(subject: Sequence[Sequence[tuple[str, str]]]) -> str:
    """`CN=app,O=Example`: the last attribute first, with what is special escaped (RFC 4514)."""
    parts = []
    for group in reversed(subject):
        for name, value in group:
            escaped = "".join(f"\\{one}" if one in _SPECIAL else one for one in value)
            if escaped[:1] in (" ", "#"):
                escaped = f"\\{escaped}"
            if escaped.endswith(" ") and not escaped.endswith("\\ "):
                escaped = f"{escaped[:-1]}\\ "
            parts.append(f"{_SHORT.get(name, name)}={escaped}")
    return ",".join(parts)


def user_of(certificate: Mapping[str, Any], user_from: str) -> str:
    """The name of the user in a verified certificate, "" if it has none.

    user_from: common_name (the first one, or several of them joined by commas, as RabbitMQ does),
    distinguished_name, or subject_alternative_name with a kind and a number behind it, as in
    `subject_alternative_name:dns:0`; kinds are dns, ip, email, uri; without, dns:0.
    """
    kind, _, rest = user_from.partition(":")
    if kind == DISTINGUISHED_NAME:
        return distinguished_name(certificate.get("subject", ()))
    if kind == COMMON_NAME:
        names = [
            value
            for group in certificate.get("subject", ())
            for name, value in group
            if name == "commonName"
        ]
        return ",".join(names)
    wanted, index = _alternative(rest)
    found = [value for name, value in certificate.get("subjectAltName", ()) if name == wanted]
    return found[index] if index < len(found) else ""


_ALTERNATIVES: Final[Mapping[str, str]] = MappingProxyType(
    {"dns": "DNS", "ip": "IP Address", "email": "email", "uri": "URI"}
)


def _alternative(rest: str) -> tuple[str, int]:
    kind, _, number = rest.partition(":")
    return _ALTERNATIVES[kind or "dns"], int(number or 0)


def is_user_from(text: str) -> bool:
    """Whether `text` says where in a certificate the user's name is."""
    kind, _, rest = text.partition(":")
    if kind in (COMMON_NAME, DISTINGUISHED_NAME):
        return rest == ""
    if kind != ALTERNATIVE_NAME:
        return False
    try:
        return _alternative(rest)[1] >= 0
    except (KeyError, ValueError):
        return False
