"""Scenarios 51-62, 71 and 118 of flow-semantics 19: what clients are told, and how they may answer.

[N] is the profile penstock with a client that has opted in. [R] is what RabbitMQ has done since
2.0: it sends no channel.flow at all; what 1.8 did (10 s and out, 503 at the first violation) is no
profile of ours.
"""

import gc
import itertools
import random
import sys

import pytest

from penstock.broker.connection.client_notifier import ClientNotifier
from penstock.flow.channel_flow import Told
from penstock.protocol import methods as m
from penstock.telemetry.events import GATE_CLOSED
from tests.unit.broker.peer import ALL_CAPABILITIES, MS, Bed, Heard, Peer, publish

OPTED_IN = (*ALL_CAPABILITIES, "channel.flow")
EMULATED = pytest.mark.parametrize("profile", ["rabbitmq-3.5", "rabbitmq-4"])
S = 1000 * MS


def flows(peer: Peer) -> list[tuple[int, bool]]:
    """(channel, active) of every channel.flow heard, which must be all there is to hear."""
    found = []
    for one in peer.heard():
        assert isinstance(one.method, m.ChannelFlow), one
        found.append((one.channel, one.method.active))
    return found


def opted_in(bed: Bed, channels: int = 1) -> Peer:
    return bed.connect(channels=channels, capabilities=OPTED_IN)


@pytest.fixture
def peer(bed: Bed) -> Peer:
    """One that has asked for channel.flow."""
    return opted_in(bed)


def told(peer: Peer, channel: int = 1) -> Told:
    notices = peer.connection.notifier
    assert isinstance(notices, ClientNotifier)
    return notices.flows[channel][1].told


