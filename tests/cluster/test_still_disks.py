"""Disks of nodes that take no write: who leads then, and what becomes of publishers that are held.

The cluster has a quorum queue's soft limit, and gives a leader's disk a second and a half.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from penstock.base.errors import OperatorError
from penstock.demo.cluster_rig import ClusterRig, find_etcd
from tests.cluster.load import load
from tests.conformance.live import free_port

pytestmark = pytest.mark.slow

STILL: Final = Path(__file__).with_name("still")
SETTINGS: Final = """
cluster_disk_stall_ms = 1500
"""


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
