"""`penstock cluster try`: three nodes, a publisher and a consumer; the leader is killed."""

import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from penstock.base.errors import OperatorError
from penstock.demo.cluster_clients import Consumer, Publisher
from penstock.demo.cluster_history import CONFIRMED, judge, write_history
from penstock.demo.cluster_rig import ClusterRig

QUEUE: Final = "orders"
DRAIN_S: Final = 60.0
_ENDS: Final = (signal.SIGTERM, signal.SIGHUP)
Say = Callable[[str], None]


def run_try(seconds: float, program: str, keep: str, say: Say) -> int:
    """The exit status: 0 when nothing was lost. Raises: OperatorError."""
    folder = _new_folder(keep)
    began = time.monotonic()
    with _ended_as_by_hand():
        try:
            rig = ClusterRig(folder, etcd=program)
            try:
                return _Try(rig, began, say).run(seconds)
            finally:
                rig.close()
                if keep:
                    say(f" logs     {folder}")
        finally:
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _ended_as_by_hand() -> Iterator[None]:
    """SIGTERM, and SIGHUP of a terminal that is closed, end it as Ctrl-C does: the nodes, which are
    in sessions of their own, would stay."""
    before = {number: signal.getsignal(number) for number in _ENDS}
    for number, handler in before.items():
        # What nohup has it ignore it ignores.
        if handler != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Once: what ends the nodes is not interrupted."""
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _new_folder(keep: str) -> Path:
    """An empty directory, `keep` or any. Raises: OperatorError."""
    if not keep:
        return Path(tempfile.mkdtemp(prefix="penstock-cluster-"))
    folder = Path(keep)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        why = error.strerror or error
        raise OperatorError(f"cannot use {folder} for --keep: {why}; choose another") from error
    if not is_empty:
        raise OperatorError(f"{folder} is not empty: --keep makes a new directory")
    return folder


class _Try:
    def __init__(self, rig: ClusterRig, began: float, say: Say) -> None:
        self.rig = rig
        self.began = began
        self.say = say

    def at(self, words: str) -> None:
        """A line of the timeline."""
        self.say(f" t={time.monotonic() - self.began:06.2f}  {words}")

    def run(self, seconds: float) -> int:
        rig = self.rig
        safe = "TLS 1.3 between them" if rig.is_safe else "without TLS"
        self.say(f"three nodes and an etcd on 127.0.0.1, {safe}")
        rig.start_etcd()
        self.at(f"etcd answers at {rig.endpoint}")
        for name, node in rig.nodes.items():
            rig.start(name)
            self.at(f"node {name} starts: amqp://127.0.0.1:{node.port}")
        leader = rig.await_serving()
        self.at(f"node {leader} leads and serves")
        rig.await_whole()
        self.at("every node votes and has all there is")
        places = rig.places()
        # The consumer begins at a node that passes it on.
        publisher = Publisher(places, QUEUE, self.began, window=20)
        consumer = Consumer(places[::-1], QUEUE, self.began)
        publisher.start()
        consumer.start()
        self.at("a publisher with confirms, 20 under way, and a consumer; both connect to any node")
        time.sleep(seconds / 3)
        killed_at = time.monotonic() - self.began
        count = len(publisher.confirmed_at)
        pid = rig.nodes[leader].process
        self.at(f"kill -9 of node {leader} (pid {pid.pid if pid else 0}), {count:,} are confirmed")
        rig.kill(leader)
        second = rig.await_serving(leader)
        self.at(f"node {second} leads and serves")
        self._first_confirm(publisher, killed_at)
        time.sleep(seconds / 3)
        rig.start(leader)
        self.at(f"node {leader} starts again")
        rig.await_whole()
        self.at("every node votes and has all there is")
        time.sleep(seconds / 3)
        return self._count(publisher, consumer)

    def _first_confirm(self, publisher: Publisher, killed_at: float) -> None:
        end = time.monotonic() + DRAIN_S
        served_at = publisher.now()
        while not publisher.has_confirm_after(served_at):
            if time.monotonic() > end:
                raise OperatorError("nothing was confirmed after the leader's death within 60 s")
            time.sleep(0.02)
        gap_s = publisher.longest_gap_s(killed_at)
        self.at(f"confirms go on; the longest pause was {gap_s:.2f} s")

    def _count(self, publisher: Publisher, consumer: Consumer) -> int:
        publisher.stop()
        wanted = {(one.publisher, one.number) for one in publisher.history if one.kind == CONFIRMED}
        consumer.await_all(wanted, DRAIN_S)
        consumer.stop()
        history = publisher.history + consumer.history
        verdict = judge(history)
        write_history(self.rig.folder / "history.jsonl", history)
        mark = "✔" if verdict.is_good else "✘"
        self.at(f"{mark} {verdict.words()}")
        return 0 if verdict.is_good else 1
