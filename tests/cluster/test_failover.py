"""A cluster loses a leader, a follower, its etcd, or half a minute; no client loses a message."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock.demo.cluster_clients import Consumer, Publisher
from penstock.demo.cluster_history import CONFIRMED, Happened, judge, write_history
from penstock.demo.cluster_rig import ClusterRig

pytestmark = pytest.mark.slow


class Load:
    """A publisher and a consumer of one queue or stream."""

    def __init__(self, rig: ClusterRig, queue: str, *, is_stream: bool, window: int) -> None:
        self.rig = rig
        self.queue = queue
        self.is_stream = is_stream
        ports = [node.port for node in rig.nodes.values()]
        began = time.monotonic()
        self.publisher = Publisher(ports, queue, began, window=window, is_stream=is_stream)
        self.consumer = Consumer(ports[::-1], queue, began, is_stream=is_stream)

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
        verdict = judge(history, is_stream=self.is_stream)
        assert is_whole and verdict.is_good, verdict
        print(f"{self.queue}: {verdict.words()}")
        return history


@contextmanager
def load(
    rig: ClusterRig, queue: str, *, is_stream: bool = False, window: int = 20
) -> Iterator[Load]:
    made = Load(rig, queue, is_stream=is_stream, window=window)
    made.publisher.start()
    made.consumer.start()
    made.await_confirms(50)
    yield made
    made.finish()


def test_a_leader_that_is_killed_loses_nothing(rig: ClusterRig) -> None:
    with load(rig, "killed") as queue, load(rig, "killed-stream", is_stream=True) as stream:
        leader = rig.await_serving()
        killed_at = queue.publisher.now()
        rig.kill(leader)
        second = rig.await_serving(leader)
        queue.await_confirms(50)
        stream.await_confirms(50)
        print(f"{leader} -> {second}: {queue.publisher.longest_gap_s(killed_at):.2f} s")
        rig.start(leader)
        rig.await_whole()
        queue.await_confirms(20)


def test_a_follower_that_is_killed_is_not_felt_and_comes_back(rig: ClusterRig) -> None:
    with load(rig, "follower") as queue:
        leader = rig.await_serving()
        other = next(name for name in rig.nodes if name != leader)
        answer = rig.status(leader)
        assert answer is not None
        rig.kill(other)
        queue.await_confirms(100)
        assert rig.serving() == leader
        rig.start(other)
        rig.await_whole()
        after = rig.status(leader)
        assert after is not None and after.epoch == answer.epoch
        queue.await_confirms(20)


def test_a_leader_that_stood_still_confirms_nothing_stale(rig: ClusterRig) -> None:
    with load(rig, "stopped") as queue:
        leader = rig.await_serving()
        rig.pause(leader)
        second = rig.await_serving(leader)
        queue.publisher.turn = list(rig.nodes).index(second)
        time.sleep(12)  # Longer than its lease in etcd.
        rig.resume(leader)
        queue.await_confirms(50)
        rig.await_whole()
        answer = rig.status(leader)
        assert answer is not None and answer.role == "follower", answer


def test_an_etcd_that_is_away_is_not_felt(rig: ClusterRig) -> None:
    with load(rig, "etcd") as queue:
        leader = rig.await_serving()
        answer = rig.status(leader)
        assert answer is not None
        rig.stop_etcd()
        stopped_at = queue.publisher.now()
        end = time.monotonic() + 20
        while time.monotonic() < end:
            queue.await_confirms(20)
        assert rig.serving() == leader
        meanwhile = rig.status(leader)
        assert meanwhile is not None and not meanwhile.is_etcd_reachable
        rig.start_etcd()
        rig.await_whole()
        after = rig.status(leader)
        assert after is not None and after.epoch == answer.epoch
        assert queue.publisher.longest_gap_s(stopped_at) < 5


def test_leadership_is_handed_over(rig: ClusterRig) -> None:
    with load(rig, "moved") as queue:
        leader = rig.await_serving()
        other = next(name for name in rig.nodes if name != leader)
        rig.ask(leader, {"op": "cluster_move", "name": other})
        second = rig.await_serving(leader)
        queue.await_confirms(50)
        assert second == other
        rig.await_whole()


def test_a_node_is_stopped_and_started_in_order(rig: ClusterRig) -> None:
    with load(rig, "rolling") as queue:
        for name in list(rig.nodes):
            assert rig.stop(name) == 0
            rig.await_serving(name)
            queue.await_confirms(20)
            rig.start(name)
            rig.await_whole()
