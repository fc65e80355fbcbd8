"""Who may come in: users, passwords, and where a user may come from.

Passwords of the configuration are compared in constant time, and those of other users by their
hashes; a user that is for this machine only is refused from any other address (guest, as in
RabbitMQ).
"""

from dataclasses import dataclass
from hmac import compare_digest
from ipaddress import ip_address

from penstock.base.config import UserConfig
from penstock.broker.session.passwords import is_password
from penstock.protocol.sasl import Credentials


@dataclass(frozen=True, slots=True)
class TlsPeer:
    """What is known of a client that came over TLS. user: by its certificate, "" without one;
    subject: of the certificate, as a distinguished name, "" without one."""

    version: str
    cipher: str
    subject: str
    user: str


class Access:
    """The users of the configuration, and those made while the broker runs. Bound: users_max."""

    __slots__ = ("users",)

    def __init__(self, users: tuple[UserConfig, ...]) -> None:
        self.users = {user.name: user for user in users}

    def check(self, credentials: Credentials, peer_host: str) -> str:
        """ "" if the credentials are right and may be used from `peer_host`; otherwise one line for
        the log, which says more than the peer is told."""
        user = self.users.get(credentials.user)
        if credentials.is_certified:
            is_right = user is not None
        elif user is not None and user.hashing != "":
            is_right = is_password(credentials.password, user.password_hash, user.hashing)
        else:
            # An unknown user costs the same comparison as a wrong password.
            expected = user.password if user is not None else "\x00"
            is_right = compare_digest(expected.encode(), credentials.password.encode())
        if user is None and credentials.is_certified:
            return (
                f"user '{credentials.user}', named by the client's certificate, does not exist; "
                "make it, or see tls_user_from"
            )
        if user is None or not is_right:
            return f"user '{credentials.user}': invalid credentials"
        return self.check_place(credentials.user, peer_host)

    def check_place(self, name: str, peer_host: str) -> str:
        """As `check`, of a user who has logged in, by where he comes from alone."""
        user = self.users.get(name)
        if user is not None and user.is_loopback_only and not is_loopback(peer_host):
            return (
                f"user '{name}' can only connect via localhost, not from {peer_host}; "
                "make another user for remote clients"
            )
        return ""


def is_loopback(host: str) -> bool:
    """True for addresses of this machine, and for "" (a local socket)."""
    if host == "":
        return True
    try:
        address = ip_address(host.split("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool(mapped.is_loopback if mapped is not None else address.is_loopback)
