"""broker/actors/cleanup, broker/session/teardown: a long end is put away between others' turns
(104)."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from penstock.base.errors import ChannelFault
from penstock.broker.actors.actor import Errand
from penstock.broker.actors.cleanup import BATCH, Cleanup
from penstock.broker.channel.channel import OFFERED_AT_ONCE, SETTLE_COST, Channel
from penstock.broker.channel.settling import SETTLED_AT_ONCE
from penstock.broker.queue.classic_actor import HELD_AT_ONCE
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.values import Table
from tests.unit.broker.peer import Bed, Peer, TickingClock, publish


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


# -- the end of a channel ------------------------------------------------------------------------


def counted_in_turns(bed: Bed, count: Callable[[], int]) -> list[int]:
    """`count` now and after each actor's turn, until nothing is ready."""
    counts = [count()]
    scheduler = bed.broker.scheduler
    while scheduler.ready:
        actor = scheduler.ready.pop(0)
        actor.is_ready = False
        if actor.is_alive and actor.turn(1024):
            actor.wake()
        counts.append(count())
    return counts


def ended_in_turns(bed: Bed, peer: Peer, last: m.Method) -> list[int]:
    """How many consumers `q` has after each actor's turn, from `last` on until nothing is ready."""
    queue = bed.actor("q")
    peer.connection.receive(method_frame(1, last))
    counts = counted_in_turns(bed, lambda: len(queue.consumers))
    bed.broker.scheduler.run(0)
    return counts


CLOSE = m.ChannelClose(200, "bye", 0, 0)
FAULT = m.BasicAck(1 << 40, False)
MANY = 24 * BATCH


@pytest.mark.parametrize("last", [CLOSE, FAULT], ids=["close", "fault"])
def test_very_many_consumers_of_a_channel_go_between_others_turns(bed: Bed, last: m.Method) -> None:
    peer = crowd(bed, MANY, 0)
    peer.heard()
    other = bed.connect("other")
    other.connection.receive(publish(1, "", "q", b"x"))
    counts = ended_in_turns(bed, peer, last)
    assert max(before - after for before, after in pairwise(counts)) <= 1024
    assert counts[-1] == 0
    bed.run()
    queue = bed.actor("q")
    assert queue.messages.ready_count() == 1 and queue.unacked_count == 0, "it was given nothing"
    peer.one(m.ChannelCloseOk if last is CLOSE else m.ChannelClose)
    peer.hang_up()
    bed.settle()


def test_a_close_is_answered_when_the_consumers_are_gone(bed: Bed) -> None:
    peer = crowd(bed, MANY, 0)
    peer.heard()
    queue = bed.actor("q")
    bed.broker.scheduler.clock = TickingClock()
    peer.connection.receive(method_frame(1, CLOSE))
    heard = peer.heard()
    while not heard:
        assert len(queue.consumers) > 0
        bed.broker.scheduler.run(1)
        heard = peer.heard()
    assert isinstance(heard[0].method, m.ChannelCloseOk) and not queue.consumers
    peer.call(1, m.ChannelOpen(), m.ChannelOpenOk)


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_connection_may_end_while_a_channel_of_it_does(bed: Bed, is_lost: bool) -> None:
    peer = crowd(bed, MANY, 0)
    queue = bed.actor("q")
    scheduler = bed.broker.scheduler
    scheduler.clock = TickingClock()
    peer.connection.receive(method_frame(1, CLOSE if is_lost else FAULT))
    while len(queue.consumers) == MANY:
        scheduler.run(1)
    assert queue.consumers
    lose(peer)
    bed.settle()
    assert not queue.consumers and not bed.broker.connections


def test_consumers_without_room_are_looked_at_in_turns(bed: Bed) -> None:
    """Their client has stopped its deliveries, and somebody publishes."""
    peer = crowd(bed, 3 * HELD_AT_ONCE, 0)
    peer.say(1, m.ChannelFlow(False))
    other = bed.connect("other")
    late = bed.connect("late")
    late.say(1, m.BasicConsume("q", "late"))
    queue = bed.actor("q")
    other.connection.receive(publish(1, "", "q", b"x"))
    counts = counted_in_turns(bed, lambda: len(queue.ready))
    assert max(before - after for before, after in pairwise(counts)) <= HELD_AT_ONCE
    bed.run()
    assert [one.tag for one in queue.ready] == ["late"] and queue.unacked_count == 1


@pytest.mark.parametrize("how", ["flow", "socket"])
def test_consumers_that_have_room_again_are_asked_in_turns(bed: Bed, how: str) -> None:
    peer = crowd(bed, 3 * OFFERED_AT_ONCE, 0)
    connection = peer.connection
    queue = bed.actor("q")
    if how == "flow":
        peer.say(1, m.ChannelFlow(False))
    else:
        connection.output_changed(False)
    bed.connect("other").publish("q", b"x")
    bed.run()
    assert not queue.ready and queue.unacked_count == 0
    if how == "flow":
        connection.receive(method_frame(1, m.ChannelFlow(True)))
    else:
        connection.output_changed(True)
        assert len(queue.ready) <= OFFERED_AT_ONCE
        # Again, before all were asked: they are asked once more.
        connection.output_changed(False)
        connection.output_changed(True)
    counts = counted_in_turns(bed, lambda: len(queue.ready))
    assert max(after - before for before, after in pairwise(counts)) <= OFFERED_AT_ONCE
    bed.run()
    assert len(queue.ready) == 3 * OFFERED_AT_ONCE and queue.unacked_count == 1
    assert connection.channels[1].offering is None


