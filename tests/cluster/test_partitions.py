"""Packets between nodes are dropped: the side with the majority goes on, and nothing is lost."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.demo.cluster_rig import ClusterRig
from tests.cluster.load import load
from tests.cluster.namespaces import Namespaces, may_make_networks
from tests.conformance.live import free_port

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def spaces() -> Iterator[Namespaces]:
    if not may_make_networks() or shutil.which("etcd") is None:
        pytest.skip("needs root, `ip netns`, and an etcd")
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    rig = ClusterRig(folder, port=free_port)
    made = Namespaces(rig, os.getpid() % 256)
    try:
        rig.start_etcd()
        for name in rig.nodes:
            rig.start(name)
        rig.await_serving()
        rig.await_whole()
        yield made
    finally:
        made.heal()
        rig.close()
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_leader_without_its_peers_gives_up_and_the_others_go_on(spaces: Namespaces) -> None:
    rig = spaces.rig
    with load(rig, "cut") as queue:
        leader = rig.await_serving()
        others = [name for name in rig.nodes if name != leader]
        for other in others:
            spaces.cut(leader, other)
        second = rig.await_serving(leader)
        assert second in others
        queue.await_confirms(50)
        answer = rig.status(leader)
        assert answer is not None and not answer.is_serving
        spaces.heal()
        rig.await_whole()
        queue.await_confirms(20)


def test_a_leader_without_etcd_goes_on(spaces: Namespaces) -> None:
    rig = spaces.rig
    with load(rig, "no-etcd") as queue:
        leader = rig.await_serving()
        answer = rig.status(leader)
        spaces.cut(leader, "etcd")
        end = time.monotonic() + 12  # Longer than its lease.
        while time.monotonic() < end:
            queue.await_confirms(10)
        assert rig.serving() == leader
        spaces.heal()
        rig.await_whole()
        after = rig.status(leader)
        assert answer is not None and after is not None and after.epoch == answer.epoch
