"""The line of actors: everybody in turn, budgets, and an actor that fails."""

from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from tests.unit.broker.peer import MS, Bed, TickingClock, publish


def test_a_slice_that_is_over_leaves_the_rest_for_the_next() -> None:
    bed = Bed(turn_messages=1)
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.connection.receive(publish(1, "", "q", b"x") * 50)
    assert bed.broker.scheduler.run(0)
    assert bed.broker.vhosts["/"].queues["q"].messages.publish_count < 50
    while bed.broker.scheduler.run(MS):
        continue
    assert bed.broker.vhosts["/"].queues["q"].messages.publish_count == 50
    bed.settle()


def test_a_flood_on_one_connection_does_not_hold_up_another() -> None:
    """F42: fair by turns, not by bytes."""
    bed = Bed(turn_messages=10)
    flood = bed.connect("flood")
    quiet = bed.connect("quiet")
    flood.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    flood.connection.receive(publish(1, "", "q", b"x") * 900)
    quiet.connection.receive(method_frame(1, m.QueueDeclare("r")))
    turns = 0
    while "r" not in bed.broker.vhosts["/"].queues:
        assert bed.broker.scheduler.run(0) or turns == 0
        turns += 1
        # A slice of no length serves nobody; the shortest one serves one round.
        bed.broker.scheduler.run_actors(bed.clock.monotonic_ns() + 1)
        bed.clock.advance(1)
    assert flood.connection.parser.unread_bytes() > 0 or turns <= 2
    bed.settle()


def test_a_slice_ends_within_a_round_and_nobody_loses_a_place() -> None:
    """However many have been woken at once."""
    bed = Bed()
    peer = bed.connect()
    for number in range(50):
        peer.call(1, m.QueueDeclare(f"q{number}"), m.QueueDeclareOk)
    scheduler = bed.broker.scheduler
    scheduler.clock = TickingClock()
    queues = list(bed.broker.vhosts["/"].queues.values())
    served: list[str] = []
    for queue in queues:
        queue.wake()
    line = [actor.identity for actor in scheduler.ready]
    while scheduler.ready:
        first = scheduler.ready[0].identity
        left = len(scheduler.ready)
        # Every reading of the clock is one later, so that a slice of 5 lasts for some turns.
        scheduler.run_actors(scheduler.clock.monotonic_ns() + 5)
        assert 0 < left - len(scheduler.ready) < 10
        served += line[line.index(first) : line.index(first) + left - len(scheduler.ready)]
    assert served == line