def pass_time(bed: Bed, seconds: float) -> None:
    """Time, with the broker's periodic looks ten times a second."""
    for step in range(round(seconds * 10)):
        bed.clock.advance(S // 10)
        bed.broker.notify_clients(bed.clock.monotonic_ns())
        if step % 10 == 9:
            bed.broker.consumer_timeout.tick(bed.clock.monotonic_ns())
    bed.broker.notify_clients(bed.clock.monotonic_ns())
    bed.run()


def alarm(bed: Bed, resource: str = "memory") -> None:
    bed.broker.set_alarm(resource, "2 bytes of 1 are used")
    bed.run()


def clear(bed: Bed, resource: str = "memory") -> None:
    bed.broker.clear_alarm(resource)
    bed.run()


def test_scenario_51_broadcast(bed: Bed) -> None:
    peer, other = opted_in(bed, 3), bed.connect("other", channels=3)
    alarm(bed)
    assert flows(peer) == [(1, False), (2, False), (3, False)]
    assert other.heard() == [], "nobody is told who has not asked for it"
    for number in (1, 2, 3):
        peer.say(number, m.ChannelFlowOk(False))
    clear(bed)
    assert flows(peer) == [(1, True), (2, True), (3, True)]
    other.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    alarm(bed)
    other.publish("q", b"1")
    assert isinstance(other.one(m.ConnectionBlocked), m.ConnectionBlocked)


@EMULATED
def test_scenario_51_broadcast_is_gone_since_2_0(profile: str) -> None:
    bed = Bed(profile=profile, channel_flow="known")
    peer = opted_in(bed, 3)
    alarm(bed)
    assert peer.heard() == []


def test_scenario_51_broadcast_as_rabbitmq_1_5_sent_it() -> None:
    """Every channel of every client, asked for or not; flow-ok is not looked at, and what is
    published all the same is taken."""
    bed = Bed(profile="rabbitmq-1.5")
    peer, other = opted_in(bed, 3), bed.connect("other", channels=1)
    other.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    alarm(bed)
    assert flows(peer) == [(1, False), (2, False), (3, False)]
    assert flows(other) == [(1, False)]
    alarm(bed, "disk")
    assert flows(peer) == []
    peer.say(1, m.ChannelFlowOk(False))
    peer.say(2, m.ChannelFlowOk(True))
    other.publish("q", b"1", b"2")
    assert bed.actor("q").messages.ready_count() == 2, "nothing holds it"
    assert other.heard() == [], "connection.blocked came later"
    late = opted_in(bed, 0)
    late.say(1, m.ChannelOpen())
    opened, said = late.heard()
    assert isinstance(opened.method, m.ChannelOpenOk)
    assert said.method == m.ChannelFlow(False), "behind its open-ok"
    clear(bed)
    assert flows(peer) == []
    clear(bed, "disk")
    assert flows(peer) == [(1, True), (2, True), (3, True)]
    assert flows(other) == flows(late) == [(1, True)]
    alarm(bed)
    assert flows(peer) == [(1, False), (2, False), (3, False)], "whatever was answered before"
    assert "channel.flow asks all clients to pause" in bed.log.lines[-1]
    bed.settle()


def test_scenario_61_client_side_pause_was_ignored_in_1_5() -> None:
    bed = Bed(profile="rabbitmq-1.5")
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.call(1, m.BasicConsume("q", "t", no_ack=True), m.BasicConsumeOk)
    assert peer.call(1, m.ChannelFlow(False), m.ChannelFlowOk).active
    peer.publish("q", b"1")
    assert peer.bodies() == [b"1"]


def test_scenario_52_no_double_signal(bed: Bed, peer: Peer) -> None:
    alarm(bed, "memory")
    alarm(bed, "disk")
    assert flows(peer) == [(1, False)]
    peer.say(1, m.ChannelFlowOk(False))
    clear(bed, "memory")
    assert flows(peer) == []
    clear(bed, "disk")
    assert flows(peer) == [(1, True)]


def test_scenario_53_coalescing(bed: Bed, peer: Peer) -> None:
    alarm(bed)
    clear(bed)
    alarm(bed)
    assert flows(peer) == [(1, False)]
    peer.say(1, m.ChannelFlowOk(False))
    assert flows(peer) == []
    assert told(peer) is Told.STOPPED


def test_scenario_54_coalescing_the_other_way(bed: Bed, peer: Peer) -> None:
    alarm(bed)
    clear(bed)
    assert flows(peer) == [(1, False)]
    peer.say(1, m.ChannelFlowOk(False))
    assert flows(peer) == [(1, True)]
    peer.say(1, m.ChannelFlowOk(True))
    assert flows(peer) == []
    assert told(peer) is Told.FREE


def test_scenario_55_new_channel_in_alarm(bed: Bed, peer: Peer) -> None:
    alarm(bed)
    flows(peer)
    peer.say(2, m.ChannelOpen())
    assert [(one.channel, one.method) for one in peer.heard()] == [
        (2, m.ChannelOpenOk()),
        (2, m.ChannelFlow(False)),
    ]
    late = bed.connect("late", capabilities=ALL_CAPABILITIES)
    assert late.heard() == []


def test_scenario_56_finish_current_content(bed: Bed, peer: Peer) -> None:
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    whole = publish(1, "", "q", b"x" * 100)
    half = len(whole) - 60
    peer.send(whole[:half])
    alarm(bed)
    assert flows(peer) == [(1, False)]
    peer.send(whole[half:])
    peer.say(1, m.ChannelFlowOk(False))
    assert peer.connection.can_receive(), "it was begun before"
    clear(bed)
    heard = peer.heard()
    assert m.BasicAck(1, False) in [one.method for one in heard]
    assert bed.broker.vhosts["/"].queues["q"].messages.ready_count() == 1


def test_scenario_57_violation(bed: Bed, peer: Peer) -> None:
    """[N]: counted, and the connection is not read until the alarm is over."""
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    alarm(bed)
    peer.say(1, m.ChannelFlowOk(False))
    seen = bed.broker.recorder.next_seq
    peer.publish("q", b"1")
    assert not peer.connection.can_receive()
    closed = [one for one in bed.broker.recorder.since(seen) if one.kind == GATE_CLOSED]
    assert ("alarm:memory", "flow") in [(one.peer, one.reason) for one in closed]
    peer.publish("q", b"2")
    assert peer.unread, "it is not even read"
    clear(bed)
    peer.read_on()
    assert peer.connection.can_receive()
    assert bed.broker.vhosts["/"].queues["q"].messages.ready_count() == 2
    assert [one.method for one in peer.heard() if one.channel == 1] == [
        m.ChannelFlow(False),
        m.ChannelFlow(True),
    ]


def test_scenario_57_violation_that_lasts_closes(bed: Bed, peer: Peer) -> None:
    """[N]: only after its grace, 60 s."""
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    alarm(bed)
    peer.say(1, m.ChannelFlowOk(False))
    peer.publish("q", b"1")
    pass_time(bed, 59)
    assert not [one for one in peer.heard() if isinstance(one.method, m.ConnectionClose)]
    pass_time(bed, 2)
    close = peer.one(m.ConnectionClose)
    assert (close.reply_code, close.method_id) == (503, 40)
    assert "published on channel 1 after channel.flow-ok" in close.reply_text


def test_scenario_58_missing_flow_ok(bed: Bed) -> None:
    """[N]: logged once after 10 s, never closed; what is published is held all the same."""
    peer = opted_in(bed, 2)
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    alarm(bed)
    pass_time(bed, 9.8)
    assert not [line for line in bed.log.lines if "flow-ok" in line]
    pass_time(bed, 120)
    lines = [line for line in bed.log.lines if "flow-ok" in line]
    assert len(lines) == 1
    assert "on channel 1 for 10.0 s" in lines[0]
    assert flows(peer) == [(1, False), (2, False)]
    assert told(peer, 1) is told(peer, 2) is Told.IGNORED
    peer.publish("q", b"1", b"2", b"3")
    assert told(peer) is Told.IGNORED, "it has promised nothing"
    assert not peer.connection.can_receive(), "TCP enforces"
    assert bed.broker.vhosts["/"].queues["q"].messages.publish_count == 0
    clear(bed)
    peer.read_on()
    assert bed.broker.vhosts["/"].queues["q"].messages.ready_count() == 3
    assert [one.method for one in peer.heard() if one.channel > 0] == [m.ChannelFlow(True)] * 2


def test_scenario_59_wrong_method_for_a_reply(bed: Bed, peer: Peer) -> None:
    """php-amqplib sends channel.flow back."""
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", b"1", b"2")
    alarm(bed)
    peer.say(1, m.ChannelFlow(False))
    assert told(peer) is Told.STOPPED
    assert flows(peer) == [(1, False)], "and it is not answered"
    peer.call(1, m.BasicQos(0, 1), m.BasicQosOk)
    peer.say(1, m.BasicConsume("q", "t"))
    assert [one.body for one in peer.heard() if one.header] == [b"1"], "deliveries go on"
    clear(bed)
    peer.say(1, m.ChannelFlow(True))
    assert told(peer) is Told.FREE
    peer.heard()
    assert peer.call(1, m.ChannelFlow(False), m.ChannelFlowOk) == m.ChannelFlowOk(False), (
        "with nothing outstanding it is a request again"
    )


def test_scenario_60_consumers_untouched(bed: Bed, peer: Peer) -> None:
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("q", *(b"%d" % number for number in range(20)))
    alarm(bed)
    peer.say(1, m.ChannelFlowOk(False))
    assert flows(peer) == [(1, False)]
    peer.say(1, m.BasicGet("q"))
    assert [one.body for one in peer.heard()] == [b"0"]
    peer.call(1, m.BasicQos(0, 5), m.BasicQosOk)
    peer.say(1, m.BasicConsume("q", "t"))
    assert len([one for one in peer.heard() if one.header]) == 5
    for _ in range(2):
        peer.say(1, m.BasicAck(0, True))
        assert len(peer.bodies()) == 5
    assert peer.call(1, m.QueueDeclare("q", True), m.QueueDeclareOk).message_count == 4


def test_scenario_61_client_side_pause(bed: Bed) -> None:
    """[N]: as the specification says."""
    peer, other = bed.connect(channels=2), bed.connect("other")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.say(1, m.BasicConsume("q", "t", no_ack=True))
    peer.heard()
    other.publish("q", b"1", b"2")
    peer.say(1, m.ChannelFlow(False))
    heard = peer.heard()
    assert [one.body for one in heard[:2]] == [b"1", b"2"], "flow-ok stands behind the last one"
    assert heard[2:] == [Heard(1, m.ChannelFlowOk(False))]
    other.publish("q", *(b"%d" % number for number in range(3, 600)))
    assert peer.heard() == []
    peer.say(2, m.BasicGet("q", True))
    assert [one.body for one in peer.heard()] == [b"3"]
    peer.say(1, m.BasicGet("q", True))
    assert [one.body for one in peer.heard()] == [b"4"], "also on the paused channel"
    peer.say(1, m.ChannelFlow(True))
    heard = peer.heard()
    assert heard[0] == Heard(1, m.ChannelFlowOk(True))
    assert [one.body for one in heard if one.header] == [b"%d" % n for n in range(5, 600)]


@EMULATED
def test_scenario_61_client_side_pause_is_not_implemented(profile: str) -> None:
    """[R >= 3.3]."""
    bed = Bed(profile=profile)
    peer = bed.connect()
    assert peer.call(1, m.ChannelFlow(True), m.ChannelFlowOk) == m.ChannelFlowOk(True)
    peer.say(1, m.ChannelFlow(False))
    close = peer.one(m.ConnectionClose)
    assert (close.reply_code, close.reply_text) == (540, "NOT_IMPLEMENTED - active=false")
    assert (close.class_id, close.method_id) == (20, 20)


@pytest.mark.parametrize("capabilities", [ALL_CAPABILITIES, OPTED_IN], ids=["plain", "opted in"])
def test_scenario_62_unsolicited_flow_ok(capabilities: tuple[str, ...], bed: Bed) -> None:
    peer = bed.connect(capabilities=capabilities)
    for is_active in (True, False):
        peer.say(1, m.ChannelFlowOk(is_active))
    assert peer.heard() == []
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)


