"""Followers that are slow or stand still: who is held by it, and what `why` says on any node."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from penstock.base.limits import CLUSTER_ENTRY_BYTES, CLUSTER_WINDOW_BYTES
from penstock.demo.cluster_clients import Publisher
from penstock.demo.cluster_rig import ClusterRig
from tests.cluster.load import load

pytestmark = pytest.mark.slow


@contextmanager
def slow_disk(rig: ClusterRig, name: str, delay_us: int) -> Iterator[None]:
    """Every sync of that node's takes so much longer."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed, which makes a disk slow")
    node = rig.nodes[name]
    assert node.process is not None
    calls = "fsync,fdatasync"
    words = ["strace", "-qq", "-f", "-p", str(node.process.pid), "-o", os.devnull]
    words += ["-e", f"trace={calls}", "-e", f"inject={calls}:delay_enter={delay_us}"]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL) as tracer:
        try:
            yield
        finally:
            tracer.terminate()


class SlowLink:
    """Stands before a node's port: `port` leads there, at `bytes_per_s` when that is not 0."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.bytes_per_s = 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listening.getsockname()[1])
        self.socks = [self.listening]

    def __enter__(self) -> "SlowLink":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self.socks:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.listening.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                self.socks += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(16_384):
                other.sendall(data)
                if self.bytes_per_s:
                    time.sleep(len(data) / self.bytes_per_s)
        for sock in (one, other):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


@contextmanager
def publisher(rig: ClusterRig, name: str, queue: str, window: int) -> Iterator[Publisher]:
    """Through node `name`, 10,000 bytes a message."""
    place = [(rig.nodes[name].host, rig.nodes[name].port)]
    made = Publisher(place, queue, time.monotonic(), window=window, size=10_000)
    made.start()
    try:
        yield made
    finally:
        made.is_over.set()


def await_confirms(made: Publisher, count: int) -> None:
    end = time.monotonic() + 60
    while len(made.confirmed_at) < count:
        assert time.monotonic() < end and made.fault is None, made.fault
        time.sleep(0.02)


def why(rig: ClusterRig, name: str, what: str) -> str:
    """Asked of node `name` until it says `what`; all it says then."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "penstock.cli.main", "why", "publish", "--format", "json"),
                *("--port", str(rig.nodes[name].port)),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"XDG_RUNTIME_DIR": str(rig.sockets)},
        )
        said = done.stdout + done.stderr
        if what in said:
            return said
    raise AssertionError(f"{what!r} is not in {said}")


def test_one_slow_disk_holds_nobody_and_two_nodes_wait_for_it(rig: ClusterRig) -> None:
    """A majority does without it, until it is needed; then publishers are held, and it is named."""
    leader = rig.await_serving()
    slow, other = (name for name in rig.nodes if name != leader)
    with slow_disk(rig, slow, 400_000):
        with publisher(rig, leader, "one-slow", 1) as fast:
            await_confirms(fast, 20)
            # They have not waited for a disk that takes 0.4 s; the median, since others work here.
            assert sorted(fast.waits_s)[len(fast.waits_s) // 2] < 0.4
        rig.stop(other)
        with publisher(rig, slow, "two-slow", 20_000):
            said = why(rig, slow, f"node {slow} is behind by its disk")
            answer = rig.status(leader)
    rig.start(other)
    assert f"node {other} has no link" in said
    assert json.loads(said)["causes"][0]["reason"] == "replica"
    # 200 MB were sent to it; it took what may wait for a majority.
    assert answer is not None
    lag = next(one.lag_bytes for one in answer.nodes if one.name == slow)
    assert lag <= CLUSTER_WINDOW_BYTES.default + 4 * CLUSTER_ENTRY_BYTES.default
    rig.await_whole()


def test_a_slow_link_is_told_from_a_slow_disk(rig: ClusterRig) -> None:
    if rig.await_serving() != "a":
        # The one whose name is smaller dials: so the link of c leads through what c advertises.
        rig.ask(rig.serving(), {"op": "cluster_move", "name": "a"})
        rig.await_serving()
        rig.await_whole()
    rig.stop("c")
    with SlowLink(rig.nodes["c"].link_port) as link:
        rig.nodes["c"].options = ("--advertise", f"127.0.0.1:{link.port}")
        rig.start("c")
        rig.await_whole()
        rig.stop("b")
        link.bytes_per_s = 100_000
        with publisher(rig, "a", "slow-link", 20_000):
            said = why(rig, "a", "node c is behind by its link")
            assert json.loads(said)["causes"][0]["reason"] == "replica"
    rig.nodes["c"].options = ()
    rig.stop("c")
    rig.start("b")
    rig.start("c")
    rig.await_serving()
    rig.await_whole()


@contextmanager
def small_disk(rig: ClusterRig, name: str, free_bytes: int) -> Iterator[Callable[[], None]]:
    """The directory of a stopped node on a file system of its own with so much room; the function
    makes it large. Needs root."""
    data = rig.nodes[name].data
    kept = data.with_name(f"{name}-kept")
    shutil.copytree(data, kept)
    used = sum(one.stat().st_blocks * 512 for one in kept.rglob("*") if one.is_file())
    mount = ["mount", "-t", "tmpfs", "-o", f"size={used + free_bytes}", "tmpfs", str(data)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system, and not everywhere")

    def enlarge() -> None:
        subprocess.run(["mount", "-o", "remount,size=1g", str(data)], check=True)

    try:
        shutil.copytree(kept, data, dirs_exist_ok=True)
        yield enlarge
    finally:
        if rig.nodes[name].process is not None:
            rig.stop(name)
        # As it is now: with what was there before the node would have forgotten what it promised.
        shutil.rmtree(kept)
        shutil.copytree(data, kept)
        subprocess.run(["umount", str(data)], check=True)
        shutil.rmtree(data)
        kept.rename(data)


def test_a_follower_without_room_ends_and_holds_nobody(rig: ClusterRig) -> None:
    leader = rig.await_serving()
    full = next(name for name in rig.nodes if name != leader)
    node = rig.nodes[full]
    assert rig.stop(full) == 0
    with small_disk(rig, full, 4_000_000) as enlarge:
        rig.start(full)
        process = node.process
        assert process is not None
        with load(rig, "no-room", size=10_000) as queue:
            end = time.monotonic() + 90
            while process.poll() is None:
                assert time.monotonic() < end, "it does not notice that its disk is full"
                queue.await_confirms(20)
            node.process = None
            said = node.log.read_text().strip().splitlines()[-1]
            assert f"the disk of {full} failed" in said, said
            queue.await_confirms(50)
            assert rig.serving() == leader
            enlarge()
            rig.start(full)
            rig.await_whole()
    rig.start(full)
    rig.await_whole()
