"""Disks of nodes that take no write: who leads then, and what becomes of publishers that are held.

The cluster has a quorum queue's soft limit, and gives a leader's disk three seconds.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import pytest

from penstock.base.errors import OperatorError
from penstock.broker.admin.answers_flow import Edges
from penstock.demo.cluster_rig import ClusterRig, find_etcd
from penstock.server.control.control_client import ask
from tests.cluster.load import await_true, load
from tests.conformance.live import free_port

pytestmark = pytest.mark.slow

STILL: Final = Path(__file__).with_name("still")
LIMIT: Final = 32
SETTINGS: Final = f"""
cluster_disk_stall_ms = 3000
quorum_commands_soft_limit = "{LIMIT}"
"""
HELD_NS: Final = 500_000_000
"""Longer than a sync that others make wait."""


@pytest.fixture(scope="module")
def rig() -> Iterator[ClusterRig]:
    """A cluster in which every node votes, and whose nodes' disks `stand_still`."""
    try:
        find_etcd("")
    except OperatorError as error:
        pytest.skip(str(error))
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    settings = folder / "settings.toml"
    settings.write_text(SETTINGS)
    made = ClusterRig(folder, options=("--config", str(settings)), port=free_port)
    paths = os.pathsep.join((str(STILL), os.environ.get("PYTHONPATH", "")))
    for name, node in made.nodes.items():
        still = f"PENSTOCK_STILL={still_file(made, name)}"
        node.prefix = ("env", f"PYTHONPATH={paths.rstrip(os.pathsep)}", still)
    try:
        made.start_etcd()
        for name in made.nodes:
            made.start(name)
        made.await_serving()
        made.await_whole()
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


def still_file(rig: ClusterRig, name: str) -> Path:
    return rig.folder / f"{name}.still"


@contextmanager
def stand_still(rig: ClusterRig, *names: str) -> Iterator[None]:
    """The disks of these nodes take no write and end no sync."""
    for name in names:
        still_file(rig, name).touch()
    try:
        yield
    finally:
        for name in names:
            still_file(rig, name).unlink()


def test_a_leader_whose_disk_takes_no_write_gives_up(rig: ClusterRig) -> None:
    """What its broker is at was not written, so replication knows of no entry that waits."""
    with load(rig, "still") as queue:
        leader = rig.await_serving()
        with stand_still(rig, leader):
            second = rig.await_serving(leader, 30)
            assert second != leader
            queue.await_confirms(50)
            said = rig.nodes[leader].log.read_text()
            assert "leads no more: its disk has ended nothing for" in said, said
        rig.await_whole()
        queue.await_confirms(20)


def is_held(rig: ClusterRig, leader: str, queue: str) -> bool:
    """Whether the soft limit has held whoever publishes to `queue` for a while."""
    request = {"op": "flow", "do": "edges", "vhost": "", "blocked": True, "sort": "blocked"}
    place = rig.sockets / f"penstock-{rig.nodes[leader].port}.sock"
    answer = msgspec.convert(ask(str(place), request, 10.0), Edges)
    return any(
        queue in row.receiver
        and row.reason == "pending"
        and row.in_flight_messages == LIMIT + 1
        and row.blocked_for_ns > HELD_NS
        for row in answer.edges
    )


@pytest.mark.parametrize("is_at_leader", [True, False])
def test_who_is_held_by_the_soft_limit_goes_on_at_the_next_leader(
    rig: ClusterRig, is_at_leader: bool
) -> None:
    """No majority writes, so more is under way to a quorum queue than may be; then the leader dies.

    What its publisher has had confirmed is there, and what was not is sent again."""
    leader = rig.await_serving()
    others = [name for name in rig.nodes if name != leader]
    queue = f"held-{is_at_leader}"
    place = leader if is_at_leader else others[0]
    with load(rig, queue, window=200, kind="quorum", at=place) as held:
        with stand_still(rig, *others):
            await_true(lambda: is_held(rig, leader, queue), "its publisher is held")
            rig.kill(leader)
        second = rig.await_serving(leader)
        assert second in others
        held.await_confirms(200)
        rig.start(leader)
        rig.await_whole()
        held.await_confirms(50)