# -- a hold of one channel -----------------------------------------------------------------------


def held_by_depth(bed: Bed, peer: Peer, channel: int = 1) -> None:
    """Publish to a queue above its depth mark until the channel waits."""
    peer.call(channel, m.QueueDeclare("orders"), m.QueueDeclareOk)
    peer.publish("orders", *([b"x" * 5000] * 3000), channel=channel)
    assert bed.broker.vhosts["/"].queues["orders"].is_deep


def drain(bed: Bed) -> None:
    bed.broker.vhosts["/"].queues["orders"].purge()
    bed.run()


def drain_all(bed: Bed, peer: Peer) -> None:
    """Until everything the peer has said is in the queue, and gone."""
    before = -1
    queue = bed.broker.vhosts["/"].queues["orders"]
    while before < queue.messages.publish_count:
        before = int(queue.messages.publish_count)
        drain(bed)
        peer.read_on()


def test_scenario_71_flow_is_silent() -> None:
    """[R], and [N] without having asked for more: no notice, however long it lasts."""
    for profile in ("penstock", "rabbitmq-4"):
        bed = Bed(profile=profile, queue_depth_bytes=1_000_000)
        peer = bed.connect()
        peer.call(1, m.QueueDeclare("orders"), m.QueueDeclareOk)
        peer.publish("orders", *([b"x" * 5000] * 3000))
        pass_time(bed, 30)
        assert peer.heard() == []


