"""The thread that talks to etcd: what it says of whether etcd answers."""

from typing import Any

from penstock.server.cluster.coordinator import (
    CoordinatorEvents,
    CoordinatorThread,
    CoordinatorView,
)
from penstock.server.cluster.etcd import EtcdFault
from tests.unit.server.wire import until


class AwayStore:
    """An etcd that answers nothing until it is there. asked: how often it was read."""

    def __init__(self) -> None:
        self.is_there = False
        self.asked = 0

    def read(self) -> dict[str, Any]:
        self.asked += 1
        if not self.is_there:
            raise EtcdFault("no etcd")
        return {}

    def revoke(self) -> None:
        """There is no lease yet, so etcd is not asked."""

    def close(self) -> None:
        """Nothing is open."""


class Heard(CoordinatorEvents):
    """reached: what was said of etcd, in order."""

    def __init__(self) -> None:
        self.reach: list[bool] = []

    def seen(self, view: CoordinatorView) -> None:
        """Not looked at here."""

    def swapped(self, number: int, is_done: bool | None) -> None:
        """Not looked at here."""

    def changed(self) -> None:
        """Not looked at here."""

    def reached(self, is_reachable: bool, words: str) -> None:
        self.reach.append(is_reachable)

    def refused(self, error: Any) -> None:
        raise AssertionError(error)


async def test_an_etcd_answers_when_it_has_answered() -> None:
    store, heard = AwayStore(), Heard()
    thread = CoordinatorThread(store, "a", "boot", heard)  # type: ignore[arg-type]  # a store as this
    thread.start()
    try:
        # What wakes the thread, and a change that has nothing to ask, are no answers.
        thread.live()
        thread.is_live_wanted = False
        await until(lambda: store.asked > 0)
        thread.die()
        asked = store.asked
        await until(lambda: store.asked > asked + 1)
        assert heard.reach == [False]
        store.is_there = True
        await until(lambda: len(heard.reach) > 1)
        assert heard.reach == [False, True]
    finally:
        thread.close(5.0)
