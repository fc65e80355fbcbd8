"""Guessing passwords is slow: wrong ones are answered late, and later the more there were.

    answer after = LOGIN_DELAY_MS x 2^(failures - FREE), at most LOGIN_DELAY_MAX_MS
    failures     = the more of: from this address, for this user; forgotten after FORGET_NS of quiet

Nobody is locked out: a right password is answered at once, whatever was guessed before, so that
nobody can shut out a user whose name is known. How many guesses may wait side by side is bounded by
address instead: one that has guessed has room for SUSPECT_SOCKETS that have not logged in.
Source: RabbitMQ, which answers a second later.
"""

from typing import Final, NamedTuple

from penstock.base.limits import (
    LOGIN_FAILURES,
    STRANGERS,
    STRANGERS_PER_ADDRESS,
    SUSPECT_SOCKETS,
)

NS_PER_MS: Final = 1_000_000
FREE: Final = 5
"""Failures that cost no more than the first: people mistype."""
FORGET_NS: Final = 60_000_000_000
LOGIN_DELAY_MAX_MS: Final = 8000
"""Below handshake_ms by default, so that the answer still goes out."""


class Refusal(NamedTuple):
    """How a refused login is answered: after so many nanoseconds; is_said: one line in the log is
    worth it, which of a long row of guesses is so for every one that doubles their number."""

    delay_ns: int
    is_said: bool


class Guessing:
    """Who has failed to log in lately, and who has not logged in yet. Bound: LOGIN_FAILURES.

    delay_ms: until the first wrong password is answered, 0 for no delay at all; strangers: sockets
    that have not logged in, by address."""

    __slots__ = ("_failures", "delay_ms", "failed_count", "stranger_count", "strangers")

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.failed_count = 0
        self.stranger_count = 0
        self.strangers: dict[str, int] = {}
        # By address or user, how many and when the last one was; the one longest quiet comes first.
        self._failures: dict[tuple[str, str], tuple[int, int]] = {}

    def failed(self, address: str, user: str, now_ns: int) -> Refusal:
        """A login was refused."""
        self.failed_count += 1
        most = max(self._count(("address", address), now_ns), self._count(("user", user), now_ns))
        delay_ms = self.delay_ms << min(max(0, most - FREE), 32)
        delay_ns = min(delay_ms, max(self.delay_ms, LOGIN_DELAY_MAX_MS)) * NS_PER_MS
        return Refusal(delay_ns, most <= FREE or most & (most - 1) == 0)

    def arrived(self, address: str) -> None:
        """A socket that has not logged in."""
        self.stranger_count += 1
        self.strangers[address] = self.strangers.get(address, 0) + 1

    def known(self, address: str) -> None:
        """One of them has logged in, or is gone."""
        self.stranger_count -= 1
        left = self.strangers[address] - 1
        if left > 0:
            self.strangers[address] = left
        else:
            del self.strangers[address]

    def has_room(self, address: str, now_ns: int) -> bool:
        """Whether one more socket of `address` may come in."""
        there = self.strangers.get(address, 0)
        if self.stranger_count >= STRANGERS.default or there >= STRANGERS_PER_ADDRESS.default:
            return False
        if there < SUSPECT_SOCKETS.default:
            return True
        count, last_ns = self._failures.get(("address", address), (0, 0))
        return count <= FREE or now_ns - last_ns >= FORGET_NS

    def _count(self, key: tuple[str, str], now_ns: int) -> int:
        count, last_ns = self._failures.pop(key, (0, now_ns))
        count = 1 if now_ns - last_ns >= FORGET_NS else count + 1
        if len(self._failures) >= LOGIN_FAILURES.default:
            del self._failures[next(iter(self._failures))]
        self._failures[key] = (count, now_ns)
        return count
