"""A publish for many queues goes to them over several turns: nobody waits for all of its copies,
and whoever sent it sees what it would see if it went in one piece."""

from penstock.base.limits import TURN_MESSAGES
from penstock.broker.channel.channel import Channel
from penstock.broker.channel.publish import COPY_COST, SPREAD_ABOVE, WIRED_AT_ONCE
from penstock.protocol import methods as m
from tests.unit.broker.peer import Bed, Peer, TickingClock, publish

COUNT = 700
EACH_TURN = TURN_MESSAGES.default // COPY_COST + 1


def names(count: int = COUNT) -> list[str]:
    return [f"q{number}" for number in range(count)]


def fanned_out(count: int = COUNT) -> tuple[Bed, Peer]:
    """A confirming peer, and queues that an exchange gives everything."""
    bed = Bed()
    peer = bed.connect()
    peer.call(1, m.ExchangeDeclare("f", "fanout"), m.ExchangeDeclareOk)
    for name in names(count):
        peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)
        peer.call(1, m.QueueBind(name, "f"), m.QueueBindOk)
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    return bed, peer


def depth(bed: Bed, name: str) -> int:
    return int(bed.actor(name).messages.publish_count)


def waiting(peer: Peer, bed: Bed) -> int:
    """Copies that were handed over, and lie in front of their queues."""
    return sum(len(lane.items) for actor in bed.broker.vhosts["/"].queues.values()
               for lane in actor.lanes)  # fmt: skip


def channel_of(peer: Peer) -> Channel:
    return peer.connection.channels[1]


def begin(peer: Peer, *bodies: bytes) -> None:
    """The broker has read the publishes; no channel has had a turn."""
    peer.connection.receive(b"".join(publish(1, "f", "", body) for body in bodies))
    while not (upstream := channel_of(peer).upstream) or not upstream.items:
        peer.connection.turn(TURN_MESSAGES.default)


def test_every_queue_gets_every_message_in_order_and_each_is_confirmed_once() -> None:
    bed, peer = fanned_out()
    peer.publish("", b"one", b"two", b"three", exchange="f")
    assert peer.confirmed() == {1: "ack", 2: "ack", 3: "ack"}
    for name in names():
        assert depth(bed, name) == 3
    for name in names()[:: COUNT - 1]:
        bodies = []
        for _ in range(3):
            peer.say(1, m.BasicGet(name, True))
            bodies += [one.body for one in peer.heard()]
        assert bodies == [b"one", b"two", b"three"]
    bed.settle()


def test_a_turn_makes_so_many_hops_and_copies_and_no_more() -> None:
    bed, peer = fanned_out(2_000)
    begin(peer, b"x", b"y")
    channel = channel_of(peer)
    wired = []
    while channel.publisher.spread is None:
        assert channel.turn(TURN_MESSAGES.default), "it has more to do"
        wired.append(len(channel.publisher.lanes))
    made = [after - before for before, after in zip([0, *wired], wired, strict=False)]
    assert max(made) <= WIRED_AT_ONCE and sum(made) == 2_000
    assert waiting(peer, bed) <= EACH_TURN
    turns = 1
    while channel.publisher.spread is not None:
        before = waiting(peer, bed)
        has_more = channel.turn(TURN_MESSAGES.default)
        assert has_more or channel.publisher.publish_count == 2
        assert waiting(peer, bed) - before <= EACH_TURN
        turns += 1
    assert turns >= 2_000 // EACH_TURN
    assert peer.confirmed() == {}, "no queue has had a turn"
    bed.run()
    assert peer.confirmed() == {1: "ack", 2: "ack"}
    bed.settle()


def test_others_have_their_turns_in_between() -> None:
    bed, peer = fanned_out(5_000)
    other = bed.connect("other")
    other.call(1, m.QueueDeclare("ping"), m.QueueDeclareOk)
    peer.publish("", b"wires the hops", exchange="f")
    begin(peer, b"x")
    other.connection.receive(publish(1, "", "ping", b"ping"))
    scheduler = bed.broker.scheduler
    scheduler.clock = TickingClock()
    slices = 0
    while depth(bed, "ping") == 0:
        # Each turn reads the clock once.
        scheduler.run_actors(scheduler.clock.monotonic_ns() + 100)
        slices += 1
    assert sum(depth(bed, name) for name in names(5_000)) < 5_000 + 3 * EACH_TURN
    assert slices * 100 < 3 * EACH_TURN
    bed.settle()


def test_a_method_behind_it_finds_all_of_it_there() -> None:
    bed, peer = fanned_out()
    begin(peer, b"x")
    peer.say(1, m.QueuePurge(names()[-1]))
    purged = [one.method for one in peer.heard() if isinstance(one.method, m.QueuePurgeOk)]
    assert [one.message_count for one in purged] == [1]
    bed.settle()


def test_a_queue_that_goes_on_the_way_counts_as_one_that_took_it() -> None:
    bed, peer = fanned_out()
    other = bed.connect("other")
    peer.publish("", b"wires the hops", exchange="f")
    begin(peer, b"x")
    channel_of(peer).turn(TURN_MESSAGES.default)
    spread = channel_of(peer).publisher.spread
    assert spread is not None and spread.at < COUNT
    last = names()[-1]
    bed.broker.vhosts["/"].remove_queue(bed.actor(last))
    other.call(1, m.QueueDeclare(last), m.QueueDeclareOk)
    bed.run()
    assert peer.confirmed() == {1: "ack", 2: "ack"}
    assert depth(bed, last) == 0, "the new one was not bound"
    bed.settle()


def test_the_end_of_its_channel_or_connection_lets_it_arrive_whole() -> None:
    for how in ("channel", "connection", "socket"):
        bed, peer = fanned_out()
        peer.publish("", b"wires the hops", exchange="f")
        begin(peer, b"x")
        channel_of(peer).turn(TURN_MESSAGES.default)
        assert channel_of(peer).publisher.spread is not None
        if how == "socket":
            peer.hang_up()
        elif how == "channel":
            peer.say(1, m.ChannelClose(200, "bye", 0, 0))
        else:
            peer.say(0, m.ConnectionClose(200, "bye", 0, 0))
        bed.run()
        assert {depth(bed, name) for name in names()} == {2}, how
        bed.settle()


def test_a_transaction_publishes_all_of_it() -> None:
    bed, _ = fanned_out()
    peer = bed.connect("tx")
    peer.call(1, m.TxSelect(), m.TxSelectOk)
    peer.publish("", b"one", b"two", exchange="f")
    assert depth(bed, "q0") == 0
    peer.call(1, m.TxCommit(), m.TxCommitOk)
    assert {depth(bed, name) for name in names()} == {2}
    bed.settle()


def test_a_publish_for_few_queues_goes_at_once() -> None:
    bed, peer = fanned_out(SPREAD_ABOVE)
    peer.publish("", b"wires the hops", exchange="f")
    begin(peer, b"x")
    channel_of(peer).turn(TURN_MESSAGES.default)
    assert channel_of(peer).publisher.spread is None
    assert waiting(peer, bed) == SPREAD_ABOVE
    bed.settle()
