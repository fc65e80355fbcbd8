"""A message that rests in several queues is in memory once, and so it is in the books of memory:
split between those who hold it now, whatever the way on which some have lost it."""

from pathlib import Path

import pytest

from penstock.broker.admin.view_queues import memory_of
from penstock.broker.admin.views import actor_snapshots
from penstock.broker.queue.queue_actor import QueueActor
from penstock.protocol import methods as m
from penstock.protocol.content import SHARED_BYTES
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from tests.unit.broker.letter_bed import LetterBed
from tests.unit.broker.peer import Bed, Peer, publish
from tests.unit.server.lease_bed import PERSISTENT, LeaseBed

COUNT = 10
PLACE_BYTES = MESSAGE_OVERHEAD_BYTES - SHARED_BYTES
QUEUES = ("a", "b", "c", "d")
BODY = bytes(10_000)


def bound(bed: Bed, durable: bool = False) -> Peer:
    """A publisher, and QUEUES bound to amq.fanout."""
    peer = bed.connect("web")
    for name in QUEUES:
        peer.call(1, m.QueueDeclare(name, durable=durable), m.QueueDeclareOk)
        peer.call(1, m.QueueBind(name, "amq.fanout", ""), m.QueueBindOk)
    return peer


def spread(bed: Bed, peer: Peer) -> int:
    """COUNT messages for all; the frames of one."""
    peer.publish("", *(BODY for _ in range(COUNT)), exchange="amq.fanout")
    bed.run()
    return len(bed.actor("a").messages.ready_messages()[0].raw)


def once(raw: int, queues: int) -> int:
    """What COUNT messages with frames of `raw` bytes take in so many queues."""
    return COUNT * (raw + SHARED_BYTES + queues * PLACE_BYTES)


def held(bed: Bed) -> int:
    return int(bed.broker.node_account.memory_bytes())


def test_a_fan_out_is_counted_once_and_split() -> None:
    bed = Bed()
    peer = bound(bed)
    raw = spread(bed, peer)
    assert held(bed) == once(raw, len(QUEUES))
    account = peer.connection.account
    assert account.stored_bytes == len(QUEUES) * COUNT * (raw + MESSAGE_OVERHEAD_BYTES)
    assert account.memory_bytes() == held(bed)
    for name in QUEUES:
        assert memory_of(bed.actor(name)) == pytest.approx(held(bed) / len(QUEUES), abs=1)
    found = actor_snapshots(bed.broker)
    assert found["node"].numbers["memory_bytes"] == held(bed)
    assert found["queue:/a"].numbers["memory_bytes"] == memory_of(bed.actor("a"))
    assert found["queue:/a"].numbers["bytes"] == COUNT * (raw + MESSAGE_OVERHEAD_BYTES)
    bed.settle()


def taken_by_no_ack(bed: Bed, name: str) -> None:
    reader = bed.connect("no-ack")
    reader.say(1, m.BasicConsume(queue=name, no_ack=True))
    bed.run()
    reader.heard()


def taken_by_ack(bed: Bed, name: str) -> None:
    reader = bed.connect("ack")
    reader.say(1, m.BasicConsume(queue=name))
    bed.run()
    tag = len([one for one in reader.heard() if one.body])
    assert tag == COUNT
    reader.say(1, m.BasicAck(tag, True))
    bed.run()


def taken_by_get(bed: Bed, name: str) -> None:
    reader = bed.connect("get")
    for _ in range(COUNT):
        reader.call(1, m.BasicGet(name, no_ack=True), m.BasicGetOk)


def purged(bed: Bed, name: str) -> None:
    bed.connect("purge").call(1, m.QueuePurge(name), m.QueuePurgeOk)


def deleted(bed: Bed, name: str) -> None:
    bed.connect("delete").call(1, m.QueueDelete(name), m.QueueDeleteOk)


def deleted_unanswered(bed: Bed, name: str) -> None:
    reader = bed.connect("reader")
    reader.say(1, m.BasicConsume(queue=name))
    bed.run()
    reader.heard()
    deleted(bed, name)
    reader.hang_up()
    bed.run()


