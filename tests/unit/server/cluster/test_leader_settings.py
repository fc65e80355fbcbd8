"""Settings that the broker of a leader changes, kept in a real etcd, and told to those after it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.base.errors import OperatorError
from penstock.base.limits import KEPT_SETTINGS
from penstock.broker.actors.log import Log
from penstock.demo.cluster_rig import ClusterRig
from penstock.server.cluster.broker_child import BrokerChild
from penstock.server.cluster.coordinator import (
    LIVE,
    CoordinatorEvents,
    CoordinatorThread,
    CoordinatorView,
)
from penstock.server.cluster.etcd import EtcdStore
from penstock.server.cluster.kept_settings import KEPT
from penstock.server.cluster.leader_settings import LeaderSettings
from penstock.server.cluster.pipe import Kept
from tests.conformance.live import free_port
from tests.unit.server.wire import until


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterRig]:
    try:
        rig = ClusterRig(tmp_path_factory.mktemp("etcd"), names=(), port=free_port)
    except OperatorError as error:
        pytest.skip(str(error))
    rig.start_etcd()
    yield rig
    rig.close()


class Told:
    """In place of a broker's process. kept: what it was told."""

    def __init__(self) -> None:
        self.told: list[Kept] = []

    def kept(self, kept: Kept) -> None:
        self.told.append(kept)

    def has(self) -> dict[str, str]:
        """All that it was told of."""
        return {key: text for one in self.told for key, text in one.settings.items()}


class Node(CoordinatorEvents):
    """What a member does of settings. looks: how often etcd was seen."""

    def __init__(self, store: EtcdStore, name: str) -> None:
        self.name = name
        self.settings = LeaderSettings(Log())
        self.thread = CoordinatorThread(store, name, "boot", self)
        self.settings.thread = self.thread
        self.looks = 0

    def seen(self, view: CoordinatorView) -> None:
        self.looks += 1
        self.settings.seen(view.settings, is_alone=not view.live.keys() - {self.name})
        self.thread.live()

    def kept(self, changes: dict[str, str], after: dict[str, str] | None, words: str) -> None:
        self.settings.saved(changes, after, words)

    def changed(self) -> None:
        """Others are not told: they look by themselves."""

    def reached(self, is_reachable: bool, words: str) -> None:
        """Not looked at here."""

    def refused(self, error: Any) -> None:
        """Not looked at here."""

    def broker(self) -> tuple[dict[str, str], Told]:
        """One that begins: with what, and what it is told later."""
        made = Told()
        return self.settings.begin(cast(BrokerChild, made)), made


class Cluster:
    """Of nodes that no other test has."""

    def __init__(self, rig: ClusterRig, prefix: str) -> None:
        self.rig = rig
        self.prefix = prefix
        self.store = EtcdStore([rig.endpoint], prefix)

    @asynccontextmanager
    async def node(self, name: str) -> AsyncIterator[Node]:
        """It has looked once."""
        made = Node(EtcdStore([self.rig.endpoint], self.prefix), name)
        made.thread.start()
        try:
            await until(lambda: made.looks > 1)
            yield made
        finally:
            made.thread.die()
            await asyncio.get_running_loop().run_in_executor(None, made.thread.close, 5.0)

    def kept(self) -> bytes:
        return self.store.read(KEPT)[KEPT].value


@pytest.fixture
def cluster(etcd: ClusterRig, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(etcd, f"/penstock/{tmp_path.name}/")
    yield made
    made.store.close()


def said(told: Told, count: int) -> Callable[[], bool]:
    """So many changes are kept, as the broker knows."""
    return lambda: any(one.count == count for one in told.told)


async def test_the_next_broker_begins_with_what_was_changed(cluster: Cluster) -> None:
    async with cluster.node("a") as a, cluster.node("b") as b:
        begins, told = a.broker()
        assert begins == {}
        a.settings.changed({"rate.burst": "20ms"})
        a.settings.changed({"memory.high": "60%"})
        await until(said(told, 2))
        assert told.has() == {}, "its own are no news"
        wanted = {"rate.burst": "20ms", "memory.high": "60%"}
        await until(lambda: b.settings.kept.all() == wanted)
        assert b.broker()[0] == wanted


async def test_a_broker_that_began_too_early_hears_of_it(cluster: Cluster) -> None:
    async with cluster.node("a") as a, cluster.node("b") as b:
        begins, told = b.broker()
        assert begins == {}
        a.broker()
        a.settings.changed({"rate.burst": "20ms"})
        await until(lambda: told.has() == {"rate.burst": "20ms"})
        b.settings.over()
        a.settings.changed({"rate.burst": "30ms"})
        await until(lambda: b.settings.kept.all() == {"rate.burst": "30ms"})
        assert told.has() == {"rate.burst": "20ms"}, "that one is gone"


async def test_settings_of_nodes_that_are_all_gone_are_dropped(cluster: Cluster) -> None:
    async with cluster.node("a") as a:
        _, told = a.broker()
        a.settings.changed({"rate.burst": "20ms"})
        await until(said(told, 1))
    async with cluster.node("a") as again:
        assert again.broker()[0] == {}
        await until(lambda: cluster.kept() == b"{}")
        cluster.store.put(LIVE + "c", b"")
        _, told = again.broker()
        again.settings.changed({"rate.burst": "30ms"})
        await until(said(told, 1))
    async with cluster.node("a") as third:
        assert third.broker()[0] == {"rate.burst": "30ms"}, "node c has been there all the time"


async def test_a_node_whose_lease_has_ended_is_there_nevertheless(cluster: Cluster) -> None:
    """etcd was out of reach for so long, and another node starts before the lease is renewed."""
    async with cluster.node("a") as a:
        _, told = a.broker()
        a.settings.changed({"rate.burst": "20ms", "memory.high": "60%"})
        await until(said(told, 1))
        cluster.store.delete(LIVE + "a")
        async with cluster.node("b") as b:
            _, other = b.broker()
            b.settings.changed({"memory.high": "70%"})
            await until(lambda: other.has() == {"rate.burst": "20ms"})
            wanted = {"rate.burst": "20ms", "memory.high": "70%"}
            await until(lambda: a.settings.kept.all() == b.settings.kept.all() == wanted)
            assert told.told[-1].settings == {"memory.high": "70%"}


async def test_what_etcd_did_not_take_is_said_and_kept_later(cluster: Cluster) -> None:
    async with cluster.node("a") as a:
        _, told = a.broker()
        cluster.store.put(KEPT, b"spoilt")
        a.settings.changed({"rate.burst": "20ms"})
        await until(lambda: any("cannot be read" in one.words for one in told.told))
        assert cluster.kept() == b"spoilt" and not said(told, 1)()
        cluster.store.put(KEPT, b'{"memory.high":"60%"}')
        await until(said(told, 1))
        assert told.told[-1].words == "" and told.has() == {"memory.high": "60%"}
        assert cluster.kept() == b'{"memory.high":"60%","rate.burst":"20ms"}'


async def test_so_many_are_kept(cluster: Cluster) -> None:
    """The broker has said so to the operator, and tells of no more; a member has the bound too."""
    async with cluster.node("a") as a:
        _, told = a.broker()
        many = {f"rate.user.messages:{number}": "1/s" for number in range(KEPT_SETTINGS.default)}
        a.settings.changed(many)
        await until(said(told, 1))
        a.settings.changed({"rate.burst": "20ms"})
        a.settings.changed({"rate.user.messages:7": "2/s"})
        await until(said(told, 3))
        assert "rate.burst" not in a.settings.kept.all()
        assert a.settings.kept.all()["rate.user.messages:7"] == "2/s"
