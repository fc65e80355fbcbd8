"""What a port for TLS shows to clients: settings made into a context, read again on request.

Versions before 1.2, compression and renegotiation are off, as are tickets where clients show
certificates: a ticket would let in whom a new list of authorities keeps out.
Source: RabbitMQ's ssl_options.
"""

import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from stat import S_IROTH
from types import MappingProxyType
from typing import Any, Final

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.server.net.tls import (
    ALTERNATIVE_NAME,
    COMMON_NAME,
    DISTINGUISHED_NAME,
    distinguished_name,
    is_user_from,
    said,
)

NO_CERTIFICATE: Final = "none"
ASKED: Final = "peer"
NEEDED: Final = "require"
VERIFY: Final = (NO_CERTIFICATE, ASKED, NEEDED)
"""Whether clients show a certificate: they are not asked; they are asked and one that is shown must
be good (verify_peer); they must (fail_if_no_peer_cert)."""

SOON_DAYS: Final = 14
"""Fewer days than these that a certificate is good for are worth a warning."""

VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = MappingProxyType(
    {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
)


def is_tls_wanted(config: Config) -> bool:
    """Whether there is a port for TLS."""
    return config.tls_cert != "" and config.tls_port >= 0


@dataclass(frozen=True, slots=True)
class Shown:
    """The certificate that clients see. subject: a distinguished name; not_after: in UTC; fault:
    why clients refuse it whatever they trust, "" if they need not; then nothing else is known."""

    subject: str
    not_after: datetime
    fault: str = ""

    def days_left(self, now: datetime) -> float:
        """0 or less once it has expired."""
        return 0.0 if self.fault else (self.not_after - now) / timedelta(days=1)

    def words(self, now: datetime) -> str:
        """`CN=broker, until 2027-01-31 12:00 UTC, 69 days left`."""
        if self.fault:
            return f"clients refuse it: {self.fault}"
        until = f"{self.not_after:%Y-%m-%d %H:%M} UTC"
        return f"{self.subject}, until {until}, {self.days_left(now):.0f} days left"


class TlsEndpoint:
    """What a TLS port shows to clients. context: for new sessions, exchanged by `load`; sessions
    that are open keep theirs."""

    __slots__ = ("_certificate", "_config", "_warn", "context")

    def __init__(self, config: Config, warn: Callable[[str], None]) -> None:
        """Raises: OperatorError, naming the setting and the fix."""
        self._config = config
        self._warn = warn
        self.load()

    @property
    def user_from(self) -> str:
        """Where in a certificate the user's name is."""
        return self._config.tls_user_from

    def load(self, config: Config | None = None) -> None:
        """Read the files, of `config` from now on if it is given. Raises: OperatorError, and
        everything is as it was."""
        before = self._config
        self._config = before if config is None else config
        try:
            context, certificate = self._made()
        except OperatorError:
            self._config = before
            raise
        self.context, self._certificate = context, certificate
        now = datetime.now(UTC)
        if self._certificate.days_left(now) < SOON_DAYS:
            words = self._certificate.words(now)
            self._warn(f"the certificate of TLS: {words}; put a new one in its place, send SIGHUP")

    def words(self, now: datetime) -> str:
        """Whom the certificate is for, and until when."""
        return self._certificate.words(now)

    def left_s(self) -> float:
        """Seconds until the certificate expires; 0 or less once it has."""
        return self._certificate.days_left(datetime.now(UTC)) * 86_400

    def _made(self) -> tuple[ssl.SSLContext, Shown]:
        config = self._config
        for name, value, known in (
            ("tls_verify", config.tls_verify, VERIFY),
            ("tls_min_version", config.tls_min_version, tuple(VERSIONS)),
        ):
            if value not in known:
                raise OperatorError(f"{name} = '{value}' is none of {', '.join(known)}")
        if not is_user_from(config.tls_user_from):
            raise OperatorError(
                f"tls_user_from = '{config.tls_user_from}' is none of {COMMON_NAME}, "
                f"{DISTINGUISHED_NAME}, {ALTERNATIVE_NAME}, {ALTERNATIVE_NAME}:dns:0 (or ip, "
                "email, uri, and the number of the name)"
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = VERSIONS[config.tls_min_version]
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_SINGLE_ECDH_USE
        if config.tls_ciphers:
            try:
                context.set_ciphers(config.tls_ciphers)
            except ssl.SSLError as fault:
                raise OperatorError(
                    f"tls_ciphers = '{config.tls_ciphers}' names no cipher of OpenSSL; see "
                    "`openssl ciphers`, or leave it out"
                ) from fault
        self._load_certificate(context)
        # While it asks clients for no certificate: whoever looks has none.
        certificate = look_at(context)
        if config.tls_verify != NO_CERTIFICATE:
            context.verify_mode = (
                ssl.CERT_REQUIRED if config.tls_verify == NEEDED else ssl.CERT_OPTIONAL
            )
            context.num_tickets = 0
            context.options |= ssl.OP_NO_TICKET
            self._load_authorities(context)
        return context, certificate

    def _load_certificate(self, context: ssl.SSLContext) -> None:
        config = self._config
        key = config.tls_key or config.tls_cert
        for name, path in (("tls_cert", config.tls_cert), ("tls_key", key)):
            _require_file(name, path)
        if Path(key).stat().st_mode & S_IROTH:
            self._warn(f"everybody on this machine may read the private key {key}: chmod o-r {key}")
        try:
            # Without a password OpenSSL would ask the terminal for one.
            context.load_cert_chain(config.tls_cert, key, config.tls_key_password or _no_password)
        except ssl.SSLError as fault:
            raise OperatorError(
                f"tls_cert = {config.tls_cert} and tls_key = {key} cannot be used: {said(fault)}; "
                "both must be PEM files, the key that of the first certificate"
            ) from fault

    def _load_authorities(self, context: ssl.SSLContext) -> None:
        config = self._config
        if config.tls_ca == "":
            raise OperatorError(
                f"tls_verify = '{config.tls_verify}' needs tls_ca, a PEM file with the authorities "
                "whose certificates clients may show"
            )
        _require_file("tls_ca", config.tls_ca)
        try:
            context.load_verify_locations(config.tls_ca)
        except ssl.SSLError as fault:
            raise OperatorError(
                f"tls_ca = {config.tls_ca} holds no certificate: {said(fault)}; it must be a PEM "
                "file"
            ) from fault


def look_at(server: ssl.SSLContext) -> Shown:
    """See for oneself, as a client in memory that trusts this one certificate."""
    try:
        der = _handshake(server, _client()).getpeercert(binary_form=True)
    except ssl.SSLError as fault:
        # Of a curve, say, that this machine takes from nobody.
        return Shown("", datetime.fromtimestamp(0, UTC), said(fault))
    assert der is not None, "a server always shows one"
    trusting = _client()
    trusting.verify_mode = ssl.CERT_REQUIRED
    trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trusting.load_verify_locations(cadata=der)
    try:
        found = _handshake(server, trusting).getpeercert()
    except ssl.SSLCertVerificationError as fault:
        return Shown("", datetime.fromtimestamp(0, UTC), fault.verify_message)
    assert found is not None, "it was verified"
    until = datetime.fromtimestamp(ssl.cert_time_to_seconds(str(found["notAfter"])), UTC)
    subject: Any = found.get("subject", ())
    return Shown(distinguished_name(subject), until)


def _client() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """The client's side, once it has seen the certificate."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(there, back, server_side=True)
    theirs = client.wrap_bio(back, there)
    while True:
        try:
            theirs.do_handshake()
        except ssl.SSLWantReadError:
            # The server waits for the client's part at the end.
            with suppress(ssl.SSLWantReadError):
                ours.do_handshake()
        else:
            return theirs


def _no_password() -> str:
    raise OperatorError("the private key is encrypted; give its password as tls_key_password")


def _require_file(name: str, path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as fault:
        raise OperatorError(f"{name} = '{path}' cannot be read: {fault.strerror}") from fault
