"""One node with several workers: how it comes to them, and what it refuses, in words."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import psutil
import pytest

from penstock.demo.cluster_rig import ClusterRig
from penstock.server.control.control_client import ask
from tests.cluster.load import await_true, command
from tests.conformance.live import free_port
from tests.patience import until

pytestmark = pytest.mark.slow

DURABLE = pika.BasicProperties(delivery_mode=2)
PENSTOCK = [sys.executable, "-m", "penstock.cli.main"]


@pytest.fixture
def alone(folder: Path) -> Iterator[ClusterRig]:
    """Node a, not started, and an etcd; there are two free ports for other nodes."""
    if shutil.which("etcd") is None:
        pytest.skip("there is no etcd")
    rig = ClusterRig(folder, ("a",), port=free_port, cores=2)
    rig.options = ()
    try:
        rig.start_etcd()
        yield rig
    finally:
        rig.close()


def put(rig: ClusterRig, vhost: str, body: bytes) -> None:
    where = pika.ConnectionParameters("127.0.0.1", rig.nodes["a"].port, vhost)
    with pika.BlockingConnection(where) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True)
        channel.basic_publish("", "kept", body, DURABLE)


def taken(port: int, vhost: str) -> bytes | None:
    where = pika.ConnectionParameters("127.0.0.1", port, vhost)
    with pika.BlockingConnection(where) as connection:
        body: bytes | None = connection.channel().basic_get("kept", auto_ack=True)[2]
        return body


def said_at_its_end(rig: ClusterRig) -> str:
    """By a node that does not stay: its last line."""
    rig.start("a")
    process = rig.nodes["a"].process
    assert process is not None
    assert process.wait(60) > 0
    rig.nodes["a"].process = None
    return rig.nodes["a"].log.read_text().strip().splitlines()[-1]


def test_a_cluster_of_single_brokers_goes_on_with_several_and_leaves(alone: ClusterRig) -> None:
    """Into shards, not back by itself, and out of the cluster with all of them."""
    alone.start("a")
    alone.await_serving()
    command(alone, "a", "vhosts", "add", "old")
    command(alone, "a", "permissions", "set", "guest", ".*", ".*", ".*", "--vhost", "old")
    put(alone, "/", b"slash")
    put(alone, "old", b"old")
    assert alone.stop("a") == 0
    alone.options = ("--cores", "2")
    alone.start("a")
    assert alone.await_shards() == ["a", "a"]
    command(alone, "a", "vhosts", "add", "new")
    command(alone, "a", "permissions", "set", "guest", ".*", ".*", ".*", "--vhost", "new")
    put(alone, "new", b"new")
    assert [one.vhosts for one in alone.shards("a")] == [["/", "old"], ["new"]]
    assert alone.stop("a") == 0
    node = alone.nodes["a"]
    data = str(node.data)
    alone.options = ()
    assert "virtual host 'new' would be missing" in said_at_its_end(alone)
    # A node that has nothing yet hears it from etcd.
    node.data = alone.folder / "empty"
    assert "have 2 workers each" in said_at_its_end(alone)
    alone.options = ("--cores", "3")
    assert "start it with --cores 2" in said_at_its_end(alone)
    refused = subprocess.run(
        [*PENSTOCK, "serve", "--cores", "2", "--port", "0", "--data", data],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "penstock cluster leave" in refused.stderr
    left = subprocess.run(
        [*PENSTOCK, "cluster", "leave", data], capture_output=True, text=True, check=True
    )
    assert f"penstock serve --cores 2 --data {data}" in left.stdout
    port = free_port()
    with subprocess.Popen(
        [*PENSTOCK, "serve", "--cores", "2", "--port", str(port), "--data", data],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"XDG_RUNTIME_DIR": str(alone.sockets)},
    ) as process:
        try:
            assert process.stdout is not None
            assert any("worker 1" in line for line in process.stdout)
            for vhost, body in (("/", b"slash"), ("old", b"old"), ("new", b"new")):
                assert taken(port, vhost) == body
        finally:
            process.send_signal(signal.SIGTERM)


def test_a_port_that_is_taken_is_named_and_nothing_stays_behind(alone: ClusterRig) -> None:
    alone.options = ("--cores", "2", "--port", str(alone.etcds[0].port))
    before = {one.pid for one in psutil.Process().children(recursive=True)}
    said = said_at_its_end(alone)
    assert str(alone.etcds[0].port) in said and "Traceback" not in said
    assert {one.pid for one in psutil.Process().children(recursive=True)} <= before


def test_the_end_of_the_parent_is_the_end_of_its_members(alone: ClusterRig) -> None:
    alone.options = ("--cores", "2")
    alone.start("a")
    alone.await_shards()
    process = alone.nodes["a"].process
    assert process is not None
    everybody = psutil.Process(process.pid).children(recursive=True)
    assert len(everybody) == 4, "two members and their brokers"
    process.kill()
    process.wait()
    alone.nodes["a"].process = None
    await_true(lambda: not any(one.is_running() for one in everybody), "all have ended")
    alone.start("a")
    assert alone.await_shards() == ["a", "a"]


def test_sighup_is_for_all_of_them(alone: ClusterRig) -> None:
    path = alone.folder / "penstock.toml"
    path.write_text('memory_high = "1GB"\n', encoding="utf-8")
    alone.options = ("--cores", "2", "--config", str(path))
    alone.start("a")
    alone.await_shards()
    process = alone.nodes["a"].process
    assert process is not None

    def marks() -> list[object]:
        begin = alone.sockets / f"penstock-{alone.nodes['a'].port}-worker-"
        said = [ask(f"{begin}{number}.sock", {"op": "status"}) for number in (0, 1)]
        return [one["memory_high_bytes"] for one in said]

    assert marks() == [10**9] * 2
    path.write_text('memory_high = "2GB"\n', encoding="utf-8")
    process.send_signal(signal.SIGHUP)
    until(lambda: marks() == [2 * 10**9] * 2, "the new mark is in force")
