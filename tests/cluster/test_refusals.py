"""A node that does not belong here is refused in one sentence, and nothing is overwritten."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.demo.cluster_rig import ClusterRig

pytestmark = pytest.mark.slow


def files(folder: Path) -> dict[str, bytes]:
    """Everything in a directory but what a lock leaves."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def refused(command: list[str]) -> str:
    """What it says; it ends by itself, with a sentence and exit status 2."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("✘ "), done.stderr
    return said


def test_an_emptied_directory_under_a_known_name(rig: ClusterRig) -> None:
    leader = rig.await_serving()
    name = next(one for one in rig.nodes if one != leader)
    node = rig.nodes[name]
    assert rig.stop(name) == 0
    kept = node.data.with_name("kept")
    node.data.rename(kept)
    said = refused(rig.command(name))
    assert "emptied" in said and f"penstock cluster forget {name}" in said
    shutil.rmtree(node.data)
    kept.rename(node.data)
    rig.start(name)
    rig.await_whole()


def test_a_directory_of_another_node(rig: ClusterRig) -> None:
    leader = rig.await_serving()
    name, other = (one for one in rig.nodes if one != leader)
    assert rig.stop(name) == 0
    assert rig.stop(other) == 0
    before = files(rig.nodes[other].data)
    command = rig.command(name)
    command[command.index("--data") + 1] = str(rig.nodes[other].data)
    assert "another node's" in refused(command)
    after = files(rig.nodes[other].data)
    assert {k: v for k, v in after.items() if not k.startswith("cluster/")} == {
        k: v for k, v in before.items() if not k.startswith("cluster/")
    }
    rig.start(other)
    rig.start(name)
    rig.await_serving()
    rig.await_whole()


def test_a_member_whose_cluster_etcd_does_not_know(rig: ClusterRig, folder: Path) -> None:
    leader = rig.await_serving()
    name = next(one for one in rig.nodes if one != leader)
    assert rig.stop(name) == 0
    before = files(rig.nodes[name].data)
    said = refused([*rig.command(name), "--cluster", "elsewhere"])
    assert "nothing is made anew here" in said
    after = files(rig.nodes[name].data)
    assert after.keys() == before.keys() and after["metadata.sqlite"] == before["metadata.sqlite"]
    rig.start(name)
    rig.await_whole()


def test_a_single_brokers_directory_does_not_join(rig: ClusterRig, folder: Path) -> None:
    rig.await_serving()
    data = folder / "single"
    serve = [sys.executable, "-m", "penstock.cli.main", "serve", "--port", "0", "--data", str(data)]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as single:
        assert single.stdout is not None
        while "broker" not in single.stdout.readline():
            assert single.poll() is None
        single.terminate()
    before = files(data)
    command = [*rig.command("a"), "--name", "d", "--data", str(data), "--port", "0"]
    command[command.index("--cluster-listen") + 1] = "127.0.0.1:0"
    assert "single node's data" in refused(command)
    after = files(data)
    # Who has looked into it holds the lock, and SQLite has files of its own beside the catalogue.
    changed = [key for key, value in before.items() if after.get(key) != value]
    assert not [one for one in changed if not one.endswith(("lock", "-wal", "-shm"))], changed


def test_a_nodes_directory_is_no_single_brokers_until_it_leaves(
    rig: ClusterRig, folder: Path
) -> None:
    leader = rig.await_serving()
    name = next(one for one in rig.nodes if one != leader)
    assert rig.stop(name) == 0
    data = folder / "copy"
    shutil.copytree(rig.nodes[name].data, data)
    rig.start(name)
    rig.await_whole()
    penstock = [sys.executable, "-m", "penstock.cli.main"]
    said = refused([*penstock, "serve", "--port", "0", "--data", str(data)])
    assert "penstock cluster leave" in said
    subprocess.run([*penstock, "cluster", "leave", str(data)], check=True, timeout=60)
    assert not (data / "cluster").exists()
    assert "belongs to no cluster" in refused([*penstock, "cluster", "leave", str(data)])
