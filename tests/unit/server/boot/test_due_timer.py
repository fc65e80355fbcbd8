"""The timer of the event loop for what is due in the broker; on a real loop."""

import asyncio

from penstock.flow.due import DueLine, Timer
from penstock.server.boot.node import DueTimer
from penstock.server.machine.clock import SystemClock
from tests.patience import PATIENCE_S
from tests.unit.broker.peer import MS, LogBook


class Bell:
    """early_ns: by how much it rang before `at_ns`."""

    def __init__(self, name: str, at_ns: int, rings: list[str], is_broken: bool = False) -> None:
        self.name = name
        self.at_ns = at_ns
        self.rings = rings
        self.early_ns = 0
        self.is_broken = is_broken
        self.timer = Timer(self.ring)

    def ring(self, now_ns: int) -> None:
        self.rings.append(self.name)
        self.early_ns = max(0, self.at_ns - SystemClock().monotonic_ns())
        if self.is_broken:
            raise ValueError("a bug")


async def test_what_is_due_falls_due_and_one_that_fails_does_not_stop_the_others() -> None:
    clock, line, log = SystemClock(), DueLine(), LogBook()
    after = asyncio.Event()
    DueTimer(asyncio.get_running_loop(), clock, line, log, after.set)
    now_ns = clock.monotonic_ns()
    rings: list[str] = []
    bells = [
        Bell("good", now_ns + 20 * MS, rings),
        Bell("broken", now_ns + 10 * MS, rings, is_broken=True),
        Bell("early", now_ns + 5 * MS, rings),
    ]
    for bell in bells:
        line.put(bell.timer, bell.at_ns)
    async with asyncio.timeout(PATIENCE_S):
        while len(rings) < len(bells):
            after.clear()
            await after.wait()
    assert rings == ["early", "broken", "good"]
    assert [bell.early_ns for bell in bells] == [0, 0, 0], "each at its time"
    assert [text for text, _ in log.errors] == ["what was due has failed"]


async def test_a_stopped_timer_fires_no_more() -> None:
    clock, line = SystemClock(), DueLine()
    timer = DueTimer(asyncio.get_running_loop(), clock, line, LogBook(), lambda: None)
    rings: list[str] = []
    at_ns = clock.monotonic_ns() + MS
    line.put(Bell("stopped", at_ns, rings).timer, at_ns)
    timer.stop()
    await asyncio.sleep(0.01)
    assert rings == []