def test_scenario_71_sustained_hold_is_told() -> None:
    """[N]: connection.blocked after T with the queue's name; unblocked when it is over."""
    bed = Bed(queue_depth_bytes=1_000_000, notify_blocked_ms=2000)
    peer = bed.connect()
    held_by_depth(bed, peer)
    pass_time(bed, 1.9)
    assert peer.heard() == []
    pass_time(bed, 0.2)
    assert peer.one(m.ConnectionBlocked).reason == (
        "held for room in queue /orders since 2.0 s; see penstock why connection peer"
    )
    pass_time(bed, 10)
    assert peer.heard() == []
    drain_all(bed, peer)
    pass_time(bed, 0.1)
    assert isinstance(peer.one(m.ConnectionUnblocked), m.ConnectionUnblocked)
    bed.settle()


def test_scenario_71_short_stops_are_silent() -> None:
    """[N]: a hold that ends before T is not told, however many there are."""
    bed = Bed(queue_depth_bytes=1_000_000, notify_blocked_ms=2000)
    peer = bed.connect()
    held_by_depth(bed, peer)
    for _ in range(4):
        pass_time(bed, 1.5)
        drain(bed)
        peer.read_on()
    assert peer.heard() == []


def test_scenario_71_an_alarm_joins() -> None:
    """One pair of messages, whatever the causes (118)."""
    bed = Bed(queue_depth_bytes=1_000_000, notify_blocked_ms=1000, parked_bytes=1)
    peer = bed.connect(channels=2)
    held_by_depth(bed, peer)
    pass_time(bed, 2)
    assert isinstance(peer.one(m.ConnectionBlocked), m.ConnectionBlocked)
    alarm(bed)
    peer.unread = b""
    drain(bed)
    pass_time(bed, 2)
    kinds = [type(one.method) for one in peer.heard()]
    clear(bed)
    drain_all(bed, peer)
    pass_time(bed, 1)
    kinds += [type(one.method) for one in peer.heard()]
    assert kinds[-1] is m.ConnectionUnblocked
    assert all(a is not b for a, b in itertools.pairwise(kinds))


