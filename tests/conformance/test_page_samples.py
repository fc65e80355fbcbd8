"""Fifty open pages cost the broker what one costs: they share one sample, and history is kept only
of what somebody looks at."""

import asyncio
import time
from collections.abc import Iterator

import pytest

from penstock.base.limits import MANAGEMENT_HISTORIES
from penstock.management.access import Logins
from penstock.management.broker_link import BrokerGone, BrokerLink, Row
from penstock.management.errors import HttpFault
from penstock.management.pages.samples import (
    CREDIT_MAX_S,
    NODE,
    PACE_S,
    SHARE,
    SLOWEST,
    STALE_S,
    History,
    Pace,
    Samples,
)
from penstock.server.control.control_client import control_path
from tests.conformance.live import Broker, penstock_process
from tests.patience import PATIENCE_S

SETTINGS = {"op": "flow", "do": "settings"}
TOP = {"op": "flow", "do": "top", "limit": 10}


class Counting(BrokerLink):
    """Counts what it asks the broker."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.asked: list[str] = []

    async def ask(self, request: Row, turns: asyncio.Semaphore | None = None) -> Row:
        self.asked.append(str(request["do"]))
        return await super().ask(request, turns)


class Clock:
    """Seconds, as the test says."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Slow(Counting):
    """A broker whose answers take TOOK_S of the test's clock."""

    TOOK_S = 0.25

    def __init__(self, path: str, clock: Clock) -> None:
        super().__init__(path)
        self.clock = clock

    async def ask(self, request: Row, turns: asyncio.Semaphore | None = None) -> Row:
        answer = await super().ask(request, turns)
        self.clock.now += self.TOOK_S
        return answer


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with penstock_process(tmp_path_factory.mktemp("samples"), "--no-management") as found:
        yield found


def test_many_pages_share_one_answer(broker: Broker) -> None:
    async def run() -> None:
        link = Counting(control_path(broker.port))
        samples = Samples(link)
        answers = await asyncio.gather(*(samples.ask(TOP) for _ in range(50)))
        assert link.asked == ["top"]
        assert all(one is answers[0] for one in answers)
        began = time.monotonic()
        while time.monotonic() < began + 0.5:
            await samples.ask(TOP)
            await asyncio.sleep(0.01)
        assert len(link.asked) <= 2
        samples.forget()
        await samples.ask(TOP)
        assert len(link.asked) <= 3

    asyncio.run(run())


class Late(Counting):
    """Its first answer of `what` comes when it may."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(path)
        self.what = what
        self.may = asyncio.Event()
        self.is_made = asyncio.Event()

    async def ask(self, request: Row, turns: asyncio.Semaphore | None = None) -> Row:
        answer = await super().ask(request, turns)
        if request["do"] == self.what and not self.is_made.is_set():
            self.is_made.set()
            await self.may.wait()
        return answer


def test_what_was_asked_before_a_change_is_not_shown_after_it(broker: Broker) -> None:
    async def run() -> None:
        link = Late(control_path(broker.port), "vhosts")
        before = asyncio.create_task(link.listing("vhosts"))
        await link.is_made.wait()
        await link.ask({"op": "vhosts", "do": "add", "name": "changed"})
        link.forget()
        async with asyncio.timeout(PATIENCE_S):
            assert {"name": "changed"} in await link.listing("vhosts")
        link.may.set()
        assert {"name": "changed"} not in await before
        assert {"name": "changed"} in await link.listing("vhosts")

    async def run_pages() -> None:
        samples = Samples(link := Late(control_path(broker.port), "settings"))
        before = asyncio.create_task(samples.ask(SETTINGS))
        await link.is_made.wait()
        samples.forget()
        async with asyncio.timeout(PATIENCE_S):
            after = await samples.ask(SETTINGS)
        link.may.set()
        assert await before is not after
        assert await samples.ask(SETTINGS) is after

    asyncio.run(run())
    asyncio.run(run_pages())


def test_many_requests_at_a_time_are_one_login(broker: Broker) -> None:
    async def run() -> None:
        link = Counting(control_path(broker.port))
        logins = Logins(link)
        visitors = await asyncio.gather(
            *(logins.login("guest", "guest", "127.0.0.1") for _ in range(40))
        )
        assert {one.name for one in visitors} == {"guest"} and link.asked == ["login"]
        logins.forget()
        refused = await asyncio.gather(
            *(logins.login("guest", "wrong", "127.0.0.1") for _ in range(5)),
            return_exceptions=True,
        )
        assert all(isinstance(one, HttpFault) and one.status == 401 for one in refused)
        await logins.login("guest", "guest", "127.0.0.1")
        assert link.asked == ["login"] * 3

    asyncio.run(run())


def test_on_a_slow_broker_answers_are_older(broker: Broker) -> None:
    async def run() -> None:
        clock = Clock()
        link = Slow(control_path(broker.port), clock)
        samples = Samples(link, clock)
        began = clock.now
        while clock.now < began + 60.0:
            await samples.ask(TOP)
            await samples.ask({"op": "flow", "do": "alarms"})
            clock.now += 0.1
        asked_s = len(link.asked) * Slow.TOOK_S
        assert asked_s <= 60.0 * SHARE + CREDIT_MAX_S + 2 * Slow.TOOK_S
        # It goes on all the same: nothing is older than STALE_S.
        assert link.asked.count("top") >= 60.0 / STALE_S

    asyncio.run(run())


def test_pages_are_slowed_down_when_they_take_too_much() -> None:
    pace = Pace()
    assert pace.told() == "1.0"
    pace._at -= PACE_S
    pace._used -= PACE_S
    slowed = float(pace.told())
    assert 1.0 < slowed <= SLOWEST
    for _ in range(12):
        pace._at -= PACE_S
        pace.told()
    assert float(pace.told()) < slowed


def test_a_broker_that_is_gone_is_told_to_all(broker: Broker) -> None:
    async def run() -> None:
        samples = Samples(BrokerLink(control_path(broker.port) + ".none"))
        found = await asyncio.gather(*(samples.ask(TOP) for _ in range(5)), return_exceptions=True)
        assert all(isinstance(one, BrokerGone) for one in found)

    asyncio.run(run())


def test_history_begins_with_the_first_page_and_is_bounded(broker: Broker) -> None:
    async def run() -> None:
        link = Counting(control_path(broker.port))
        history = History(Samples(link))
        points = await history.of(NODE)
        assert len(points) == 1 and points[0][1]["in"] == 0.0
        asked = len(link.asked)
        for _ in range(50):
            await history.of(NODE)
        assert len(link.asked) == asked, "a page more is no question more"
        assert await history.of(("queue", "/", "none")) == []
        for index in range(MANAGEMENT_HISTORIES.default + 5):
            await history.of(("queue", "/", f"none-{index}"))
        assert len(history._series) == MANAGEMENT_HISTORIES.default
        assert NODE not in history._series

    asyncio.run(run())
