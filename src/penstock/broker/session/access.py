"""Who may come in: users, passwords, and where a user may come from.

Passwords of the configuration are compared in constant time, and those of other users by their
hashes; a user that is for this machine only is refused from any other address (guest, as in
RabbitMQ).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from hmac import compare_digest
from ipaddress import ip_address
from typing import Final

from penstock.base.chance import Chance
from penstock.base.config import UserConfig
from penstock.broker.session.passwords import ARGON2, hash_password, is_password, salt_bytes
from penstock.protocol.sasl import Credentials

DUMMY: Final = (
    "$argon2id$v=19$m=19456,t=2,p=1$MDAwMDAwMDAwMDAwMDAwMA$"
    "TZCCCJQw6qE40QoszdZDx3LhW/RG6J0UYvSQtFYYSrQ"
)
"""Costs what that of a user costs; whatever it is right for is refused."""


@dataclass(frozen=True, slots=True)
class TlsPeer:
    """What is known of a client that came over TLS. user: by its certificate, "" without one;
    subject: of the certificate, as a distinguished name, "" without one; is_operator: it came over
    the control socket and without TLS, so `user` is whoever runs commands and may do everything."""

    version: str
    cipher: str
    subject: str
    user: str
    is_operator: bool = False


def operator(name: str) -> TlsPeer:
    """The client that comes over the control socket. name: what logs and listings call it."""
    return TlsPeer("", "", "", name, True)


class PasswordWork:
    """Where costly hashes are computed: here at once, on a server by a thread of its own."""

    __slots__ = ()

    def submit(
        self, address: str, work: Callable[[], bool], done: Callable[[bool | None], None]
    ) -> None:
        """Do `work` for a client of `address`, and call `done` with what it says, on the loop;
        with None if there is too much to do."""
        done(work())


class Access:
    """The users of the configuration, and those made while the broker runs. Bound: users_max.

    work: who computes costly hashes; upgraded: called with a user whose password is hashed anew
    after a login, None to keep hashes as they are; remembered: by user the hash that a password was
    right for, and the quick keyed hash of that password, so that only the first login costs."""

    __slots__ = ("_chance", "_key", "_remembered", "upgraded", "users", "work")

    def __init__(self, users: tuple[UserConfig, ...], chance: Chance | None = None) -> None:
        self.users = {user.name: user for user in users}
        self.work = PasswordWork()
        self.upgraded: Callable[[UserConfig], None] | None = None
        self._chance = chance
        self._key = b""
        self._remembered: dict[str, tuple[str, bytes]] = {}

    def judge(self, credentials: Credentials, peer_host: str, done: Callable[[str], None]) -> None:
        """As `check`, and call `done` with it: at once, or later where a hash is costly."""
        user = self.users.get(credentials.user)
        if credentials.is_certified or credentials.password == "" or not self._is_costly(user):
            refusal = self.check(credentials, peer_host)
            if refusal == "" and user is not None and not credentials.is_certified:
                self._upgrade(user, credentials.password, peer_host)
            done(refusal)
            return
        # An unknown user costs as much as a wrong password.
        hashed = DUMMY if user is None else user.password_hash
        quick = self._quick(credentials.password)
        before = self._remembered.get(credentials.user)
        if before is not None and before[0] == hashed and compare_digest(before[1], quick):
            done(self.check_place(credentials.user, peer_host))
            return

        def judged(is_right: bool | None) -> None:
            if is_right is None:
                done(f"user '{credentials.user}': too many passwords are being checked")
            elif not is_right or user is None or self.users.get(user.name) is not user:
                done(f"user '{credentials.user}': invalid credentials")
            else:
                self._remembered[user.name] = (hashed, quick)
                done(self.check_place(user.name, peer_host))

        work = partial(is_password, credentials.password, hashed, ARGON2)
        self.work.submit(peer_host, work, judged)

    def _upgrade(self, user: UserConfig, password: str, peer_host: str) -> None:
        """RabbitMQ's hashes are quick to try out: now that the password is known, hash it anew."""
        upgraded = self.upgraded
        if upgraded is None or user.hashing == "" or self._chance is None:
            return
        salt = self._chance.token(salt_bytes(ARGON2))
        made: list[str] = []

        def work() -> bool:
            made.append(hash_password(password, salt, ARGON2))
            return True

        def done(is_done: bool | None) -> None:
            # Nothing is lost if it is not: there will be another login.
            if is_done and self.users.get(user.name) is user:
                upgraded(replace(user, password_hash=made[0], hashing=ARGON2))

        self.work.submit(peer_host, work, done)

    def forget(self, name: str) -> None:
        """The user is gone."""
        self._remembered.pop(name, None)

    def _is_costly(self, user: UserConfig | None) -> bool:
        if user is None:
            return any(one.hashing == ARGON2 for one in self.users.values())
        return user.hashing == ARGON2

    def _quick(self, password: str) -> bytes:
        if self._key == b"" and self._chance is not None:
            self._key = self._chance.token(32)
        return blake2b(password.encode(), key=self._key, digest_size=32).digest()

    def check(self, credentials: Credentials, peer_host: str) -> str:
        """ "" if the credentials are right and may be used from `peer_host`; otherwise one line for
        the log, which says more than the peer is told."""
        user = self.users.get(credentials.user)
        if credentials.password == "" and not credentials.is_certified:
            return f"user '{credentials.user}': a blank password is never right"
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