@pytest.mark.parametrize(
    "leave",
    [taken_by_no_ack, taken_by_ack, taken_by_get, purged, deleted, deleted_unanswered],
    ids=lambda one: one.__name__,
)
def test_the_last_one_holds_all_of_it(leave: object) -> None:
    bed = Bed()
    peer = bound(bed)
    raw = spread(bed, peer)
    assert callable(leave)
    left = len(QUEUES)
    for name in QUEUES[:-1]:
        leave(bed, name)
        left -= 1
        assert held(bed) == once(raw, left)
    assert memory_of(bed.actor("d")) == held(bed) == COUNT * (raw + MESSAGE_OVERHEAD_BYTES)
    leave(bed, "d")
    assert held(bed) == 0 and peer.connection.account.shared_bytes == 0
    bed.settle()


def test_unlike_fan_outs_are_not_thrown_together() -> None:
    """What two share is half of each, although others share with twenty."""
    bed = Bed()
    peer = bed.connect("web")
    names = [f"q{number}" for number in range(20)]
    for name in names:
        peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
        peer.call(1, m.QueueBind(name, "amq.direct", "all"), m.QueueBindOk)
    for name in ("x", "y"):
        peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
        peer.call(1, m.QueueBind(name, "amq.direct", "two"), m.QueueBindOk)
    peer.publish("all", *(BODY for _ in range(COUNT)), exchange="amq.direct")
    peer.publish("two", *(BODY for _ in range(COUNT)), exchange="amq.direct")
    bed.run()
    assert memory_of(bed.actor("x")) == pytest.approx(COUNT * len(BODY) / 2, rel=0.05)
    assert memory_of(bed.actor("q3")) == pytest.approx(COUNT * len(BODY) / 20, rel=0.3)
    every = sum(memory_of(bed.actor(name)) for name in (*names, "x", "y"))
    assert every == pytest.approx(held(bed), rel=0.001)
    bed.settle()


def test_a_body_that_one_queue_has_paged_is_the_others() -> None:
    """RabbitMQ's rules drop a body; the queues that keep it whole go on to hold it."""
    bed = Bed()
    raw = spread(bed, bound(bed))
    messages = bed.actor("a").messages.ready_messages()
    del messages[3:]
    for one in messages:
        one.left()  # type: ignore[attr-defined]  # shared, because it went to four queues
    assert held(bed) == once(raw, len(QUEUES)) + 3 * (raw + SHARED_BYTES)
    for one in messages:
        one.joined()  # type: ignore[attr-defined]
    bed.settle()


def test_paging_lets_go_of_the_share(tmp_path: Path) -> None:
    """Durable queues above their target: the books are those of what memory has."""
    bed = LeaseBed(tmp_path, queue_depth_bytes=60_000)
    peer = bound(bed, durable=True)
    bed.work()
    for _ in range(4 * COUNT):
        peer.send(publish(1, "amq.fanout", "", BODY, PERSISTENT))
        bed.work()
    actors: list[QueueActor] = [bed.actor(name) for name in QUEUES]
    whole = {id(one): len(one.raw) for actor in actors for one in actor.messages.ready_messages()}
    slots = held(bed) - sum(whole.values())
    assert sum(int(actor.messages.paged_count()) for actor in actors) > 2 * COUNT
    assert 0 < slots < len(QUEUES) * 4 * COUNT * (MESSAGE_OVERHEAD_BYTES + 100)
    for name in QUEUES:
        purged(bed, name)
    bed.work()
    assert held(bed) == 0
    bed.die()


def test_a_dead_letter_that_goes_to_several_queues_is_one() -> None:
    bed = LetterBed()
    for name in ("x", "y", "z"):
        bed.declare(name)
        bed.peer.call(1, m.QueueBind(name, "amq.fanout", ""), m.QueueBindOk)
    bed.declare("q", dead_letter_exchange="amq.fanout")
    bed.peer.publish("q", BODY)
    bed.reject("q", 1)
    raw = len(bed.actor("x").messages.ready_messages()[0].raw)
    assert held(bed) == raw + SHARED_BYTES + 3 * PLACE_BYTES
    assert bed.peer.connection.account.memory_bytes() == held(bed), "the first cause has it"
    bed.check_books()
    for name in ("x", "y", "z"):
        bed.peer.call(1, m.QueuePurge(name), m.QueuePurgeOk)
    assert held(bed) == 0
    bed.check_books()
