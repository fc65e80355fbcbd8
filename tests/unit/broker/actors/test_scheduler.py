"""The line of actors: everybody in turn, budgets, and an actor that fails."""

from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from tests.unit.broker.peer import MS, Bed, publish


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
