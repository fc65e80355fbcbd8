"""Three nodes on this machine: what a replicated confirm costs, and how long a failover takes.

Rates, waits for a confirm and processor time are of `penstock perf` with 1 KiB messages that are
persistent, one publisher and one consumer at the leader: with a single broker and a durable queue,
and with a quorum queue on three nodes of Penstock and, where it is installed, of Debian's RabbitMQ.
Processor time is that of all nodes' processes. A failover is a kill -9 of the leader, under a
publisher with 20 unconfirmed: the pause is the longest time without a confirm that follows.

    python bench/cluster.py                 from this checkout, interpreted
    python bench/cluster.py --python PATH   as installed for that interpreter (compiled)
    python bench/cluster.py --smoke         does anything get lost?
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Run as a program the directory above is not on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil

from bench.brokers import (
    RABBITMQ_MISSING,
    Broker,
    rabbitmq_target,
    start_rabbitmq_cluster,
)
from bench.machine import describe
from penstock.demo.cluster_clients import Consumer, Publisher
from penstock.demo.cluster_history import CONFIRMED, judge
from penstock.demo.cluster_rig import HOST, ClusterRig, free_port

SIZE: Final = 1024
NS_PER_MS: Final = 1e6
NODES: Final = 3
WINDOWS: Final = (1, 200, 5000)
WAIT_S: Final = 120.0
QUORUM: Final = ("-qa", "x-queue-type=quorum", "-nad", "--durable")


class ClusterFailed(Exception):
    """Something was lost, or did not come about."""


@dataclass(frozen=True, slots=True)
class Cost:
    """window: of unconfirmed publishes; rate: confirmed messages a second; p50_ms, p99_ms: from a
    publish to its confirm; cpu_s: seconds of processor time for a million, of all nodes."""

    window: int
    rate: float
    p50_ms: float
    p99_ms: float
    cpu_s: float

    def words(self, what: str) -> str:
        return (
            f"{what:<12} window {self.window:>4}   {self.rate:>8,.0f}/s   confirm p50 "
            f"{self.p50_ms:.1f} p99 {self.p99_ms:.1f} ms   {self.cpu_s:,.0f} CPU-s a million"
        )


def measured(
    python: str,
    port: int,
    window: int,
    seconds: float,
    cpu: list[psutil.Process],
    options: tuple[str, ...] = (),
) -> Cost:
    """One load at `port`. cpu: processes whose time counts."""
    before = spent(cpu)
    done = subprocess.run(
        [
            *(python, "-m", "penstock.cli.main", "perf", "-h", f"amqp://guest:guest@{HOST}:{port}"),
            *("-s", str(SIZE), "-z", str(seconds), "-c", str(window), "-f", "persistent"),
            *("-u", f"bench-{window}", "-q", "500", "--format", "json", *options),
        ],
        capture_output=True,
        text=True,
        timeout=seconds + WAIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise ClusterFailed(f"penstock perf: {done.stdout[-400:]}{done.stderr[-400:]}")
    figures = json.loads(done.stdout.strip().splitlines()[-1])["figures"]
    waits = figures["confirm_latency"]
    count = figures["confirmed_per_s"] * figures["span_s"]
    return Cost(
        window,
        figures["confirmed_per_s"],
        waits["median"] / NS_PER_MS,
        waits["p99"] / NS_PER_MS,
        (spent(cpu) - before) / count * 1e6,
    )


def spent(processes: list[psutil.Process]) -> float:
    total = 0.0
    for one in processes:
        times = one.cpu_times()
        total += times.user + times.system
    return total


def family(pid: int) -> list[psutil.Process]:
    whole = psutil.Process(pid)
    return [whole, *whole.children(recursive=True)]


@contextmanager
def cluster(python: str) -> Iterator[ClusterRig]:
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    rig = ClusterRig(folder)
    rig.python = python
    try:
        rig.start_etcd()
        for name in rig.nodes:
            rig.start(name)
        rig.await_serving()
        rig.await_whole()
        yield rig
    finally:
        rig.close()
        shutil.rmtree(folder, ignore_errors=True)


def single(python: str, seconds: float) -> list[Cost]:
    """The same load on one broker, which replicates nothing."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    port = free_port()
    command = [python, "-m", "penstock.cli.main", "serve", "--port", str(port)]
    environment = os.environ | {"XDG_RUNTIME_DIR": str(folder)}
    with subprocess.Popen(
        [*command, "--data", str(folder / "data")],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as broker:
        try:
            assert broker.stdout is not None
            while "broker" not in broker.stdout.readline():
                if broker.poll() is not None:
                    raise ClusterFailed("the broker does not start")
            return [
                measured(python, port, window, seconds, family(broker.pid)) for window in WINDOWS
            ]
        finally:
            broker.terminate()
            broker.wait()
            shutil.rmtree(folder, ignore_errors=True)


def costs(rig: ClusterRig, python: str, seconds: float) -> list[Cost]:
    leader = rig.await_serving()
    pids = [node.process.pid for node in rig.nodes.values() if node.process is not None]
    everything = [one for pid in pids for one in family(pid)]
    port = rig.nodes[leader].port
    return [measured(python, port, window, seconds, everything, QUORUM) for window in WINDOWS]


def rabbitmq(python: str, seconds: float) -> list[Cost]:
    """Three nodes of RabbitMQ and a quorum queue of three members, led by the node of the clients;
    nothing where it is not installed. Raises: BrokerFailed."""
    target = rabbitmq_target("quorum")
    if target is None:
        print(RABBITMQ_MISSING)
        return []
    nodes = start_rabbitmq_cluster(target, NODES)
    try:
        cpu = [one for node in nodes for pid in node.pids for one in family(pid)]
        port = nodes[0].port
        found = [measured(python, port, one, seconds, cpu, QUORUM) for one in WINDOWS]
        print(f"rabbitmq {target.version}: {memory_of(nodes)} MB of memory a node")
        return found
    finally:
        for node in reversed(nodes):
            node.stop()


def memory_of(nodes: list[Broker]) -> str:
    return ", ".join(f"{node.rss_bytes() / 1e6:.0f}" for node in nodes)


def show_memory(rig: ClusterRig) -> None:
    """Of each node, as it was started: one that is started again has forgotten what it held."""
    for name in rig.nodes:
        process = rig.nodes[name].process
        if process is not None:
            memory = sum(one.memory_info().rss for one in family(process.pid))
            print(f"memory       node {name}: {memory / 1e6:.0f} MB", flush=True)


def failover(rig: ClusterRig, number: int) -> tuple[float, float]:
    """Seconds from a kill -9 of the leader to the next leader's service, and the longest pause
    between two confirms. Raises: ClusterFailed if something was lost."""
    queue = f"failover-{number}"
    places = rig.places()
    began = time.monotonic()
    publisher = Publisher(places, queue, began, window=20)
    consumer = Consumer(places, queue, began)
    publisher.start()
    consumer.start()
    await_confirms(publisher, 200)
    leader = rig.await_serving()
    killed_at = publisher.now()
    rig.kill(leader)
    rig.await_serving(leader)
    served_s = publisher.now() - killed_at
    await_confirms(publisher, 200)
    pause_s = publisher.longest_gap_s(killed_at)
    publisher.stop()
    wanted = {(o.publisher, o.number) for o in publisher.history if o.kind == CONFIRMED}
    consumer.await_all(wanted, WAIT_S)
    consumer.stop()
    verdict = judge(publisher.history + consumer.history)
    if not verdict.is_good:
        raise ClusterFailed(f"after a failover: {verdict}")
    rig.start(leader)
    rig.await_whole()
    return served_s, pause_s


def await_confirms(publisher: Publisher, more: int) -> None:
    wanted = len(publisher.confirmed_at) + more
    end = time.monotonic() + WAIT_S
    while len(publisher.confirmed_at) < wanted:
        if time.monotonic() > end:
            raise ClusterFailed(f"{more} confirms have not come within {WAIT_S:.0f} s")
        time.sleep(0.01)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--failovers", type=int, default=5)
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    seconds, failovers = (3.0, 1) if asked.smoke else (asked.seconds, asked.failovers)
    print(describe())
    load = os.getloadavg()[0]
    print(f"load of the machine before: {load:.1f}")
    for cost in single(asked.python, seconds):
        print(cost.words("one broker"), flush=True)
    for cost in rabbitmq(asked.python, seconds):
        print(cost.words("RabbitMQ"), flush=True)
    with cluster(asked.python) as rig:
        for cost in costs(rig, asked.python, seconds):
            print(cost.words("three nodes"), flush=True)
        show_memory(rig)
        found = [failover(rig, number) for number in range(failovers)]
        served = sorted(one for one, _ in found)
        pauses = sorted(one for _, one in found)
        print(
            f"failover     kill -9 to service: median {served[len(served) // 2]:.2f} s, most "
            f"{served[-1]:.2f} s; pause of confirms: median {pauses[len(pauses) // 2]:.2f} s, most "
            f"{pauses[-1]:.2f} s ({failovers} times); nothing lost",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
