"""Messages that have come in part: on whose account they are, and who is held for them."""

import pytest

from penstock.broker.connection.phases import PHASE_OPEN
from penstock.broker.connection.unfinished import HOLD_NS, HOLDER, REASON
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from tests.unit.broker.peer import Bed, Peer, frame, header, publish

PIECE = 60_000


def begun(peer: Peer, channel: int, pieces: int) -> None:
    """A message of which one byte is missing for ever."""
    size = pieces * PIECE + 1
    peer.send(
        method_frame(channel, m.BasicPublish(exchange="", routing_key="q")),
        frame(2, channel, header(size)),
        *(frame(3, channel, b"x" * PIECE) for _ in range(pieces)),
    )


def small() -> Bed:
    """One body has 200 kB at most, a connection keeps 400, all together 800."""
    return Bed(body_bytes_max=200_000, unfinished_bytes=0, unfinished_node_bytes=0)


def kept(bed: Bed) -> int:
    """As the node's account says it, and as the bound counts it."""
    total = bed.broker.node_account.total_unfinished_bytes()
    assert total == bed.broker.unfinished.bytes
    return total


def held_by(peer: Peer) -> list[tuple[str, str]]:
    return [(by, reason) for by, reason, _ in peer.connection.gate.snapshot()]


def test_what_has_come_is_on_the_connections_account_from_its_first_byte() -> None:
    bed = Bed()
    peer = bed.connect()
    peer.send(method_frame(1, m.BasicPublish(exchange="", routing_key="q"))[:9])
    assert kept(bed) == 9
    peer.send(method_frame(1, m.BasicPublish(exchange="", routing_key="q"))[9:])
    begun_bytes = kept(bed)
    peer.send(frame(2, 1, header(2 * PIECE)), frame(3, 1, b"x" * PIECE))
    assert begun_bytes + PIECE < kept(bed) < begun_bytes + PIECE + 60
    assert peer.connection.account.unfinished_bytes == kept(bed)
    assert bed.broker.node_account.memory_bytes() == kept(bed)
    peer.send(frame(3, 1, b"x" * PIECE))
    assert kept(bed) == 0


@pytest.mark.parametrize("way", ["channel.close", "connection.close", "cut", "fault"])
def test_it_is_repaid_on_every_way_out(way: str) -> None:
    bed = Bed()
    peer = bed.connect(channels=2)
    begun(peer, 1, 2)
    assert kept(bed) > 2 * PIECE
    if way == "channel.close":
        # Nothing but content may follow on channel 1: the broker closes the connection for it.
        peer.send(method_frame(1, m.ChannelClose(200, "", 0, 0)))
    elif way == "connection.close":
        peer.send(method_frame(0, m.ConnectionClose(200, "", 0, 0)))
    elif way == "fault":
        peer.send(publish(2, "nowhere", "q", b"x"), frame(8, 1, b""))
    else:
        peer.shell.hang_up()
    # The frame that was at fault may still be there.
    assert kept(bed) < 100


def test_a_connection_above_its_bound_is_not_read_and_then_closed() -> None:
    bed = small()
    peer = bed.connect(channels=20)
    victim = bed.connect("victim")
    victim.call(1, m.QueueDeclare("v"), m.QueueDeclareOk)
    for channel in range(1, 21):
        begun(peer, channel, 3)
    assert held_by(peer) == [(HOLDER, REASON)]
    # One read beyond the bound, at most.
    assert kept(bed) <= 400_000 + 65_536
    victim.publish("v", b"goes on")
    assert bed.actor("v").messages.ready_count() == 1
    bed.clock.advance(HOLD_NS - 1)
    bed.broker.look_at_unfinished(bed.clock.monotonic_ns())
    assert peer.connection.phase == PHASE_OPEN
    bed.clock.advance(1)
    bed.broker.look_at_unfinished(bed.clock.monotonic_ns())
    bed.run()
    closed = peer.one(m.ConnectionClose)
    assert closed.reply_code == 506
    assert "a connection may have 400000 and all together 800000" in closed.reply_text
    assert kept(bed) < 65_536
    assert victim.connection.phase == PHASE_OPEN


def test_those_that_bring_nothing_are_closed_for_the_one_that_waits() -> None:
    bed = small()
    idle = [bed.connect(f"idle {number}") for number in range(6)]
    for peer in idle:
        begun(peer, 1, 1)
    full = bed.connect("full")
    begun(full, 1, 2)
    bed.clock.advance(HOLD_NS)
    late = bed.connect("late", channels=3)
    begun(late, 1, 3)
    assert held_by(late) == [(HOLDER, REASON)]
    bed.clock.advance(HOLD_NS)
    bed.broker.look_at_unfinished(bed.clock.monotonic_ns())
    bed.run()
    # The largest goes, and that is enough.
    assert full.one(m.ConnectionClose).reply_code == 506
    assert [peer.connection.phase for peer in (*idle, late)] == [PHASE_OPEN] * 7
    assert held_by(late) == []
    late.read_on()
    late.send(frame(3, 1, b"x"))
    assert late.connection.account.unfinished_bytes == 0


def test_under_an_alarm_one_body_comes_to_its_end_and_no_more() -> None:
    bed = Bed(body_bytes_max=200_000)
    peer = bed.connect(channels=5)
    bed.broker.set_alarm("memory", "low")
    begun(peer, 1, 3)
    assert held_by(peer) == []
    for channel in range(2, 6):
        begun(peer, channel, 3)
    assert held_by(peer) == [("alarm:memory", "alarm")]
    assert kept(bed) < 500_000
    bed.broker.clear_alarm("memory")
    peer.read_on()
    assert held_by(peer) == []
    assert kept(bed) > 5 * 3 * PIECE
