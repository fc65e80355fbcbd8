"""Mirrored queues with real nodes: what is confirmed is on every mirror, and one that stands still
holds its queues' publishers, nobody else, and not for ever (scenario 46)."""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.demo.cluster_rig import ClusterRig, find_etcd
from tests.cluster.load import await_true, command, load
from tests.cluster.test_flow import await_confirms, publisher, slow_disk, why
from tests.conformance.live import free_port

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rig() -> Iterator[ClusterRig]:
    """A cluster in which every node votes. A mirror that is slow and answers is not left out."""
    try:
        find_etcd("")
    except OperatorError as error:
        pytest.skip(str(error))
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    settings = folder / "patient.toml"
    settings.write_text("cluster_in_sync_ms = 120000\n")
    made = ClusterRig(folder, options=("--config", str(settings)), port=free_port)
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


def in_sync(rig: ClusterRig, name: str) -> set[str]:
    """As etcd has it, asked of node `name`."""
    answer = rig.status(name)
    return set() if answer is None else {one.name for one in answer.nodes if one.is_in_sync}


def mirror(rig: ClusterRig, leader: str) -> None:
    """All queues whose names begin so are mirrored to all nodes, which are in sync."""
    said = command(rig, leader, "policies", "set", "ha", "^mirrored", '{"ha-mode": "all"}')
    assert "no effect" not in said
    command(rig, leader, "queues", "declare", "mirrored-0")
    await_true(lambda: in_sync(rig, leader) == set(rig.nodes), "all are in sync")


def forget(rig: ClusterRig) -> None:
    leader = rig.await_serving()
    command(rig, leader, "policies", "clear", "ha")
    await_true(lambda: in_sync(rig, leader) == set(), "nobody has to be in sync")


def test_a_mirror_that_stands_still_is_waited_for_and_then_left_out(rig: ClusterRig) -> None:
    leader = rig.await_serving()
    stopped = next(name for name in rig.nodes if name != leader)
    mirror(rig, leader)
    with (
        publisher(rig, leader, "mirrored-1", 20) as mirrored,
        publisher(rig, leader, "plain", 1) as plain,
    ):
        await_confirms(mirrored, 100)
        rig.pause(stopped)
        time.sleep(0.5)
        held, others = len(mirrored.confirmed_at), len(plain.confirmed_at)
        time.sleep(1.5)
        # Nothing of the mirrored queue is confirmed without it; the other one goes on.
        assert len(mirrored.confirmed_at) == held
        assert len(plain.confirmed_at) > others + 3
        await_true(lambda: stopped not in in_sync(rig, leader), f"{stopped} is left out")
        await_confirms(mirrored, held + 100)
        said = command(rig, leader, "cluster", "status")
        assert f"without {stopped}" in said, said
        rig.resume(stopped)
        rig.await_whole()
        await_true(lambda: stopped in in_sync(rig, leader), f"{stopped} is back in sync")
        await_confirms(mirrored, len(mirrored.confirmed_at) + 50)
    forget(rig)


def test_a_mirror_with_a_slow_disk_is_named(rig: ClusterRig) -> None:
    """Its queues have its pace, as long as it is not so late that it is left out."""
    leader = rig.await_serving()
    slow = next(name for name in rig.nodes if name != leader)
    mirror(rig, leader)
    with (
        slow_disk(rig, slow, 100_000),
        publisher(rig, leader, "mirrored-2", 20_000),
        publisher(rig, leader, "plain-2", 1) as plain,
    ):
        cause = json.loads(why(rig, leader, f"node {slow} is behind by its disk"))
        assert cause["causes"][0]["reason"] == "mirror", cause
        await_confirms(plain, len(plain.confirmed_at) + 5)
    forget(rig)


def test_what_a_mirror_lacks_is_not_confirmed_to_who_publishes_at_a_failover(
    rig: ClusterRig,
) -> None:
    """The leader dies; the next one asks the mirrors of before, and nothing is lost."""
    leader = rig.await_serving()
    mirror(rig, leader)
    with load(rig, "mirrored-3") as queue:
        rig.kill(leader)
        other = rig.await_serving(other_than=leader)
        queue.await_confirms(50)
        rig.start(leader)
        rig.await_whole()
        await_true(lambda: in_sync(rig, other) == set(rig.nodes), "all are in sync again")
        queue.await_confirms(50)
    forget(rig)
