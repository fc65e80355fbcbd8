"""A publisher and a consumer of a cluster, and what they have seen in the end."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from penstock.demo.cluster_clients import Consumer, Publisher
from penstock.demo.cluster_history import CONFIRMED, Happened, judge, write_history
from penstock.demo.cluster_rig import ClusterRig
from penstock.server.disk.data_directory import WORKERS
from tests.unit.server.cluster.member_bed import contents

SAME_S: Final = 30.0
"""Within which a broker without clients has written all it has to, and followers have it."""


def command(rig: ClusterRig, name: str, *words: str) -> str:
    """What `penstock` prints, asked of node `name`."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", *words, "--port", str(rig.nodes[name].port)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | {"XDG_RUNTIME_DIR": str(rig.sockets)},
    )
    return done.stdout


def await_true(asked: Callable[[], bool], words: str, wait_s: float = 30.0) -> None:
    end = time.monotonic() + wait_s
    while not asked():
        assert time.monotonic() < end, f"not within {wait_s} s: {words}"
        time.sleep(0.05)


def await_same(rig: ClusterRig) -> None:
    """Until all directories have the same in them. Nobody sends anything any more."""
    end = time.monotonic() + SAME_S
    while True:
        found = {name: _contents(node.data, rig.cores) for name, node in rig.nodes.items()}
        first, *others = found.values()
        if all(one == first for one in others):
            return
        if time.monotonic() > end:
            break
        time.sleep(0.5)
    paths = sorted(set().union(*found.values()))
    differing = [path for path in paths if any(one.get(path) != first.get(path) for one in others)]
    raise AssertionError(f"not the same on all nodes: {', '.join(differing)}")


def _contents(directory: Path, shards: int) -> dict[str, bytes]:
    """Of all shards. What is removed meanwhile makes it another one."""
    try:
        whole = contents(directory)
        found = {name: data for name, data in whole.items() if not name.startswith(WORKERS)}
        for shard in range(1, shards):
            own = f"{WORKERS}/{shard}"
            found |= {f"{own}/{name}": data for name, data in contents(directory / own).items()}
        return found
    except FileNotFoundError as error:
        return {str(error): b""}


class Load:
    """A publisher and a consumer of one queue or stream, in virtual host `vhost`. kind: the queue's
    type, "" for none."""

    def __init__(
        self,
        rig: ClusterRig,
        queue: str,
        *,
        is_stream: bool,
        window: int,
        size: int = 100,
        kind: str = "",
        vhost: str = "/",
    ) -> None:
        self.rig = rig
        self.queue = queue
        self.is_stream = is_stream
        began = time.monotonic()
        self.publisher = Publisher(
            rig.places(), queue, began, window=window, size=size, is_stream=is_stream
        )
        self.consumer = Consumer(rig.places()[::-1], queue, began, is_stream=is_stream)
        self.publisher.vhost = self.consumer.vhost = vhost
        if kind:
            self.publisher.kind = self.consumer.kind = kind

    def await_confirms(self, count: int) -> None:
        """So many more than there are."""
        wanted = len(self.publisher.confirmed_at) + count
        end = time.monotonic() + 90
        while len(self.publisher.confirmed_at) < wanted:
            assert time.monotonic() < end, f"{count} more confirms have not come: {self.queue}"
            assert self.publisher.fault is None, self.publisher.fault
            time.sleep(0.05)

    def finish(self) -> list[Happened]:
        """Stop, drain, and judge what was seen."""
        self.publisher.stop()
        wanted = {(o.publisher, o.number) for o in self.publisher.history if o.kind == CONFIRMED}
        is_whole = self.consumer.await_all(wanted, 90)
        self.consumer.stop()
        history = self.publisher.history + self.consumer.history
        write_history(self.rig.folder / f"{self.queue}.jsonl", history)
        verdict = judge(
            history, is_stream=self.is_stream, is_quorum=self.publisher.kind == "quorum"
        )
        assert is_whole and verdict.is_good, verdict
        print(f"{self.queue}: {verdict.words()}")
        return history


@contextmanager
def load(
    rig: ClusterRig,
    queue: str,
    *,
    is_stream: bool = False,
    window: int = 20,
    size: int = 100,
    kind: str = "",
    at: str = "",
    vhost: str = "/",
) -> Iterator[Load]:
    """at: the node that the publisher asks first."""
    made = Load(rig, queue, is_stream=is_stream, window=window, size=size, kind=kind, vhost=vhost)
    made.publisher.turn = list(rig.nodes).index(at) if at else 0
    made.publisher.start()
    made.consumer.start()
    made.await_confirms(50)
    yield made
    made.finish()