def test_consumers_of_a_stream_are_given_to_in_turns(bed: Bed) -> None:
    peer = bed.connect("readers", channels=20)
    table: Table = {"x-queue-type": "stream"}
    peer.call(1, m.QueueDeclare("s", durable=True, arguments=table), m.QueueDeclareOk)
    for number in range(3_000):
        channel = 1 + number % 20
        peer.say(channel, m.BasicQos(0, 10, False))
        peer.say(channel, m.BasicConsume("s", f"t{number}", no_wait=True))
    bed.run()
    peer.heard()
    stream = bed.actor("s")
    bed.connect("other").connection.receive(publish(1, "", "s", b"x") * 2)
    scheduler = bed.broker.scheduler
    scheduler.clock = TickingClock()
    counts = [0]
    while scheduler.run(1):
        counts.append(int(stream.messages.deliver_count))
    assert max(after - before for before, after in pairwise(counts)) <= 1024
    bed.run()
    assert stream.messages.deliver_count == 6_000 and not stream.is_ready
    found = [one.method for one in peer.heard()]
    tags = [one.consumer_tag for one in found if isinstance(one, m.BasicDeliver)]
    assert all(tags.count(f"t{number}") == 2 for number in range(0, 3_000, 100))


COMMITTED = 20 * BATCH
SETTLED = 20_000


def staged(bed: Bed) -> Peer:
    """A connection whose first channel has COMMITTED publishes to `q` in a transaction."""
    peer = bed.connect("staged", channels=2)
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.call(1, m.TxSelect(), m.TxSelectOk)
    peer.publish("q", *[b"x"] * COMMITTED)
    return peer


def counted(channel: Channel) -> Callable[[], int]:
    """Counts what has been published on `channel`, also when it has ended."""
    confirms = channel.publisher.confirms
    assert confirms is not None
    return lambda: int(confirms.next_sequence)


def test_a_commit_in_front_of_a_faulty_frame_is_done_in_turns() -> None:
    bed = Bed(body_bytes_max=1000)
    peer = staged(bed)
    published = counted(peer.connection.channels[1])
    too_much = publish(1, "", "q", b"x" * 1001)
    after = publish(1, "", "q", b"y") + publish(2, "", "q", b"z")
    peer.connection.receive(method_frame(1, m.TxCommit()) + too_much + after)
    counts = counted_in_turns(bed, published)
    assert max(after - before for before, after in pairwise(counts)) <= 1024
    bed.run()
    assert bed.actor("q").messages.ready_count() == COMMITTED + 1
    heard = peer.heard()
    assert [(one.channel, type(one.method)) for one in heard] == [
        (1, m.TxCommitOk),
        (1, m.ChannelClose),
    ]
    peer.say(1, m.ChannelCloseOk(), m.ChannelOpen())
    peer.one(m.ChannelOpenOk)
    bed.settle()


def test_a_commit_that_has_begun_is_done_in_turns_when_the_channel_fails() -> None:
    """As after the consumer timeout: the broker closes the channel of itself."""
    bed = Bed()
    peer = staged(bed)
    channel = peer.connection.channels[1]
    published = counted(channel)
    peer.connection.receive(method_frame(1, m.TxCommit()))
    scheduler = bed.broker.scheduler
    scheduler.clock = TickingClock()
    while published() == 1:
        scheduler.run(1)
    connection = peer.connection
    connection.verbs.close_channel(connection, channel, ChannelFault(406, "late"))
    assert published() <= COMMITTED
    counts = counted_in_turns(bed, published)
    assert max(after - before for before, after in pairwise(counts)) <= 1024
    bed.run()
    assert bed.actor("q").messages.ready_count() == COMMITTED
    assert peer.one(m.ChannelClose).reply_text == "PRECONDITION_FAILED - late"
    bed.settle()


def test_a_commit_in_front_of_the_end_of_its_connection_is_done_in_turns(bed: Bed) -> None:
    peer = staged(bed)
    published = counted(peer.connection.channels[1])
    close = method_frame(0, m.ConnectionClose(200, "bye", 0, 0))
    peer.connection.receive(method_frame(1, m.TxCommit()) + close)
    counts = counted_in_turns(bed, published)
    assert max(after - before for before, after in pairwise(counts)) <= 1024
    bed.run()
    assert bed.actor("q").messages.ready_count() == COMMITTED
    kinds = [type(one.method) for one in peer.heard()]
    assert kinds == [m.TxCommitOk, m.ConnectionCloseOk]


def test_a_settle_in_front_of_the_end_of_its_connection_is_done_in_turns(bed: Bed) -> None:
    peer = bed.connect("settler")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", *[b"x"] * SETTLED)
    peer.say(1, m.BasicConsume("q", "t"))
    peer.heard()
    bed.run()
    queue = bed.actor("q")
    assert queue.unacked_count == SETTLED
    a_turn = SETTLED_AT_ONCE * (1024 // SETTLE_COST + 1)
    close = method_frame(0, m.ConnectionClose(200, "bye", 0, 0))
    peer.connection.receive(method_frame(1, m.BasicAck(0, True)) + close)
    counts = counted_in_turns(bed, lambda: int(queue.messages.ack_count))
    assert max(after - before for before, after in pairwise(counts)) <= a_turn
    bed.run()
    assert queue.messages.ack_count == SETTLED
    peer.one(m.ConnectionCloseOk)
