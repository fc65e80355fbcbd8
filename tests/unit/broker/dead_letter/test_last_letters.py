"""A clean stop amid dead-lettering a queue that is larger than memory: each message is in the queue
where it died or in all of its targets, and nowhere twice."""

from pathlib import Path

import pytest

from penstock.broker.paging.paged_view import paged_of
from penstock.broker.queue.queue_actor import QueueActor
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.peer import publish
from tests.unit.server.lease_bed import PERSISTENT, LeaseBed

COUNT = 80
FULL: Table = {"x-max-length": 3, "x-overflow": "reject-publish"}
HOLDING: Table = {"x-max-length": 3, "x-overflow": "backpressure"}
AT_LEAST_ONCE: Table = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}


def began(path: Path, rules: Table, targets: dict[str, Table]) -> LeaseBed:
    """Queue q has COUNT messages that die at once, most of them on the disk, and as many are with
    `targets` as there is room for."""
    bed = LeaseBed(path, queue_depth_bytes=30_000)
    peer = bed.connect("peer")
    peer.call(1, m.ExchangeDeclare("dead", "fanout", durable=True), m.ExchangeDeclareOk)
    arguments = {"x-dead-letter-exchange": "dead", "x-message-ttl": 50, **rules}
    for name, table in {"q": arguments, **targets}.items():
        say = m.QueueDeclare(name, durable=True, arguments=table)
        peer.call(1, say, m.QueueDeclareOk)
        if name != "q":
            peer.call(1, m.QueueBind(name, "dead", ""), m.QueueBindOk)
    for number in range(COUNT):
        peer.send(publish(1, "", "q", b"%04d" % number + bytes(500), PERSISTENT))
    bed.run()
    while bed.disk.jobs:
        bed.disk.work(1)
        bed.run()
    assert paged_of(queue(bed, "q"))[0] > COUNT // 2
    for _ in range(8):
        bed.pass_time(20)
        bed.work()
    return bed


def queue(bed: LeaseBed, name: str) -> QueueActor:
    return bed.broker.vhosts["/"].queues[name]


def stopped(bed: LeaseBed, path: Path, *names: str) -> list[list[int]]:
    """What the disk has for the queues `names` after a clean stop, in order."""
    bed.boot.close()
    assert not bed.log.errors
    bed.die()
    bed = LeaseBed(path)
    log = bed.broker.stores.stores["/"].log
    found = []
    for name in names:
        job = log.plan_reads(log.open_queue(queue(bed, name).queue_id), 0, 1 << 20, 1 << 30)
        job.run()
        assert not job.damaged
        found.append([int(one.message.body()[:4]) for one in job.found])
    bed.die()
    return found


def test_what_some_targets_have_goes_to_those_that_refused_it(tmp_path: Path) -> None:
    bed = began(tmp_path, AT_LEAST_ONCE, {"a": {}, "b": FULL})
    assert bed.ready() > 0, "32 letters without an answer stop the others"
    arrived = int(queue(bed, "a").messages.ready_count())
    assert queue(bed, "b").messages.ready_count() == 3 < arrived
    left, first, second = stopped(bed, tmp_path, "q", "a", "b")
    assert first == sorted(second) == list(range(arrived))
    assert left == list(range(arrived, COUNT))


def test_what_one_has_another_refused_and_a_third_is_too_full_for(tmp_path: Path) -> None:
    bed = began(tmp_path, AT_LEAST_ONCE, {"a": {}, "b": FULL, "c": HOLDING})
    arrived = int(queue(bed, "a").messages.ready_count())
    assert 3 < arrived < COUNT
    left, *targets = stopped(bed, tmp_path, "q", "a", "b", "c")
    assert [sorted(one) for one in targets] == [list(range(arrived))] * 3
    assert left == list(range(arrived, COUNT))


def test_what_no_target_has_stays_where_it_died(tmp_path: Path) -> None:
    """However much of it was refused, limits hold."""
    bed = began(tmp_path, AT_LEAST_ONCE, {"b": FULL})
    left, arrived = stopped(bed, tmp_path, "q", "b")
    assert (arrived, left) == (list(range(3)), list(range(3, COUNT)))


@pytest.mark.parametrize("rules", [{}, AT_LEAST_ONCE], ids=["at-most-once", "at-least-once"])
def test_what_waits_for_a_full_target_is_not_lost(tmp_path: Path, rules: Table) -> None:
    """At-most-once it has left the queue where it died, and is taken; else it comes back there."""
    bed = began(tmp_path, rules, {"b": HOLDING})
    assert queue(bed, "b").messages.ready_count() == 3
    left, arrived = stopped(bed, tmp_path, "q", "b")
    assert arrived + left == list(range(COUNT))
    assert (len(arrived) > 3) == (not rules)
