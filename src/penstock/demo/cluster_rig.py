"""A cluster on one machine: an etcd and nodes as processes of their own, to be killed and stopped.

Everything is below one folder and on free ports of 127.0.0.1; `close` ends what was started.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec
import psutil

from penstock.base.errors import OperatorError
from penstock.broker.admin.cluster_answers import ClusterAnswer
from penstock.server.control.control_client import ask

HOST: Final = "127.0.0.1"
START_S: Final = 120.0
STOP_S: Final = 30.0
NO_ETCD: Final = (
    "no etcd found: `apt install etcd-server` on Debian or Ubuntu, or name one with --etcd PATH "
    "(3.4.20 or newer of 3.4, 3.5.13 or newer of 3.5, 3.6)"
)


def find_etcd(program: str) -> str:
    """The etcd to run. Raises: OperatorError."""
    found = shutil.which(program or "etcd")
    if found is None:
        raise OperatorError(f"{program} cannot be run" if program else NO_ETCD)
    return found


def free_port() -> int:
    """One that nobody has now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _first_of(count: int, port: Callable[[], int]) -> int:
    """The first of so many free ports in a row."""
    while True:
        first = port()
        if all(_is_free(one) for one in range(first + 1, first + count)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


class Node:
    """One node. host: its address; port: of its clients; link_port: of other nodes; process: None
    while it is not started; prefix, options: what its command begins and ends with."""

    def __init__(self, name: str, port: int, link_port: int, folder: Path) -> None:
        self.name = name
        self.port = port
        self.link_port = link_port
        self.data = folder / name
        self.log = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.host = HOST
        self.prefix: tuple[str, ...] = ()
        self.options: tuple[str, ...] = ()


class Etcd:
    """One etcd. host: its address; port: of its clients; peer_port: of the others; process: None
    while it is stopped; prefix: what its command begins with."""

    def __init__(self, name: str, port: int, peer_port: int, folder: Path) -> None:
        self.name = name
        self.port = port
        self.peer_port = peer_port
        self.data = folder / name
        self.log = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.host = HOST
        self.prefix: tuple[str, ...] = ()

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def peer(self) -> str:
        return f"http://{self.host}:{self.peer_port}"

    def leads(self) -> bool:
        """Whether it says that it leads the others."""
        asked = urllib.request.Request(f"{self.endpoint}/v3/maintenance/status", b"{}")
        try:
            with urllib.request.urlopen(asked, timeout=2) as answer:
                found = json.load(answer)
        except (OSError, urllib.error.URLError, ValueError):
            return False
        return bool(found["header"]["member_id"] == found.get("leader"))

    def is_healthy(self) -> bool:
        """Whether it answers, as one of a majority."""
        try:
            with urllib.request.urlopen(f"{self.endpoint}/health", timeout=2) as answer:
                return bool(json.load(answer).get("health") == "true")
        except (OSError, urllib.error.URLError, ValueError):
            return False


class ClusterRig:
    """folder: where everything is; names: of the nodes; port: chooses a free one; options: of the
    command line of every node; etcd_count: members of the etcd; cores: workers of each node, with a
    port each for other nodes."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str] = ("a", "b", "c"),
        etcd: str = "",
        options: tuple[str, ...] = (),
        port: Callable[[], int] = free_port,
        etcd_count: int = 1,
        cores: int = 1,
    ) -> None:
        """Raises: OperatorError if there is no etcd."""
        self.folder = folder
        self.program = find_etcd(etcd)
        self.options = options
        self.python = sys.executable
        self.etcds = [
            Etcd("etcd" if etcd_count == 1 else f"etcd{number}", port(), port(), folder)
            for number in range(1, etcd_count + 1)
        ]
        self.nodes = {name: Node(name, port(), _first_of(cores, port), folder) for name in names}
        self.cores = cores
        if cores > 1:
            self.options = ("--cores", str(cores), *options)
        self.is_safe = find_spec("cryptography") is not None
        folder.mkdir(parents=True, exist_ok=True)
        self.sockets = folder / "run"
        self.sockets.mkdir(mode=0o700, exist_ok=True)
        if self.is_safe and names:
            self._make_certificates()

    def _make_certificates(self) -> None:
        place = self.folder / "certificates"
        if not place.exists():
            command = [sys.executable, "-m", "penstock.cli.main", "cluster", "certificates"]
            subprocess.run(
                [*command, str(place), *self.nodes, "--days", "30"],
                check=True,
                stdout=subprocess.DEVNULL,
            )

    @property
    def endpoint(self) -> str:
        """Of all etcds, joined by commas."""
        return ",".join(one.endpoint for one in self.etcds)

    def places(self) -> list[tuple[str, int]]:
        """Where clients come in."""
        return [(node.host, node.port) for node in self.nodes.values()]

    # -- etcd --------------------------------------------------------------------------------------

    def start_etcd(self) -> None:
        """Returns when all of it answers. Raises: OperatorError."""
        for one in self.etcds:
            self.start_one_etcd(one)
        end = time.monotonic() + START_S
        for one in self.etcds:
            while not one.is_healthy():
                if time.monotonic() > end or (one.process and one.process.poll() is not None):
                    raise OperatorError(f"etcd does not start; see {one.log}")
                time.sleep(0.05)

    def start_one_etcd(self, one: Etcd) -> None:
        """Returns at once."""
        if one.process is not None:
            return
        members = ",".join(f"{other.name}={other.peer}" for other in self.etcds)
        with one.log.open("ab") as log:
            one.process = subprocess.Popen(
                [
                    *(*one.prefix, self.program),
                    *("--name", one.name, "--data-dir", str(one.data)),
                    *("--listen-client-urls", one.endpoint),
                    *("--advertise-client-urls", one.endpoint),
                    *("--listen-peer-urls", one.peer, "--initial-advertise-peer-urls", one.peer),
                    *("--initial-cluster", members),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def stop_etcd(self) -> None:
        """All of it."""
        for one in self.etcds:
            _end(one.process)
            one.process = None

    def kill_one_etcd(self, one: Etcd) -> None:
        """kill -9."""
        if one.process is not None:
            one.process.kill()
            one.process.wait()
            one.process = None

    # -- nodes -------------------------------------------------------------------------------------

    def command(self, name: str) -> list[str]:
        node = self.nodes[name]
        place = self.folder / "certificates"
        safe = ["--cluster-plain"]
        if self.is_safe:
            safe = [
                *("--cluster-cert", str(place / f"{name}.pem")),
                *("--cluster-key", str(place / f"{name}.key")),
                *("--cluster-ca", str(place / "ca.pem")),
            ]
        return [
            *node.prefix,
            *(self.python, "-m", "penstock.cli.main", "serve", "--coordinator", self.endpoint),
            *("--name", name, "--cluster-listen", f"{node.host}:{node.link_port}", *safe),
            *("--host", node.host, "--port", str(node.port), "--data", str(node.data)),
            *self.options,
            *node.options,
        ]

    def start(self, name: str) -> None:
        """Returns at once."""
        node = self.nodes[name]
        environment = os.environ | {"XDG_RUNTIME_DIR": str(self.sockets)}
        with node.log.open("ab") as log:
            node.process = subprocess.Popen(
                self.command(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """kill -9, its broker too, as when its machine loses power but for the kernel's caches."""
        for one in self._processes(name):
            # Without its disk a broker may have ended by itself.
            with suppress(psutil.NoSuchProcess):
                one.kill()
        node = self.nodes[name]
        if node.process is not None:
            node.process.wait()
            node.process = None

    def kill_parent(self, name: str) -> list[psutil.Process]:
        """kill -9 of the process above a node's members alone, which are to end by themselves."""
        parent, *others = self._processes(name)
        parent.kill()
        process = self.nodes[name].process
        if process is not None:
            process.wait()
            self.nodes[name].process = None
        return others

    def members(self, name: str) -> list[psutil.Process]:
        """Of a node with several workers, each with its broker as a child."""
        return [one for one in self._processes(name) if "penstock.cli.shard_child" in _said(one)]

    def kill_broker(self, name: str) -> None:
        """kill -9 of the broker of a node that leads, not of its member."""
        for one in self._processes(name)[1:]:
            one.kill()

    def pause(self, name: str) -> None:
        """SIGSTOP of both its processes."""
        for one in self._processes(name):
            one.suspend()

    def resume(self, name: str) -> None:
        """SIGCONT. A member that finds that it leads no more ends its broker, perhaps before we
        come to that one."""
        for one in self._processes(name):
            with suppress(psutil.NoSuchProcess):
                one.resume()

    def _processes(self, name: str) -> list[psutil.Process]:
        process = self.nodes[name].process
        if process is None:
            return []
        try:
            whole = psutil.Process(process.pid)
            return [whole, *whole.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def stop(self, name: str) -> int:
        """SIGTERM; its exit code."""
        process = self.nodes[name].process
        self.nodes[name].process = None
        return _end(process)

    def cpu_seconds(self, name: str) -> float:
        """That its processes have used."""
        total = 0.0
        for one in self._processes(name):
            try:
                times = one.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        return total

    def control(self, name: str) -> str:
        """Where it answers questions about the cluster."""
        return str(self.sockets / f"penstock-{self.nodes[name].port}-cluster.sock")

    def ask(self, name: str, request: dict[str, object]) -> dict[str, object]:
        """Raises: OperatorError when it says no, or nothing."""
        return ask(self.control(name), request, 10.0)

    def ask_broker(self, name: str, request: dict[str, object]) -> dict[str, object]:
        """What is asked of brokers, as commands do. Raises: OperatorError."""
        path = self.sockets / f"penstock-{self.nodes[name].port}.sock"
        return ask(str(path), request, 10.0)

    def status(self, name: str) -> ClusterAnswer | None:
        """None while it does not answer."""
        try:
            found = ask(self.control(name), {"op": "cluster_status"}, 2.0)
        except OperatorError:
            return None
        return msgspec.convert(found, ClusterAnswer)

    def shards(self, name: str) -> list[ClusterAnswer]:
        """Of a node with several workers: what each says; [] while it does not answer."""
        try:
            found = ask(self.control(name), {"op": "cluster_status"}, 5.0)
        except OperatorError:
            return []
        return msgspec.convert(found["shards"], list[ClusterAnswer])

    def shard_leaders(self) -> list[str]:
        """The node whose broker serves each shard, "" where none does."""
        found: list[str] = []
        for name, node in self.nodes.items():
            for number, one in enumerate(self.shards(name) if node.process else ()):
                found += [""] * (number + 1 - len(found))
                if one.is_serving and one.role == "leader":
                    found[number] = name
        return found

    def await_shards(self, wait_s: float = START_S) -> list[str]:
        """Until every node that is started has all of each shard; who leads them then.
        Raises: OperatorError."""
        started = [name for name, node in self.nodes.items() if node.process is not None]

        def is_whole() -> str:
            leaders = self.shard_leaders()
            for number, leader in enumerate(leaders):
                answer = self.shards(leader)[number:] if leader else []
                rows = {one.name: one for one in answer[0].nodes} if answer else {}
                there = [rows.get(name) for name in started]
                if not all(one is not None and one.is_whole and one.is_voter for one in there):
                    return ""
            return "yes" if leaders else ""

        self._await(is_whole, wait_s, "not every node has all of every shard")
        return self.shard_leaders()

    def serving(self) -> str:
        """The node whose broker serves clients, "" if none does."""
        for name, node in self.nodes.items():
            answer = self.status(name) if node.process is not None else None
            if answer is not None and answer.is_serving and answer.role == "leader":
                return name
        return ""

    def await_serving(self, other_than: str = "", wait_s: float = START_S) -> str:
        """Who serves in the end. Raises: OperatorError."""

        def found() -> str:
            name = self.serving()
            return name if name != other_than else ""

        return self._await(found, wait_s, "no node has come to lead")

    def await_whole(self, wait_s: float = START_S) -> None:
        """Until every node votes, is online and whole, and could lead at once.
        Raises: OperatorError."""

        def is_whole() -> str:
            name = self.serving()
            answer = self.status(name) if name else None
            if answer is None or len(answer.voters) < len(self.nodes):
                return ""
            if not all(one.is_whole and one.is_online for one in answer.nodes):
                return ""
            others = [self.status(one) for one in self.nodes]
            return name if all(one is not None and one.is_warm for one in others) else ""

        self._await(is_whole, wait_s, "not every node is whole")

    def _await(self, found: Callable[[], str], wait_s: float, words: str) -> str:
        end = time.monotonic() + wait_s
        while time.monotonic() < end:
            name = found()
            if name:
                return name
            for one, node in self.nodes.items():
                if node.process is not None and node.process.poll() is not None:
                    raise OperatorError(f"node '{one}' has ended: {_tail(node.log)}")
            time.sleep(0.02)
        raise OperatorError(f"{words} within {wait_s:.0f} s; see the logs in {self.folder}")

    def close(self) -> None:
        """End everything."""
        for name, node in self.nodes.items():
            self.resume(name)
            if node.process is not None:
                self.kill(name)
        for one in self.etcds:
            self.kill_one_etcd(one)


def _said(process: psutil.Process) -> list[str]:
    """Its command, [] when it has ended."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _end(process: subprocess.Popen[bytes] | None) -> int:
    if process is None:
        return 0
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it has said nothing"