def test_a_setting_switches_the_notice_off_and_takes_it_back() -> None:
    bed = Bed(queue_depth_bytes=1_000_000)
    peer = bed.connect()
    held_by_depth(bed, peer)
    pass_time(bed, 10)
    assert peer.heard() == []
    assert bed.broker.settings.write("notify.blocked", "500ms") == ("off", "500ms")
    pass_time(bed, 0.2)
    assert isinstance(peer.one(m.ConnectionBlocked), m.ConnectionBlocked)
    bed.broker.settings.write("notify.blocked", "off")
    bed.run()
    assert isinstance(peer.one(m.ConnectionUnblocked), m.ConnectionUnblocked)


def test_one_channels_hold_is_told_to_that_channel() -> None:
    """channel.flow for a stall: the only signal of 0-9-1 for one channel."""
    bed = Bed(queue_depth_bytes=1_000_000, parked_bytes=1)
    peer = opted_in(bed, 2)
    held_by_depth(bed, peer, channel=2)
    pass_time(bed, 1.9)
    assert flows(peer) == []
    pass_time(bed, 0.3)
    assert flows(peer) == [(2, False)]
    drain_all(bed, peer)
    peer.say(2, m.ChannelFlowOk(False))
    pass_time(bed, 0.1)
    assert flows(peer) == [(2, True)]
    peer.say(2, m.ChannelFlowOk(True))
    assert told(peer, 2) is Told.FREE
    bed.settle()


# -- storms --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_scenario_118_signal_pairing(seed: int) -> None:
    """1 000 transitions of alarms and holds: strictly alternating, and open at the end."""
    dice = random.Random(seed)
    bed = Bed(queue_depth_bytes=1_000_000, notify_blocked_ms=200)
    peers = [opted_in(bed, 2), bed.connect("other", capabilities=ALL_CAPABILITIES)]
    peers[0].call(1, m.QueueDeclare("orders"), m.QueueDeclareOk)
    kinds: dict[str, list[type]] = {peer.connection.name: [] for peer in peers}
    told_flow: dict[tuple[str, int], list[bool]] = {}

    def listen() -> None:
        for peer in peers:
            peer.read_on()
            for one in peer.heard():
                if isinstance(one.method, m.ChannelFlow):
                    key = (peer.connection.name, one.channel)
                    told_flow.setdefault(key, []).append(one.method.active)
                    if dice.random() < 0.8:
                        peer.say(one.channel, m.ChannelFlowOk(one.method.active))
                else:
                    kinds[peer.connection.name].append(type(one.method))

    for _ in range(1000):
        deed = dice.randrange(6)
        if deed < 2:
            alarm(bed, dice.choice(("memory", "disk")))
        elif deed < 4:
            clear(bed, dice.choice(("memory", "disk")))
        elif deed == 4:
            peer = dice.choice(peers)
            if not peer.unread:
                peer.publish("orders", *([b"x" * 5000] * 20))
        else:
            drain(bed)
        if dice.random() < 0.3:
            pass_time(bed, dice.choice((0.1, 0.3)))
        listen()
    for _ in range(3):
        for resource in ("memory", "disk"):
            clear(bed, resource)
        drain(bed)
        for peer in peers:
            peer.read_on()
        pass_time(bed, 11)
        listen()
    for name, heard in kinds.items():
        assert heard == [m.ConnectionBlocked, m.ConnectionUnblocked] * (len(heard) // 2), name
        assert len(heard) > 20
    for key, bits in told_flow.items():
        assert bits == [False, True] * (len(bits) // 2), key
    assert all(peer.connection.gate.is_open for peer in peers)
    drain(bed)
    bed.settle()


def test_ten_thousand_flips_leave_nothing() -> None:
    """[N]: what a flip leaves behind does not add up: the interpreter holds as many blocks of
    memory after the last thousand as after the first."""
    bed = Bed(recorder_events=16)
    peer = opted_in(bed)
    sizes: list[int] = []
    for _ in range(10):
        for _ in range(1000):
            alarm(bed)
            peer.say(1, m.ChannelFlowOk(False))
            clear(bed)
            peer.say(1, m.ChannelFlowOk(True))
            assert flows(peer) == [(1, False), (1, True)]
        bed.log.lines.clear()
        gc.collect()
        sizes.append(sys.getallocatedblocks())
    assert sizes[-1] - sizes[0] < 500, sizes
