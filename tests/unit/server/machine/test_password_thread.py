"""Passwords are checked beside the loop, in turn by address, and no more wait than may (F98)."""

import asyncio
import threading
from functools import partial

from penstock.base.limits import PASSWORD_CHECKS
from penstock.server.machine.password_thread import PasswordThread


def _tell(told: list[object], what: str, _is_right: bool | None) -> None:
    told.append(what)


async def _at_rest(work: PasswordThread, told: list[object], count: int) -> None:
    while len(told) < count:
        await asyncio.sleep(0.001)
    work.close()


def test_addresses_are_served_in_turn() -> None:
    async def run() -> None:
        told: list[object] = []
        began = threading.Event()
        work = PasswordThread(asyncio.get_running_loop(), lambda: None)
        work.submit("first", began.wait, lambda _: told.append("first"))
        for number in range(3):
            work.submit("guesser", bool, partial(_tell, told, f"guess {number}"))
        work.submit("honest", lambda: True, told.append)
        began.set()
        await _at_rest(work, told, 5)
        assert told == ["first", "guess 0", True, "guess 1", "guess 2"]
        assert work.count == 0

    asyncio.run(run())


def test_the_address_with_most_is_refused_at_the_bound() -> None:
    async def run() -> None:
        told: list[object] = []
        began = threading.Event()
        work = PasswordThread(asyncio.get_running_loop(), lambda: None)
        work.submit("first", began.wait, told.append)
        for _ in range(PASSWORD_CHECKS.default):
            work.submit("guesser", bool, told.append)
        work.submit("guesser", bool, told.append)
        assert told == [None], "its own new one"
        work.submit("honest", lambda: True, told.append)
        assert told == [None, None], "its last one, and not the honest one"
        assert work.count == PASSWORD_CHECKS.default
        began.set()
        await _at_rest(work, told, 2 + 1 + PASSWORD_CHECKS.default)
        assert told[2:5] == [True, False, True]

    asyncio.run(run())


def test_what_fails_is_no_right_password() -> None:
    async def run() -> None:
        told: list[object] = []
        work = PasswordThread(asyncio.get_running_loop(), lambda: None)
        work.submit("a", lambda: bool(1 // 0), told.append)
        await _at_rest(work, told, 1)
        assert told == [False]

    asyncio.run(run())
