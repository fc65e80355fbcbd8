"""The timer of the event loop for what is due in the broker; on a real loop."""

import asyncio

from penstock.flow.due import Due, DueLine
from penstock.server.clock import SystemClock
from penstock.server.due_timer import DueTimer
from tests.unit.broker.peer import MS, LogBook


class Bell(Due):
    def __init__(self, rung: asyncio.Event, is_broken: bool = False) -> None:
        super().__init__()
        self.rung = rung
        self.is_broken = is_broken

    def fall_due(self, now_ns: int) -> None:
        self.rung.set()
        if self.is_broken:
            raise ValueError("a bug")


def test_what_is_due_falls_due_and_one_that_fails_does_not_stop_the_others() -> None:
    async def run() -> None:
        clock, line, log = SystemClock(), DueLine(), LogBook()
        after = asyncio.Event()
        DueTimer(asyncio.get_running_loop(), clock, line, log, after.set)
        now_ns = clock.monotonic_ns()
        broken, good, early = asyncio.Event(), asyncio.Event(), asyncio.Event()
        line.put(Bell(good), now_ns + 20 * MS)
        line.put(Bell(broken, is_broken=True), now_ns + 10 * MS)
        line.put(Bell(early), now_ns + 5 * MS)
        async with asyncio.timeout(5):
            await early.wait()
            assert not good.is_set(), "each at its time"
            await broken.wait()
            await good.wait()
            await after.wait()
        assert clock.monotonic_ns() >= now_ns + 20 * MS
        assert [text for text, _ in log.errors] == ["what was due has failed"]

    asyncio.run(run())


def test_a_stopped_timer_fires_no_more() -> None:
    async def run() -> None:
        clock, line = SystemClock(), DueLine()
        timer = DueTimer(asyncio.get_running_loop(), clock, line, LogBook(), lambda: None)
        rung = asyncio.Event()
        line.put(Bell(rung), clock.monotonic_ns() + MS)
        timer.stop()
        await asyncio.sleep(0.01)
        assert not rung.is_set()

    asyncio.run(run())
