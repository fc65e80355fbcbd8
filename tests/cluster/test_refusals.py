"""A node that does not belong here is refused in one sentence, and nothing is overwritten."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.demo.cluster_rig import ClusterRig
from tests.conformance.live import free_port
from tests.patience import until

pytestmark = pytest.mark.slow


def files(folder: Path) -> dict[str, bytes]:
    """Everything in a directory but what a lock leaves."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def elsewhere(command: list[str], data: str) -> list[str]:
    """That command on another directory, and on free ports."""
    listen = command.index("--cluster-listen") + 1
    return [*command[:listen], "127.0.0.1:0", *command[listen + 1 :], "--data", data, "--port", "0"]


def refused(command: list[str]) -> str:
    """What it says; it ends by itself, with a sentence and exit status 2."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("✘ "), done.stderr
    return said


@pytest.fixture(scope="module")
def stopped(rig: ClusterRig) -> str:
    """A follower that was stopped in order, for all tests: two of three go on."""
    leader = rig.await_serving()
    name = next(one for one in rig.nodes if one != leader)
    assert rig.stop(name) == 0
    return name


def test_an_emptied_directory_under_a_known_name(rig: ClusterRig, stopped: str) -> None:
    node = rig.nodes[stopped]
    kept = node.data.with_name("kept")
    node.data.rename(kept)
    said = refused(rig.command(stopped))
    assert "emptied" in said and f"penstock cluster forget {stopped}" in said
    shutil.rmtree(node.data)
    kept.rename(node.data)


def test_a_directory_of_another_node(rig: ClusterRig, stopped: str) -> None:
    name = next(one for one in rig.nodes if one not in (stopped, rig.await_serving()))
    data = rig.nodes[stopped].data
    before = files(data)
    command = elsewhere(rig.command(name), str(data))
    assert "another node's" in refused(command)
    after = files(data)
    assert {k: v for k, v in after.items() if not k.startswith("cluster/")} == {
        k: v for k, v in before.items() if not k.startswith("cluster/")
    }


def test_a_copy_of_a_nodes_directory_under_another_name(rig: ClusterRig, folder: Path) -> None:
    """It would be forgotten together with the node that it was copied from, or after a renaming be
    none of those that vote."""
    node = next(one for one in rig.nodes if rig.nodes[one].process is not None)
    data = folder / "twin"
    shutil.copytree(rig.nodes[node].data, data)
    command = [*elsewhere(rig.command(node), str(data)), "--name", "e"]
    if rig.is_safe:
        command += certificate_of(rig, "e")
    said = refused(command)
    assert f"is that of node '{node}', or a copy of it: start it with --name {node}" in said


def certificate_of(rig: ClusterRig, name: str) -> list[str]:
    """Made by the rig's authority; the options that name it."""
    place = rig.folder / "certificates"
    penstock = [sys.executable, "-m", "penstock.cli.main"]
    subprocess.run([*penstock, "cluster", "certificates", str(place), name], check=True)
    return [
        *("--cluster-cert", str(place / f"{name}.pem")),
        *("--cluster-key", str(place / f"{name}.key")),
    ]


def test_a_member_whose_cluster_etcd_does_not_know(rig: ClusterRig, stopped: str) -> None:
    before = files(rig.nodes[stopped].data)
    said = refused([*rig.command(stopped), "--cluster", "elsewhere"])
    assert "nothing is made anew here" in said
    after = files(rig.nodes[stopped].data)
    assert after.keys() == before.keys() and after["metadata.sqlite"] == before["metadata.sqlite"]


def test_a_single_brokers_directory_does_not_join(rig: ClusterRig, folder: Path) -> None:
    rig.await_serving()
    data = folder / "single"
    serve = [sys.executable, "-m", "penstock.cli.main", "serve", "--port", "0", "--data", str(data)]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as single:
        assert single.stdout is not None
        while "broker" not in single.stdout.readline():
            assert single.poll() is None
        single.terminate()
        # To its end: one that cannot write what it has to say dies of that, and leaves a catalogue
        # that whoever opens it next recovers.
        single.communicate()
    assert single.returncode == 0
    before = files(data)
    command = [*elsewhere(rig.command("a"), str(data)), "--name", "d"]
    if rig.is_safe:
        assert "is the certificate of node 'a'" in refused(command)
        command += certificate_of(rig, "d")
    assert "single node's data" in refused(command)
    after = files(data)
    # Who has looked into it holds the lock, and SQLite has files of its own beside the catalogue.
    changed = [key for key, value in before.items() if after.get(key) != value]
    assert not [one for one in changed if not one.endswith(("lock", "-wal", "-shm"))], changed


def test_a_nodes_directory_is_no_single_brokers_until_it_leaves(
    rig: ClusterRig, stopped: str, folder: Path
) -> None:
    data = folder / "copy"
    shutil.copytree(rig.nodes[stopped].data, data)
    penstock = [sys.executable, "-m", "penstock.cli.main"]
    said = refused([*penstock, "serve", "--port", "0", "--data", str(data)])
    assert "penstock cluster leave" in said
    subprocess.run([*penstock, "cluster", "leave", str(data)], check=True, timeout=60)
    assert not (data / "cluster").exists()
    assert "belongs to no cluster" in refused([*penstock, "cluster", "leave", str(data)])


def test_a_node_whose_etcd_has_an_old_cluster_says_whom_it_waits_for(folder: Path) -> None:
    old = ClusterRig(folder, ("a", "b"), port=free_port)
    try:
        old.start_etcd()
        old.start("a")
        old.await_serving()
        old.kill("a")
        old.start("b")
        said = "etcd has it, with the nodes a, and none of them answers"
        until(lambda: said in old.nodes["b"].log.read_text(), "the warning of node b")
    finally:
        old.close()


def test_a_directory_of_another_cluster_whose_nodes_are_called_the_same(folder: Path) -> None:
    """It is not told to have the other cluster's node forgotten, which has done nothing."""
    one = ClusterRig(folder / "one", ("a",), port=free_port)
    two = ClusterRig(folder / "two", ("a",), port=free_port)
    try:
        for rig in (one, two):
            rig.start_etcd()
            rig.start("a")
            rig.await_serving()
            assert rig.stop("a") == 0
        command = one.command("a")
        command[command.index("--coordinator") + 1] = two.endpoint
        said = refused(command)
        assert "this directory belongs to cluster" in said and "forget" not in said, said
    finally:
        one.close()
        two.close()
