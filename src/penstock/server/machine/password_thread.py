"""Costly hashes of passwords, computed by one other thread, an address at a time.

A login with argon2id takes some 20 ms of a processor and 19 MiB: on the loop everybody would wait
for it. What waits is served in turn by address, so that who guesses from one holds up nobody else
(F98); one thread keeps it to one processor, and to one hash in memory.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from penstock.base.limits import PASSWORD_CHECKS
from penstock.broker.session.access import PasswordWork


class _Check(NamedTuple):
    work: Callable[[], bool]
    done: Callable[[bool | None], None]


class PasswordThread(PasswordWork):
    """after: called on the loop when a check has ended. Bound: PASSWORD_CHECKS. Owner: the node."""

    __slots__ = ("_after", "_is_busy", "_loop", "_thread", "_waiting", "count")

    def __init__(self, loop: asyncio.AbstractEventLoop, after: Callable[[], None]) -> None:
        self.count = 0
        self._loop = loop
        self._after = after
        self._is_busy = False
        self._thread = ThreadPoolExecutor(1, "passwords")
        # The address whose turn it is comes first.
        self._waiting: dict[str, deque[_Check]] = {}

    def submit(
        self, address: str, work: Callable[[], bool], done: Callable[[bool | None], None]
    ) -> None:
        check = _Check(work, done)
        if self.count >= PASSWORD_CHECKS.default:
            most = max(self._waiting, key=lambda one: len(self._waiting[one]))
            if len(self._waiting.get(address, ())) + 1 >= len(self._waiting[most]):
                done(None)
                return
            self._taken(most, self._waiting[most].pop()).done(None)
        self._waiting.setdefault(address, deque()).append(check)
        self.count += 1
        self._next()

    def close(self) -> None:
        """Nothing is checked any more."""
        self._waiting.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _next(self) -> None:
        if self._is_busy or not self._waiting:
            return
        address = next(iter(self._waiting))
        check = self._taken(address, self._waiting[address].popleft())
        if address in self._waiting:
            # Behind the others.
            self._waiting[address] = self._waiting.pop(address)
        self._is_busy = True
        future = self._thread.submit(check.work)
        future.add_done_callback(lambda done: self._ended(check, done))

    def _taken(self, address: str, check: _Check) -> _Check:
        self.count -= 1
        if not self._waiting[address]:
            del self._waiting[address]
        return check

    def _ended(self, check: _Check, future: "Future[bool]") -> None:
        """On the other thread."""
        if not future.cancelled() and not self._loop.is_closed():
            is_right = future.exception() is None and future.result()
            self._loop.call_soon_threadsafe(self._answer, check, is_right)

    def _answer(self, check: _Check, is_right: bool) -> None:
        self._is_busy = False
        check.done(is_right)
        self._next()
        self._after()
