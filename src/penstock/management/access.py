"""Who asks over HTTP, and what his tags let him see: RabbitMQ's rules.

    management      his own virtual hosts: their objects, and his own connections
    policymaker     the same, and policies and parameters of them
    monitoring      all virtual hosts and connections, and the node
    administrator   all of it, and users, virtual hosts, permissions, closing connections
A login that was right is remembered for a few seconds, by a keyed hash and never by the password.
"""

import asyncio
import binascii
import secrets
import time
from base64 import b64decode
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Final

from penstock.base.limits import MANAGEMENT_GUESSES, MANAGEMENT_LOGINS
from penstock.management.broker_link import BrokerLink
from penstock.management.errors import HttpFault, login_failed, not_authorised, unavailable

LOGIN_S: Final = 5.0
ADMINISTRATOR: Final = "administrator"
MONITORING: Final = "monitoring"
POLICYMAKER: Final = "policymaker"
MANAGEMENT: Final = "management"
TAGS: Final = (ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT)


@dataclass(frozen=True, slots=True)
class Visitor:
    """A user who has logged in. vhosts: those that he may use; missing: why that is not known of
    every virtual host, "" where it is."""

    name: str
    password: str = field(repr=False)
    tags: frozenset[str]
    vhosts: frozenset[str]
    missing: str = ""

    @property
    def is_administrator(self) -> bool:
        return ADMINISTRATOR in self.tags

    @property
    def sees_all(self) -> bool:
        """Whether objects of all virtual hosts and users are shown."""
        return self.is_administrator or MONITORING in self.tags

    def sees(self, vhost: str) -> bool:
        return self.sees_all or vhost in self.vhosts

    def need_administrator(self) -> None:
        """Raises: HttpFault 401."""
        if not self.is_administrator:
            raise not_authorised("Not administrator user")

    def need_monitor(self) -> None:
        """Raises: HttpFault 401."""
        if not self.sees_all:
            raise not_authorised("Not monitor user")

    def need_policymaker(self) -> None:
        """Raises: HttpFault 401."""
        if not self.is_administrator and POLICYMAKER not in self.tags:
            raise not_authorised("Not policymaker user")

    def need_policymaker_of(self, vhost: str) -> None:
        """Who may change policies of `vhost`: to see it, as `monitoring` does, is not enough.

        Raises: HttpFault 401; 503 where it is not known."""
        self.need_policymaker()
        if not self.is_administrator and vhost not in self.vhosts:
            raise self._is_not_theirs()

    def need_vhost(self, vhost: str) -> None:
        """Raises: HttpFault 401; 503 where it is not known."""
        if not self.sees(vhost):
            raise self._is_not_theirs()

    def _is_not_theirs(self) -> HttpFault:
        if self.missing:
            return unavailable(f"which virtual hosts you may use is not all known: {self.missing}")
        return not_authorised("User not authorised to access virtual host")


Known = dict[bytes, tuple[float, Visitor]]
"""Visitors by their keyed hash, and until when that holds."""
Asking = dict[bytes, asyncio.Task[Visitor]]


class Logins:
    """Asks the broker whether credentials are right, once for all who come with the same at a time,
    because that may take long. Bound: MANAGEMENT_LOGINS remembered.

    A wrong password is answered late. Credentials that have never been right wait for their answers
    in MANAGEMENT_GUESSES turns of their own, so that guessing holds no page and no reader up."""

    def __init__(self, link: BrokerLink) -> None:
        self.link = link
        self._key = secrets.token_bytes(32)
        self._known: Known = {}
        self._asking: Asking = {}
        self._guesses = asyncio.Semaphore(MANAGEMENT_GUESSES.default)

    async def visitor(self, header: str, address: str) -> Visitor:
        """header: of Authorization, Basic; address: of the client. Raises: HttpFault 401."""
        user, password = credentials(header)
        return await self.login(user, password, address)

    async def login(self, user: str, password: str, address: str) -> Visitor:
        """Raises: HttpFault 401."""
        told = self._known
        said = "\0".join((user, password, address)).encode("utf-8", "surrogateescape")
        key = blake2b(said, key=self._key, digest_size=32).digest()
        now = time.monotonic()
        known = told.get(key)
        if known is not None and now < known[0]:
            return known[1]
        asking = self._asking
        task = asking.get(key)
        if task is None:
            task = asyncio.create_task(self._judged(told, key, user, password, address))
            asking[key] = task
            task.add_done_callback(partial(_over, asking, key))
        return await asyncio.shield(task)

    async def _judged(
        self, told: Known, key: bytes, user: str, password: str, address: str
    ) -> Visitor:
        """What the broker says of a login, noted in `told`. Raises: HttpFault 401."""
        known = told.get(key)
        answer = await self.link.ask(
            {
                "op": "objects",
                "do": "login",
                "user": user,
                "password": password,
                "address": address,
            },
            self._guesses if known is None else None,
        )
        if "refused" in answer:
            told.pop(key, None)
            raise login_failed()
        tags = frozenset(str(one) for one in answer["tags"])
        if not tags & set(TAGS):
            raise not_authorised("Not management user")
        missing = "; ".join(map(str, answer.get("missing", ())))
        found = Visitor(user, password, tags, frozenset(answer["vhosts"]), missing)
        while len(told) >= MANAGEMENT_LOGINS.default:
            del told[next(iter(told))]
        told.pop(key, None)
        told[key] = (time.monotonic() + LOGIN_S, found)
        return found

    def forget(self) -> None:
        """Users or permissions have changed: everybody is asked about anew."""
        self._known = {key: (0.0, visitor) for key, (_, visitor) in self._known.items()}
        self._asking = {}


def _over(asking: Asking, key: bytes, task: asyncio.Task[Visitor]) -> None:
    """Nobody waits for it any more; who was refused and has gone is told nothing."""
    asking.pop(key, None)
    if not task.cancelled():
        task.exception()


def credentials(header: str) -> tuple[str, str]:
    """User and password of a Basic header. Raises: HttpFault 401."""
    scheme, _, text = header.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError("not Basic")
        user, colon, password = (
            b64decode(text.strip(), validate=True).decode("utf-8").partition(":")
        )
    except (ValueError, binascii.Error) as error:
        raise login_failed() from error
    if not colon:
        raise login_failed()
    return user, password
