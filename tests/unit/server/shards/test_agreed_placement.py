"""Which worker has which virtual host, agreed on by several nodes in a real etcd."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.base.limits import KEPT_SETTINGS, KEPT_SETTINGS_BYTES
from penstock.broker.actors.log import Log
from penstock.demo.cluster_rig import ClusterRig
from penstock.server.cluster.etcd import EtcdStore
from penstock.server.shards.placement import POLL_S, AgreedPlacement
from penstock.server.workers.placement import NO_WORKER
from tests.conformance.live import free_port
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterRig]:
    try:
        rig = ClusterRig(tmp_path_factory.mktemp("etcd"), names=(), port=free_port)
    except OperatorError as error:
        pytest.skip(str(error))
    rig.start_etcd()
    yield rig
    rig.close()


class Lines(Log):
    """said: warnings."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def warning(self, text: str) -> None:
        self.said.append(text)


class Nodes:
    """Of one cluster, which no other test has."""

    def __init__(self, rig: ClusterRig, folder: Path) -> None:
        self.rig = rig
        self.folder = folder
        self.prefix = f"/penstock/{folder.name}/"
        self.stores: list[EtcdStore] = []
        self.made: list[AgreedPlacement] = []

    def store(self) -> EtcdStore:
        self.stores.append(EtcdStore([self.rig.endpoint], self.prefix))
        return self.stores[-1]

    def node(self, name: str, cores: int = 2) -> AgreedPlacement:
        data = self.folder / name
        self.made.append(AgreedPlacement(cores, str(data), self.store(), name, Log()))
        return self.made[-1]

    def close(self) -> None:
        for one in self.made:
            one.close()
        for store in self.stores:
            store.close()


