"""Certificates: an authority of one's own for trying out, and what the files of a broker say.

What is made here is good for tests and for machines of one's own. In production the certificate
comes from whoever the clients trust already.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.base.errors import OperatorError

_CLOCKS_APART: Final = timedelta(hours=1)
"""Certificates are good from a little earlier on, for machines whose clocks are slow."""

CA_CERT: Final = "ca.pem"
CA_KEY: Final = "ca.key"


@dataclass(frozen=True, slots=True)
class Certificate:
    """What matters of a certificate. Times are UTC; names: of machines or addresses it is for."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    not_before: datetime
    not_after: datetime

    def days_left(self, now: datetime) -> float:
        """Below 0 once it has expired."""
        return (self.not_after - now) / timedelta(days=1)

    def words(self, now: datetime) -> str:
        """`CN=broker, until 2027-01-31 12:00 UTC, 69 days left`."""
        left = self.days_left(now)
        said = f"{left:.0f} days left" if left > 0 else f"expired {-left:.0f} days ago"
        return f"{self.subject}, until {self.not_after:%Y-%m-%d %H:%M} UTC, {said}"


def read_certificate(path: str) -> Certificate:
    """The first certificate in a PEM file. Raises: OperatorError."""
    try:
        found = x509.load_pem_x509_certificate(Path(path).read_bytes())
    except OSError as fault:
        raise OperatorError(f"{path} cannot be read: {fault.strerror}") from fault
    except ValueError as fault:
        raise OperatorError(f"{path} holds no certificate in PEM: {fault}") from fault
    try:
        alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = tuple(str(one.value) for one in alternatives)
    except x509.ExtensionNotFound:
        names = ()
    return Certificate(
        found.subject.rfc4514_string(),
        found.issuer.rfc4514_string(),
        names,
        found.not_valid_before_utc,
        found.not_valid_after_utc,
    )


def make_authority(directory: Path, days: int, now: datetime) -> None:
    """`ca.pem` and `ca.key` in `directory`. Raises: OperatorError; OSError."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Penstock, for trying out")
    built = (
        _built(name, name, key.public_key(), days, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(is_authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(directory / CA_CERT, _pem(built), 0o644)
    _write(directory / CA_KEY, _key_pem(key), 0o600)


def make_server(directory: Path, name: str, hosts: Sequence[str], days: int, now: datetime) -> None:
    """`NAME.pem` and `NAME.key` for a broker that clients reach under `hosts`, names or
    addresses. Raises: OperatorError; OSError."""
    alternatives = x509.SubjectAlternativeName([_host(one) for one in hosts])
    _make(directory, name, hosts[0], alternatives, [ExtendedKeyUsageOID.SERVER_AUTH], days, now)


def make_client(directory: Path, user: str, days: int, now: datetime) -> None:
    """`USER.pem` and `USER.key` for a client that logs in as `user`.
    Raises: OperatorError; OSError."""
    _make(directory, user, user, None, [ExtendedKeyUsageOID.CLIENT_AUTH], days, now)


def make_node(directory: Path, name: str, days: int, now: datetime) -> None:
    """`NAME.pem` and `NAME.key` for the node `name` of a cluster, which dials and is dialled.
    Raises: OperatorError; OSError."""
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    alternatives = x509.SubjectAlternativeName([_host(name)])
    _make(directory, name, name, alternatives, both, days, now)


def _make(
    directory: Path,
    name: str,
    common_name: str,
    alternatives: x509.SubjectAlternativeName | None,
    purposes: Sequence[x509.ObjectIdentifier],
    days: int,
    now: datetime,
) -> None:
    authority, loaded = _authority(directory)
    key = ec.generate_private_key(ec.SECP256R1())
    built = (
        _built(_name(common_name), authority.subject, key.public_key(), days, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(loaded.public_key()),
            critical=False,
        )
    )
    if alternatives is not None:
        built = built.add_extension(alternatives, critical=False)
    _write(directory / f"{name}.pem", _pem(built.sign(loaded, hashes.SHA256())), 0o644)
    _write(directory / f"{name}.key", _key_pem(key), 0o600)


def _authority(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """That of `directory`, with its key. Raises: OperatorError if make_authority has made none."""
    cert_path, key_path = directory / CA_CERT, directory / CA_KEY
    try:
        authority = x509.load_pem_x509_certificate(cert_path.read_bytes())
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
    except FileNotFoundError as fault:
        raise OperatorError(
            f"{fault.filename} is missing, and an authority is {cert_path} and {key_path} "
            "together; choose another directory, or put it there"
        ) from fault
    except (TypeError, ValueError) as fault:
        raise OperatorError(
            f"{cert_path} and {key_path} are no authority that was made here ({fault}); choose "
            "another directory"
        ) from fault
    if (
        not isinstance(key, ec.EllipticCurvePrivateKey)
        or key.public_key() != authority.public_key()
    ):
        raise OperatorError(
            f"{key_path} is not the key of {cert_path}; choose another directory, or bring those "
            "together that belong together"
        )
    return authority, key


def _built(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    days: int,
    now: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_APART)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(text: str) -> x509.Name:
    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
    except ValueError as fault:
        raise OperatorError(f"'{text}' cannot be a name in a certificate: {fault}") from fault


def _host(text: str) -> x509.GeneralName:
    if not text:
        raise OperatorError("a name of a machine, or an address, cannot be empty")
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        pass
    try:
        return x509.DNSName(text.encode("idna").decode())
    except (ValueError, UnicodeError) as fault:
        raise OperatorError(f"'{text}' is no name of a machine, and no address") from fault


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _write(path: Path, data: bytes, mode: int) -> None:
    """A new file that nobody else could read for a moment either. Raises: OperatorError; OSError.
    What is there is not overwritten: clients may trust it."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError as fault:
        raise OperatorError(
            f"{path} is there already and is not overwritten; "
            "choose another directory, or remove it"
        ) from fault
    with os.fdopen(handle, "wb") as file:
        file.write(data)
