"""What a queue hands to the store: of quorum queues everything, whatever its delivery mode."""

from pathlib import Path

import pytest

from penstock.broker.paging.paged_view import paged_of
from penstock.broker.queue.queue_actor import QueueActor
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.peer import Peer, publish
from tests.unit.server.disk.test_commits_after_restart import asked
from tests.unit.server.lease_bed import PERSISTENT, LeaseBed

TRANSIENT = (0x1000, b"\x01")
UNSAID = (0, b"")
QUORUM: Table = {"x-queue-type": "quorum"}


def began(path: Path, **settings: object) -> tuple[LeaseBed, Peer]:
    """Quorum queue q and classic queue c, both bound to amq.fanout, and a publisher with
    confirms."""
    bed = LeaseBed(path, **settings)
    peer = bed.connect("peer")
    for name, arguments in (("q", QUORUM), ("c", {})):
        say = m.QueueDeclare(name, durable=True, arguments=arguments)
        peer.call(1, say, m.QueueDeclareOk)
        peer.call(1, m.QueueBind(name, "amq.fanout", ""), m.QueueBindOk)
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    bed.work()
    return bed, peer


def queue(bed: LeaseBed, name: str) -> QueueActor:
    return bed.broker.vhosts["/"].queues[name]


def taken(bed: LeaseBed, name: str) -> list[bytes]:
    """Everything a consumer of `name` is given, oldest first."""
    reader = bed.connect("reader")
    reader.say(1, m.BasicConsume(queue=name, no_ack=True))
    bed.work()
    return [one.body for one in reader.heard() if one.body]


@pytest.mark.parametrize("properties", [TRANSIENT, UNSAID], ids=["mode 1", "no mode"])
def test_a_confirm_of_a_quorum_queue_waits_for_the_disk(
    tmp_path: Path, properties: tuple[int, bytes]
) -> None:
    bed, peer = began(tmp_path)
    peer.send(publish(1, "", "c", b"1", properties))
    bed.run()
    assert peer.confirmed() == {1: "ack"}, "nothing to wait for"
    peer.send(publish(1, "", "q", b"2", properties))
    bed.run()
    assert peer.confirmed() == {}
    bed.work()
    assert peer.confirmed()[2] == "ack"
    bed.die()


@pytest.mark.parametrize("is_crash", [False, True])
def test_what_is_not_persistent_comes_back_in_quorum_queues_only(
    tmp_path: Path, is_crash: bool
) -> None:
    """Each message is in a queue of either kind."""
    bed, peer = began(tmp_path)
    for body, properties in ((b"a", TRANSIENT), (b"b", PERSISTENT), (b"c", UNSAID)):
        peer.send(publish(1, "amq.fanout", "", body, properties))
    bed.work()
    assert set(peer.confirmed()) == {1, 2, 3}
    if is_crash:
        bed.die()
    else:
        bed.end()
    bed = LeaseBed(tmp_path)
    assert not bed.log.errors
    assert taken(bed, "q") == [b"a", b"b", b"c"]
    assert taken(bed, "c") == [b"b"]
    bed.end()
    bed = LeaseBed(tmp_path)
    assert bed.ready() == queue(bed, "c").messages.ready_count() == 0
    bed.die()


def test_a_quorum_queue_that_pages_keeps_what_is_not_persistent(tmp_path: Path) -> None:
    bodies = [b"%03d" % number + bytes(500) for number in range(80)]
    bed, peer = began(tmp_path, queue_depth_bytes=20_000)
    for body in bodies:
        peer.send(publish(1, "", "q", body, TRANSIENT))
        bed.work()
    assert set(peer.confirmed()) == set(range(1, 81))
    assert paged_of(queue(bed, "q"))[0] > 40
    index = bed.broker.stores.stores["/"].log.open_queue(queue(bed, "q").queue_id)
    assert index.live_count() == 80, "each is there once, and was not saved again"
    assert taken(bed, "q")[:3] == bodies[:3]
    peer.send(*(publish(1, "", "q", body, TRANSIENT) for body in bodies))
    bed.work()
    left = bed.ready()
    bed.end()
    bed = LeaseBed(tmp_path)
    assert bed.ready() == left
    assert taken(bed, "q") == bodies[80 - left :]
    bed.die()


def test_a_commit_into_a_quorum_queue_keeps_what_is_not_persistent(tmp_path: Path) -> None:
    bed, _ = began(tmp_path)
    app = bed.connect("app")
    identity = asked(app, "begin", app="a", batch=0, max_bytes=10_000)["id"]
    app.send(publish(1, "amq.fanout", "", b"1", TRANSIENT))
    app.send(publish(1, "amq.fanout", "", b"2", PERSISTENT))
    asked(app, "stage", id=identity)
    app.say(1, m.RequestAsk("transaction.commit", {"app": "a", "batch": 0, "ids": [identity]}))
    bed.work()
    assert app.one(m.RequestAskOk).answer["messages"] == 4
    bed.die()
    bed = LeaseBed(tmp_path)
    assert taken(bed, "q") == [b"1", b"2"]
    assert taken(bed, "c") == [b"2"]
    bed.die()