@pytest.fixture
def nodes(etcd: ClusterRig, tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(etcd, tmp_path)
    yield made
    made.close()


async def await_place(node: AgreedPlacement, vhost: str, worker: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while node.worker_of(vhost) != worker:
            await asyncio.sleep(0.02)


async def test_nodes_agree_on_a_new_virtual_host(nodes: Nodes) -> None:
    a, b = nodes.node("a"), nodes.node("b")
    await a.agree(["/"])
    await b.agree(["/"])
    assert a.vhosts() == b.vhosts() == {"/": 0}
    told: list[dict[str, int]] = []
    b.changed = lambda: told.append(b.vhosts())
    assert await a.add("one") == 1
    await await_place(b, "one", 1)
    assert told == [{"/": 0, "one": 1}]
    assert await b.add("one") == 1, "whoever comes second is told"
    both = await asyncio.gather(a.add("two"), b.add("three"))
    assert sorted(both) == [0, 1], "they have not chosen the same"
    await a.drop("one")
    await await_place(b, "one", -1)
    # For a directory that leaves the cluster.
    kept = json.loads((nodes.folder / "b" / "workers.json").read_bytes())
    assert kept["vhosts"] == b.vhosts()


async def test_leaders_of_a_cluster_that_begins_with_nothing_are_spread_once(nodes: Nodes) -> None:
    a = nodes.node("a")
    await a.agree(["/"])
    assert not a.agreed.is_spread
    b = nodes.node("b")
    await b.agree(["/", "one"])
    assert not b.agreed.is_spread
    await b.keep_leaders()
    assert b.agreed.is_spread
    await a.add("two")
    assert a.agreed.is_spread, "it has heard of it"


async def test_leaders_of_what_there_was_before_stay(nodes: Nodes) -> None:
    """Also of a cluster whose key was written before there was anything to spread."""
    data = nodes.folder / "a"
    data.mkdir()
    (data / "workers.json").write_text('{"vhosts": {"/": 1, "x": 0}}')
    a = nodes.node("a")
    await a.agree(["/"])
    assert a.agreed.is_spread
    nodes.store().put("workers", b'{"cores": 2, "vhosts": {"/": 0}}')
    b = nodes.node("b")
    await b.agree(["/"])
    assert b.agreed.is_spread


async def await_settings(node: AgreedPlacement, wanted: dict[str, str]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while node.settings() != wanted:
            await asyncio.sleep(0.02)


async def test_settings_are_kept_as_long_as_a_node_is_there(nodes: Nodes) -> None:
    a, b = nodes.node("a"), nodes.node("b")
    await a.agree(["/"])
    await b.agree(["/"])
    await a.keep_settings({"rate.burst": "20ms", "memory.high": "60%"})
    await await_settings(b, {"rate.burst": "20ms", "memory.high": "60%"})
    await b.keep_settings({"memory.high": "70%"})
    await a.add("one")
    wanted = {"rate.burst": "20ms", "memory.high": "70%"}
    await await_settings(a, wanted)
    # Node b starts again, while a member of another one lives.
    nodes.store().put("shards/1/live/a", b"")
    again = nodes.node("b-2")
    await again.agree(["/"])
    assert again.settings() == wanted
    nodes.store().delete("shards/1/live/a")
    for one in (a, b, again):
        one.close()
    alone = nodes.node("b-3")
    nodes.store().put("live/b-3", b"")
    await alone.agree(["/"])
    assert alone.settings() == {} and alone.vhosts() == {"/": 0, "one": 1}


async def test_a_node_whose_lease_has_ended_is_there_nevertheless(nodes: Nodes) -> None:
    """etcd was out of reach for so long, and another node starts before the lease is renewed."""
    a = nodes.node("a")
    await a.agree(["/"])
    await a.keep_settings({"rate.burst": "20ms"})
    b = nodes.node("b")
    await b.agree(["/"])
    assert b.settings() == {}
    await await_settings(b, {"rate.burst": "20ms"})
    assert a.settings() == b.settings()


async def test_settings_are_told_when_etcd_is_back(nodes: Nodes) -> None:
    a, b = nodes.node("a"), nodes.node("b")
    await a.agree(["/"])
    await b.agree(["/"])
    good, a.store = a.store, EtcdStore([f"http://127.0.0.1:{free_port()}"], nodes.prefix)
    nodes.stores.append(a.store)
    await a.keep_settings({"rate.burst": "20ms"})
    assert a.settings() == {"rate.burst": "20ms"}, "brokers of this node have it"
    assert b.settings() == {}
    a.store = good
    await await_settings(b, {"rate.burst": "20ms"})
    assert a.kept.unsaved == {}


async def test_a_question_that_changes_no_setting_does_not_ask_etcd(nodes: Nodes) -> None:
    a = nodes.node("a")
    await a.agree(["/"])
    nodes.stores.append(a.store)
    a.store = EtcdStore([f"http://127.0.0.1:{free_port()}"], nodes.prefix)
    a.log = lines = Lines()
    await a.keep_settings({})
    assert lines.said == []


async def test_so_many_settings_are_kept(nodes: Nodes) -> None:
    a = nodes.node("a")
    await a.agree(["/"])
    many = {f"rate.user.messages:{number}": "1/s" for number in range(KEPT_SETTINGS.default)}
    await a.keep_settings(many)
    await a.keep_settings({"rate.user.messages:7": "2/s"})
    with pytest.raises(OperatorError, match="write it there"):
        await a.keep_settings({"rate.burst": "20ms"})
    assert await a.add("one") == 1


async def test_etcd_takes_as_much_as_may_be_kept(nodes: Nodes) -> None:
    a, b = nodes.node("a"), nodes.node("b")
    await a.agree(["/"])
    await b.agree(["/"])
    many = {f"rate.user.messages:{number}-{'x' * 900}": "1/s" for number in range(1100)}
    assert KEPT_SETTINGS_BYTES.default - 100_000 < len(json.dumps(many))
    await a.keep_settings(many)
    await await_settings(b, many)
    with pytest.raises(OperatorError, match="kept in 1048576 bytes"):
        await a.keep_settings({f"rate.user.messages:{'y' * 90_000}": "1/s"})


async def test_another_number_of_workers_is_refused(nodes: Nodes) -> None:
    await nodes.node("a").agree(["/"])
    with pytest.raises(OperatorError, match=r"have 2 workers each.*start it with --cores 2"):
        await nodes.node("b", cores=3).agree(["/"])


async def test_what_there_was_before_is_at_the_first(nodes: Nodes) -> None:
    data = nodes.folder / "a"
    data.mkdir()
    with sqlite3.connect(data / "metadata.sqlite") as made:
        made.execute("CREATE TABLE vhosts (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)")
        made.execute("INSERT INTO vhosts (name) VALUES ('old')")
    made.close()
    node = nodes.node("a")
    await node.agree(["/", "new"])
    assert node.vhosts() == {"/": 0, "old": 0, "new": 1}


async def test_a_node_without_data_does_not_decide_for_a_cluster_of_single_ones(
    nodes: Nodes,
) -> None:
    nodes.store().put("config", b"{}")
    with pytest.raises(OperatorError, match=r"made without --cores.*start one that has"):
        await nodes.node("empty").agree(["/"])


async def test_several_workers_that_were_no_cluster_keep_their_places(nodes: Nodes) -> None:
    data = nodes.folder / "a"
    data.mkdir()
    (data / "workers.json").write_text('{"vhosts": {"/": 1, "x": 0}}')
    node = nodes.node("a")
    await node.agree(["/", "new"])
    assert node.vhosts() == {"/": 1, "x": 0, "new": 0}


async def test_what_is_found_at_a_worker_has_its_place_there(nodes: Nodes) -> None:
    node = nodes.node("a")
    await node.agree(["/"])
    await node.learn(0, ["/", "late"])
    assert node.worker_of("late") == 0
    with pytest.raises(OperatorError, match="at worker 0 and at worker 1"):
        await node.learn(1, ["late"])


async def test_without_etcd_nothing_is_changed(nodes: Nodes) -> None:
    node = nodes.node("a")
    await node.agree(["/"])
    node.store = EtcdStore([f"http://127.0.0.1:{free_port()}"], nodes.prefix)
    nodes.stores.append(node.store)
    with pytest.raises(OperatorError, match="cannot agree on it while etcd does not answer"):
        await node.add("one")
    assert node.vhosts() == {"/": 0}


async def test_what_could_not_be_written_here_is_taken_later(nodes: Nodes) -> None:
    """A disk that is full for a moment: the node knows of the virtual host once it is not."""
    a, b = nodes.node("a"), nodes.node("b")
    await a.agree(["/"])
    await b.agree(["/"])
    # Written whole under another name first, where a directory stands in the way.
    place = nodes.folder / "b" / "workers.json"
    place.unlink()
    place.mkdir()
    await a.add("one")
    await asyncio.sleep(3 * POLL_S)
    assert b.worker_of("one") == NO_WORKER
    place.rmdir()
    await await_place(b, "one", 1)


async def test_an_etcd_that_lost_its_data_is_not_agreed_with(nodes: Nodes) -> None:
    """Nobody's virtual hosts are nowhere, because one is added."""
    node = nodes.node("a")
    await node.agree(["/", "one"])
    nodes.store().delete("workers")
    with pytest.raises(OperatorError, match=r"etcd knows nothing of .*nothing is changed"):
        await node.add("two")
    with pytest.raises(OperatorError, match="nothing is changed"):
        await node.drop("one")
    assert node.vhosts() == {"/": 0, "one": 1}
    assert nodes.store().read("workers") == {}
