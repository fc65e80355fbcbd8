"""A cluster loses a leader, a follower, its etcd, or half a minute; no client loses a message."""

import subprocess
import time

import pika
import pytest

from penstock.demo.cluster_rig import ClusterRig
from tests.cluster.load import command, load

pytestmark = pytest.mark.slow


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


def test_a_broker_that_crashes_alone_gives_leadership_to_another_node(rig: ClusterRig) -> None:
    """Its member lives, and may not take the directory for one that was left in order."""
    with load(rig, "crashed") as queue:
        leader = rig.await_serving()
        copies = rig.nodes[leader].log.read_text().count("is copied from node")
        rig.kill_broker(leader)
        second = rig.await_serving(leader)
        assert second != leader
        queue.await_confirms(50)
        rig.await_whole()
        assert rig.nodes[leader].log.read_text().count("is copied from node") > copies


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
        # A leader that gave up now would have no successor until etcd is back.
        other = next(name for name in rig.nodes if name != leader)
        for words in (("move", other), ("drain", leader), ("forget", "--force", other)):
            with pytest.raises(subprocess.CalledProcessError) as refused:
                command(rig, other, "cluster", *words)
            assert "while etcd does not answer" in str(refused.value.stderr)
        queue.await_confirms(20)
        assert rig.serving() == leader
        rig.start_etcd()
        rig.await_whole()
        after = rig.status(leader)
        assert after is not None and after.epoch == answer.epoch
        assert queue.publisher.longest_gap_s(stopped_at) < 5


def test_clients_of_another_node_do_not_notice(rig: ClusterRig) -> None:
    """Connected to one node by pika while others lead, are killed, and hand over."""
    leader = rig.await_serving()
    own = next(name for name in rig.nodes if name != leader)
    place = f"amqp://guest:guest@127.0.0.1:{rig.nodes[own].port}/?heartbeat=20"
    with pika.BlockingConnection(pika.URLParameters(place)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True)
        answers = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_qos(prefetch_count=10)
        got: list[tuple[int, bool]] = []

        def take(_: object, method: pika.spec.Basic.Deliver, __: object, body: bytes) -> None:
            got.append((int(body), method.redelivered))
            channel.basic_ack(method.delivery_tag)

        channel.basic_consume("kept", take)
        sent = 0
        for ends in (rig.kill, lambda name: rig.ask(name, {"op": "cluster_move", "name": own})):
            leader = rig.await_serving()
            if leader == own:
                break
            ends(leader)
            end = time.monotonic() + 90
            while time.monotonic() < end and (sent % 50 or rig.serving() in ("", leader)):
                lasting = pika.BasicProperties(delivery_mode=2)
                channel.basic_publish("", "kept", b"%d" % sent, lasting)
                sent += 1
                connection.process_data_events(0)
            if rig.nodes[leader].process is None:
                rig.start(leader)
            rig.await_whole()
        end = time.monotonic() + 30
        while len({number for number, _ in got}) < sent and time.monotonic() < end:
            connection.process_data_events(0.1)
        channel.basic_publish("", answers, b"0")
        firsts = list(dict.fromkeys(number for number, _ in got))
        assert firsts == list(range(sent)), "all of them, in order"
        unmarked = [number for number, is_again in got if not is_again]
        # What was unconfirmed when the leader was killed, or handed over, is there once, too.
        assert len(unmarked) == len(set(unmarked))
        print(f"{sent} sent, {len(got) - sent} came again, through node {own}")


def test_leadership_is_handed_over(rig: ClusterRig) -> None:
    with load(rig, "moved") as queue:
        leader = rig.await_serving()
        other = next(name for name in rig.nodes if name != leader)
        rig.ask(leader, {"op": "cluster_move", "name": other})
        second = rig.await_serving(leader)
        queue.await_confirms(50)
        # It is the one that was named, unless another one has more of the log by then.
        assert second != leader
        rig.await_whole()


def test_a_node_is_stopped_and_started_in_order(rig: ClusterRig) -> None:
    with load(rig, "rolling") as queue:
        for name in list(rig.nodes):
            assert rig.stop(name) == 0
            rig.await_serving(name)
            queue.await_confirms(20)
            rig.start(name)
            rig.await_whole()
