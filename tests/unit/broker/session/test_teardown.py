"""broker/actors/cleanup, broker/session/teardown: a long end is put away between others' turns
(104)."""

from itertools import pairwise

from penstock.broker.actors.actor import Errand
from penstock.broker.actors.cleanup import BATCH, Cleanup
from penstock.protocol import methods as m
from tests.unit.broker.peer import Bed, Peer, publish


class Counting(Errand):
    """So many batches."""

    def __init__(self, batches: int, name: str, log: list[str]) -> None:
        self.left = batches
        self.name = name
        self.log = log

    def step(self) -> bool:
        self.left -= 1
        self.log.append(self.name)
        return self.left > 0


def test_errands_are_begun_at_once_and_served_in_turn(bed: Bed) -> None:
    log: list[str] = []
    cleanup = Cleanup(bed.broker.scheduler)
    cleanup.begin(Counting(1, "a", log))
    assert log == ["a"] and not cleanup.is_ready
    cleanup.begin(Counting(3, "b", log))
    cleanup.begin(Counting(3, "c", log))
    bed.run()
    assert log == ["a", "b", "c", "b", "c", "b", "c"] and cleanup.errands == []


def crowd(bed: Bed, consumers: int, queues: int) -> Peer:
    """A connection with so many consumers of q, and so many exclusive queues."""
    peer = bed.connect("crowd")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    for number in range(consumers):
        peer.say(1, m.BasicConsume("q", f"t{number}", no_wait=True))
    for number in range(queues):
        peer.say(1, m.QueueDeclare(f"e{number}", exclusive=True, no_wait=True))
    bed.run()
    return peer


def lose(peer: Peer) -> None:
    """The socket is gone; no turn has been given to anybody since."""
    peer.bed.broker.lost(peer.connection)


def test_others_have_turns_between_the_batches(bed: Bed) -> None:
    peer = crowd(bed, 4 * BATCH, 60)
    other = bed.connect("other")
    vhost = bed.broker.vhosts["/"]
    queue = vhost.queues["q"]
    lose(peer)
    assert len(queue.consumers) == 3 * BATCH, "one batch at once"
    assert peer.connection.name in bed.broker.connections
    other.connection.receive(publish(1, "", "q", b"x"))
    counts = [len(queue.consumers) + len(vhost.queues)]
    scheduler = bed.broker.scheduler
    while scheduler.ready:
        for actor in list(scheduler.ready):
            scheduler.ready.remove(actor)
            actor.is_ready = False
            if actor.turn(1024):
                actor.wake()
        counts.append(len(queue.consumers) + len(vhost.queues))
        if len(counts) == 2:
            assert other.connection.receive_count == 1, "read in the first round"
    assert max(before - after for before, after in pairwise(counts)) <= BATCH
    assert len(counts) > 5
    assert not queue.consumers and list(vhost.queues) == ["q"] and vhost.owned == {}
    assert list(bed.broker.connections) == ["other"]
    assert queue.messages.ready_count() == 1


def test_nothing_is_delivered_to_whoever_is_leaving(bed: Bed) -> None:
    peer = crowd(bed, 3 * BATCH, 0)
    other = bed.connect("other")
    lose(peer)
    other.connection.receive(publish(1, "", "q", b"x") * 50)
    bed.run()
    queue = bed.broker.vhosts["/"].queues["q"]
    assert queue.messages.ready_count() == 50 and queue.unacked_count == 0


def test_many_unanswered_deliveries_go_back_to_their_places(bed: Bed) -> None:
    peer = bed.connect("peer")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    bodies = [b"%05d" % number for number in range(5 * BATCH + 7)]
    peer.send(b"".join(publish(1, "", "q", body) for body in bodies))
    bed.run()
    queue = bed.broker.vhosts["/"].queues["q"]
    taker = bed.connect("taker")
    taker.say(1, m.BasicConsume("q", "t"))
    bed.run()
    taker.heard()
    bed.run()
    taker.heard()
    unacked = int(queue.unacked_count)
    assert unacked > 3 * BATCH
    lose(taker)
    assert 0 < queue.unacked_count < unacked, "a batch at once, the rest in turns"
    bed.run()
    assert queue.unacked_count == 0 and queue.messages.ready_count() == len(bodies)
    order = [queue.messages.take().body() for _ in bodies]
    assert order == bodies


def test_connection_close_is_answered_when_all_is_put_away(bed: Bed) -> None:
    peer = crowd(bed, 3 * BATCH, 0)
    queue = bed.broker.vhosts["/"].queues["q"]
    peer.say(0, m.ConnectionClose(200, "bye", 0, 0))
    heard = peer.heard()
    assert isinstance(heard[-1].method, m.ConnectionCloseOk)
    assert not queue.consumers
