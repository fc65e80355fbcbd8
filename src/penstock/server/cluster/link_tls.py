"""TLS between members: version 1.3, both sides show certificates of the cluster's own authority."""

import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.base.errors import OperatorError

HANDSHAKE_S: Final = 5.0
HANDSHAKE_TURNS: Final = 4
"""Of both sides, when there is no network between them; two are needed."""
NOT_YET_VALID: Final = 9
EXPIRED: Final = 10
"""X509_V_ERR_CERT_NOT_YET_VALID and _HAS_EXPIRED of OpenSSL."""


@dataclass(frozen=True, slots=True)
class LinkTls:
    """Contexts of both directions. A name is checked against the certificate's common name, which
    is the node's: addresses of machines may change."""

    accepting: ssl.SSLContext
    dialling: ssl.SSLContext


def load_tls(cert: str, key: str, ca: str) -> LinkTls:
    """From PEM files. Raises: OperatorError, naming the file and the fix."""
    for path in (cert, key, ca):
        if not Path(path).is_file():
            raise OperatorError(
                f"{path} of TLS between nodes is not there; `penstock cluster certificates DIR "
                "NAME…` makes some for trying out"
            )
    return LinkTls(
        _context(ssl.PROTOCOL_TLS_SERVER, cert, key, ca),
        _context(ssl.PROTOCOL_TLS_CLIENT, cert, key, ca),
    )


def _context(side: int, cert: str, key: str, ca: str) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(cert, key)
    except ssl.SSLError as fault:
        raise OperatorError(
            f"{cert} and {key} are no certificate and its key in PEM: {fault.reason}"
        ) from fault
    except OSError as fault:
        raise OperatorError(f"{cert} or {key} cannot be read: {fault.strerror}") from fault
    try:
        context.load_verify_locations(ca)
    except (ssl.SSLError, OSError) as fault:
        raise OperatorError(f"{ca} holds no authority in PEM: {fault}") from fault
    return context


def check_own(tls: LinkTls, name: str, cert: str, ca: str) -> None:
    """That other nodes will take this one's certificate, by a handshake with itself: signed by
    the authority, of this time, good for both directions, and of node `name`.

    Raises: OperatorError, naming the file and the fix."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    dialled = tls.dialling.wrap_bio(to_client, to_server, server_side=False)
    sides = (dialled, tls.accepting.wrap_bio(to_server, to_client, server_side=True))
    waiting = list(sides)
    try:
        for side in sides * HANDSHAKE_TURNS:
            if side in waiting:
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
                    waiting.remove(side)
        # What the side that accepts says of the other's certificate comes behind the handshake.
        with suppress(ssl.SSLWantReadError):
            dialled.read(1)
    except ssl.SSLCertVerificationError as fault:
        raise OperatorError(_unfit(fault, cert, ca)) from fault
    except ssl.SSLError as fault:
        raise OperatorError(f"{cert} is of no use for TLS 1.3: {fault.reason}") from fault
    certified = certified_name(dialled.getpeercert() or {})
    if certified != name:
        raise OperatorError(
            f"{cert} is the certificate of node '{certified}', and this is node '{name}': give "
            "each node its own (penstock cluster certificates)"
        )


def _unfit(fault: ssl.SSLCertVerificationError, cert: str, ca: str) -> str:
    if fault.verify_code in (NOT_YET_VALID, EXPIRED):
        return (
            f"other nodes would not take {cert} ({fault.verify_message}): look at this machine's "
            "clock, or give it a new one (penstock cluster certificates)"
        )
    return (
        f"{ca} does not vouch for {cert} ({fault.verify_message}): give the authority that has "
        "signed the certificates of this cluster's nodes, and a certificate by it"
    )


def certified_name(certificate: Mapping[str, Any]) -> str:
    """The node that a peer's certificate is for, "" for none."""
    for group in certificate.get("subject", ()):
        for name, value in group:
            if name == "commonName":
                return str(value)
    return ""


def dial_words(fault: Exception) -> str:
    """Why a connection to a member did not come about."""
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"shows a certificate that --cluster-ca does not vouch for ({fault.verify_message})"
    if isinstance(fault, ssl.SSLError):
        return (
            f"ended the TLS handshake ({fault.reason}): one of both certificates is not signed by "
            "the other's --cluster-ca, or one side does without TLS"
        )
    if isinstance(fault, TimeoutError):
        return "does not answer"
    if isinstance(fault, OSError) and fault.strerror:
        return fault.strerror.lower()
    return str(fault) or "closed the connection"
