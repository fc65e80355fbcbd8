"""Sessions of people who have logged in with a browser.

A session is a random token in a cookie. It keeps the user's name and password in memory, because
changes are made over AMQP as that user, and asks the broker again every few seconds whether they
still hold: a user who is deleted or loses a tag is out at once.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from hmac import compare_digest
from typing import Final

from penstock.base.limits import MANAGEMENT_SESSIONS

COOKIE: Final = "penstock_session"
SESSION_S: Final = 8 * 3600.0
"""How long a session lasts at most, as RabbitMQ's."""
IDLE_S: Final = 3600.0
"""How long it lasts without a request."""
FLASHES_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Flash:
    """What an action has done, for the next page. is_error: whether it was refused."""

    text: str
    is_error: bool = False


@dataclass(slots=True)
class Session:
    """csrf: what every form of one login carries; until: monotonic seconds at which it ends,
    whatever happens; seen: of its last request; flashes: not shown yet, at most FLASHES_MAX."""

    user: str
    password: str = field(repr=False)
    csrf: str = field(repr=False)
    until: float
    seen: float
    flashes: list[Flash] = field(default_factory=list)

    def tell(self, text: str, is_error: bool = False) -> None:
        """Show `text` on the next page; the oldest is dropped at the bound."""
        self.flashes.append(Flash(text, is_error))
        del self.flashes[:-FLASHES_MAX]

    def take_flashes(self) -> list[Flash]:
        """Those to be shown now, and never again."""
        taken, self.flashes = self.flashes, []
        return taken

    def is_own(self, csrf: str) -> bool:
        """Whether a form was made for this login."""
        return compare_digest(self.csrf.encode(), csrf.encode("utf-8", "surrogateescape"))


class Sessions:
    """Bound: MANAGEMENT_SESSIONS; the one longest without a request goes first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: seconds, monotonic."""
        self._clock = clock
        self._by_token: dict[bytes, Session] = {}

    def open(self, user: str, password: str) -> str:
        """A new session for a login that was right; the token of its cookie."""
        now = self._clock()
        for key in [key for key, one in self._by_token.items() if self._is_over(one, now)]:
            del self._by_token[key]
        while len(self._by_token) >= MANAGEMENT_SESSIONS.default:
            del self._by_token[min(self._by_token, key=lambda key: self._by_token[key].seen)]
        token = secrets.token_urlsafe(32)
        session = Session(user, password, secrets.token_urlsafe(32), now + SESSION_S, now)
        self._by_token[_key(token)] = session
        return token

    def find(self, token: str) -> Session | None:
        """The session of a cookie, None where there is none any more."""
        key = _key(token)
        session = self._by_token.get(key)
        now = self._clock()
        if session is None:
            return None
        if self._is_over(session, now):
            del self._by_token[key]
            return None
        session.seen = now
        return session

    def close(self, token: str) -> None:
        """Log out."""
        self._by_token.pop(_key(token), None)

    def __len__(self) -> int:
        return len(self._by_token)

    @staticmethod
    def _is_over(session: Session, now: float) -> bool:
        return now >= session.until or now >= session.seen + IDLE_S


def _key(token: str) -> bytes:
    """Tokens themselves are not kept, and finding one takes no time that depends on its letters."""
    return blake2b(token.encode("utf-8", "surrogateescape"), digest_size=32).digest()
