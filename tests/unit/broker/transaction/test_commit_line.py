"""Commits in the line of those who wait for a full queue: their turn comes, and they leave it."""

import pytest

from penstock.broker.transaction.commit import CommitLine, Place
from penstock.broker.transaction.commit_routes import Share
from penstock.broker.transaction.transaction_manager import RETRY_NS
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.commit_bed import PERSISTENT, CommitBed, stage
from tests.unit.broker.peer import Bed, Peer, publish

BODY = b"x" * 1000
DEPTH_BYTES = 100_000
BOUNDED: Table = {"x-max-length": 40, "x-overflow": "backpressure"}


def test_a_place_is_granted_in_parts_or_at_once() -> None:
    place = Place(300)
    place.release_part(100)
    assert (place.kept_bytes(), place.is_granted) == (200, False)
    place.release()
    assert (place.kept_bytes(), place.is_granted) == (0, True)


def pressed(bed: Bed, arguments: Table) -> tuple[Peer, Peer]:
    """Queue q, more than full, a publisher who has more to send, and a consumer."""
    consumer, publisher = bed.connect("consumer"), bed.connect("publisher")
    consumer.call(1, m.QueueDeclare("q", arguments=arguments), m.QueueDeclareOk)
    for _ in range(20):
        publisher.send(*(publish(1, "", "q", BODY) for _ in range(50)))
    consumer.call(1, m.BasicQos(0, 5), m.BasicQosOk)
    consumer.say(1, m.BasicConsume("q", "c"))
    return consumer, publisher


@pytest.mark.parametrize("arguments", [{}, BOUNDED], ids=["deep", "full"])
def test_publishers_who_press_do_not_keep_a_commit_out_for_ever(arguments: Table) -> None:
    bed = Bed(queue_depth_bytes=DEPTH_BYTES)
    consumer, publisher = pressed(bed, arguments)
    queue = bed.actor("q")
    identity = stage(bed, ("q", b"committed"))
    driver = bed.connect("driver")
    table: Table = {"app": "q", "batch": 0, "ids": [identity]}
    driver.say(1, m.RequestAsk("transaction.commit", table))
    assert driver.heard() == []
    for _ in range(200):
        given = [one.method for one in consumer.heard() if isinstance(one.method, m.BasicDeliver)]
        consumer.say(1, m.BasicAck(given[-1].delivery_tag, True))
        bed.later(RETRY_NS)
        publisher.send(*(publish(1, "", "q", BODY) for _ in range(5)))
        assert queue.stop_reason() != "", "the publisher presses all the time"
        answers = driver.heard()
        if answers:
            break
    assert isinstance(answers[0].method, m.RequestAskOk)
    assert all(item in queue.lanes for item in queue.gate.deferred), "nobody else is in line"


def test_a_commit_that_ends_otherwise_leaves_the_line() -> None:
    bed = Bed(queue_depth_bytes=DEPTH_BYTES)
    pressed(bed, {})
    queue = bed.actor("q")
    line = CommitLine()
    share = Share()
    for message in queue.messages.ready_messages():
        share.add(message)
    before = list(queue.gate.deferred)
    assert line.is_held({queue: share}) and line.is_held({queue: share})
    assert len(queue.gate.deferred) == len(before) + 1
    line.leave()
    assert queue.gate.deferred == before
    bed.connect("admin").call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    assert not line.is_held({queue: share}), "a queue that is gone holds nobody"


def test_commits_that_overlap_do_not_keep_publishers_out_for_ever() -> None:
    """Two apps, each of which begins again while the other's commit is on its way to the disk."""
    yard = CommitBed()
    batches = dict.fromkeys(("one", "two"), -1)
    drivers: dict[str, Peer] = {}

    def commit(app: str) -> None:
        batches[app] += 1
        identity = stage(yard, ("a", b"c"), batch=batches[app], app=app)
        drivers[app] = yard.commit(identity, batch=batches[app], app=app)

    for app in batches:
        commit(app)
    yard.connect("plain").send(publish(1, "", "a", b"plain", PERSISTENT))
    for _ in range(50):
        yard.disk.work()
        yard.run()
        yard.later(RETRY_NS)
        for app, driver in list(drivers.items()):
            if driver.heard():
                commit(app)
    assert b"plain" in yard.ready("a")
    assert min(batches.values()) > 5, "and commits go on"
