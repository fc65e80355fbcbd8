"""`penstock tls`: certificates for trying out, and what a certificate says."""

import re
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import click

from penstock.base.errors import OperatorError

CA_CERT = "ca.pem"
DAYS_MAX = 3650
INSTALL = 'pip install "penstock-mq[tls]"'
_FILE_NAME = re.compile(r"[\w@-][\w.@-]{0,63}")


@click.group()
def tls() -> None:
    """Make certificates for trying out, and look at certificates."""
    if find_spec("cryptography") is None:
        raise OperatorError(f"the package cryptography cannot be found: {INSTALL}")


@tls.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    default=("localhost", "127.0.0.1", "::1"),
    show_default=True,
    help="Name or address under which clients reach the broker; may be given several times.",
)
@click.option(
    "--client", "users", multiple=True, help="Also a certificate that logs in as this user."
)
@click.option("--days", default=365, show_default=True, type=click.IntRange(1, DAYS_MAX))
def selfsigned(directory: Path, hosts: tuple[str, ...], users: tuple[str, ...], days: int) -> None:
    """Make an authority in DIRECTORY, a certificate for a broker, and some for clients.

    An authority that is in DIRECTORY already is used again.
    """
    from penstock.cli.certificates import make_authority, make_client, make_server

    for user in users:
        if _FILE_NAME.fullmatch(user) is None or user in ("ca", "server"):
            raise OperatorError(
                f"'{user}' cannot be the name of files; a user has letters, digits, and . _ - @, "
                "at most 64 of them, and is neither ca nor server"
            )
    now = datetime.now(UTC)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not (directory / CA_CERT).exists():
            make_authority(directory, days, now)
        if not (directory / "server.pem").exists() or not users:
            make_server(directory, "server", hosts, days, now)
        for user in users:
            make_client(directory, user, days, now)
    except OSError as fault:
        raise OperatorError(f"{directory} cannot be written: {fault.strerror}") from fault
    asks = f" --tls-ca {directory / CA_CERT}" if users else ""
    click.echo(f"made for {', '.join(hosts)}, good for {days} days. Start the broker with")
    click.echo(
        f"    penstock serve --tls-cert {directory / 'server.pem'} "
        f"--tls-key {directory / 'server.key'}{asks}"
    )
    click.echo(f"clients trust {directory / CA_CERT}")
    for user in users:
        click.echo(
            f"{user} logs in by {directory / f'{user}.pem'} and {directory / f'{user}.key'} "
            "(SASL EXTERNAL)"
        )


@tls.command()
@click.argument("path")
def show(path: str) -> None:
    """Print whom the certificate in PATH is for, and until when."""
    from penstock.cli.certificates import read_certificate

    found = read_certificate(path)
    for name, text in (
        ("for", found.words(datetime.now(UTC))),
        ("issuer", found.issuer),
        ("names", ", ".join(found.names) or "none"),
        ("from", f"{found.not_before:%Y-%m-%d %H:%M} UTC"),
    ):
        click.echo(f"{name:<8} {text}")
