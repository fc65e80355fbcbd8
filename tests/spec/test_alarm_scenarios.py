"""Scenarios of alarms and watermarks by their numbers: 63, 64, 66 to 70, 72 to 75, 115, 118.

[R] is what RabbitMQ's profiles do, [N] what ours does. Of 66 only `immediate` exists so far; 115
has no internal publisher yet but the channel that moves publishes for others.
"""

import random

import pytest

from penstock.flow.watermark import next_look_ms
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import encode_method
from tests.unit.broker.alarm_bed import MB, AlarmBed, kinds
from tests.unit.broker.peer import Peer, frame, header

BOTH = pytest.mark.parametrize("profile", ["penstock", "rabbitmq-4", "rabbitmq-3.5"])
EMULATED = pytest.mark.parametrize("profile", ["rabbitmq-4", "rabbitmq-3.5"])


def consumer(bed: AlarmBed, queue: str) -> Peer:
    peer = bed.connect("consumer")
    peer.say(1, m.BasicConsume(queue, "t", no_ack=True))
    return peer


def all_mode(bed: AlarmBed) -> AlarmBed:
    bed.change("alarm.mode", "all")
    return bed


@BOTH
def test_scenario_63_watermark_lowered_at_run_time(profile: str) -> None:
    """At once, without waiting for the look of the next second."""
    bed = AlarmBed(profile=profile)
    peer = bed.publisher("p", "q")
    bed.use(300 * MB)
    bed.log.lines.clear()
    bed.change("memory.high", "5%")
    assert len(bed.log.lines) == 1 and bed.log.lines[0].startswith("memory alarm: 300.00/50.00 MB")
    peer.publish("q", *(b"%d" % number for number in range(10)))
    assert kinds(peer) == [m.ConnectionBlocked] and bed.ready("q") == 1
    eater = bed.connect("consumer")
    eater.say(1, m.BasicConsume("q", "t", no_ack=True))
    assert kinds(eater) == [m.BasicConsumeOk, m.BasicDeliver], "consumers go on"
    bed.change("memory.high", "95%")
    peer.read_on()
    assert kinds(peer) == [m.ConnectionUnblocked]
    assert len(eater.bodies()) == 10
    bed.settle()


@BOTH
def test_scenario_64_zero_blocks_all_publishing_until_it_is_changed(profile: str) -> None:
    bed = AlarmBed(profile=profile)
    peer = bed.publisher("p", "q")
    bed.change("memory.high", "0")
    peer.publish("q", b"held")
    for _ in range(100):
        bed.use(1)
    late = bed.publisher("late", "q")
    assert kinds(peer) == [m.ConnectionBlocked] and kinds(late) == [m.ConnectionBlocked]
    assert bed.ready("q") == 1
    bed.change("memory.high", "40%")
    assert bed.ready("q") == 3
    bed.settle()


def test_scenario_66_immediate_is_not_implemented() -> None:
    bed = AlarmBed()
    peer = bed.connect("p")
    method = encode_method(m.BasicPublish("", "q", False, True))
    peer.send(frame(1, 1, method), frame(2, 1, header(0)))
    assert peer.one(m.ConnectionClose).reply_code == 540


def test_scenario_67_targeted_stops_the_one_above_its_share_alone() -> None:
    """[N] A fills a parked queue, B's goes on: B does exactly what it does without A's alarm."""

    def passed(is_alarmed: bool) -> int:
        bed = AlarmBed()
        a = bed.publisher("a", "parked", 3 * MB)
        b = bed.publisher("b", "fast")
        eater = consumer(bed, "fast")
        if is_alarmed:
            bed.squeeze()
            a.publish("parked", b"x")
            assert kinds(a) == [m.ConnectionBlocked]
        for _ in range(500):
            b.publish("fast", b"x" * 1000)
        assert b.heard() == []
        return len([one for one in eater.heard() if one.body])

    assert passed(True) == passed(False) == 501


@BOTH
def test_scenario_68_alarm_names(profile: str) -> None:
    bed = all_mode(AlarmBed(profile=profile))
    busy, idle = bed.publisher("busy", "q"), bed.publisher("idle", "q")
    eater = consumer(bed, "q")
    bed.broker.set_alarm("memory", "low")
    busy.publish("q", b"x")
    assert (bed.state(busy), bed.state(idle)) == ("blocked", "blocking")
    eater.say(1, m.BasicQos(0, 5, False))
    assert bed.state(eater) != "blocked"
    bed.broker.clear_alarm("memory")
    bed.run()
    bed.clock.advance(2_000_000_000)
    assert {bed.state(one) for one in (busy, idle, eater)} == {"running"}


def publish_five(bed: AlarmBed, body: bytes) -> tuple[int, int]:
    """How many of five are in the queue during the alarm, and after it."""
    peer = bed.connect("p")
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    bed.broker.set_alarm("memory", "low")
    assert bed.state(peer) == "blocking"
    peer.publish("q", *(body and body + b"%d" % number for number in range(5)))
    during = bed.ready("q")
    assert kinds(peer) == [m.ConnectionBlocked]
    bed.broker.clear_alarm("memory")
    peer.read_on()
    assert kinds(peer) == [m.ConnectionUnblocked]
    after = bed.ready("q")
    if body:
        bodies = [
            item.body() for item in bed.broker.vhosts["/"].queues["q"].messages.ready_messages()
        ]
        assert bodies == [body + b"%d" % number for number in range(5)], "all five, in order"
    bed.settle()
    return during, after


@EMULATED
def test_scenario_69_r_one_empty_message_slips_in(profile: str) -> None:
    """[R] The header of an empty message is already all of it."""
    assert publish_five(all_mode(AlarmBed(profile=profile)), b"") == (1, 5)
    assert publish_five(all_mode(AlarmBed(profile=profile)), b"body") == (0, 5)


def test_scenario_69_n_nothing_slips_in() -> None:
    """[N] A publish is held whole, with a body or without."""
    assert publish_five(all_mode(AlarmBed()), b"") == (0, 5)
    assert publish_five(all_mode(AlarmBed()), b"body") == (0, 5)


@BOTH
def test_scenario_70_blocked_once_per_episode(profile: str) -> None:
    """Both forms send no second connection.blocked: clients count them in pairs (118)."""
    bed = all_mode(AlarmBed(profile=profile))
    peer = bed.publisher("p", "q")
    silent = bed.connect("silent", capabilities=())
    bed.broker.set_alarm("memory", "low")
    for one in (peer, silent):
        one.publish("q", b"x")
    assert peer.one(m.ConnectionBlocked).reason.startswith("low on memory")
    bed.broker.set_alarm("disk", "low")
    bed.run()
    bed.broker.clear_alarm("memory")
    bed.run()
    assert peer.heard() == [] and bed.state(peer) == "blocked"
    assert bed.broker.alarm_reason().startswith("low on disk")
    bed.broker.clear_alarm("disk")
    bed.run()
    assert kinds(peer) == [m.ConnectionUnblocked]
    assert silent.heard() == []


@BOTH
def test_scenario_72_cluster_union(profile: str) -> None:
    bed = all_mode(AlarmBed(profile=profile))
    peer = bed.publisher("p", "q")
    for node in ("n2", "n3"):
        bed.manager.node_up(node, ())
    bed.manager.set("memory", "low", None, "n2")
    bed.manager.set("memory", "low", None, "n3")
    peer.publish("q", b"x")
    assert kinds(peer) == [m.ConnectionBlocked]
    bed.manager.clear("memory", "n2")
    bed.run()
    assert bed.state(peer) == "blocked" and peer.heard() == []
    bed.manager.node_down("n3")
    bed.run()
    assert kinds(peer) == [m.ConnectionUnblocked] and bed.ready("q") == 2
    bed.manager.set("memory", "low", None, "n3")
    bed.run()
    assert bed.alarms() == [], "the dead have no alarms"


@BOTH
def test_scenario_73_register_during_alarm(profile: str) -> None:
    bed = all_mode(AlarmBed(profile=profile))
    bed.broker.set_alarm("disk", "low")
    peer = bed.connect("late")
    assert bed.state(peer) == "blocking" and peer.heard() == []


@EMULATED
def test_scenario_74_r_strict_and_without_a_band(profile: str) -> None:
    bed = AlarmBed(profile=profile)
    bed.use(400 * MB)
    assert bed.alarms() == []
    bed.use(400 * MB + 1)
    assert bed.alarms() == ["alarm:memory"]
    bed.use(400 * MB)
    assert bed.alarms() == []


def test_scenario_74_n_strict_and_with_a_band() -> None:
    bed = AlarmBed()
    bed.use(400 * MB)
    assert bed.alarms() == []
    bed.use(400 * MB + 1)
    assert bed.alarms() == ["alarm:memory"]
    bed.use(360 * MB)
    assert bed.alarms() == ["alarm:memory"]
    bed.use(360 * MB - 1)
    assert bed.alarms() == []
    bed.log.lines.clear()
    for second in range(60):
        bed.use((404 if second % 2 else 396) * MB)
    assert len([line for line in bed.log.lines if line.startswith("memory alarm: ")]) == 1


def test_scenario_75_disk_poll() -> None:
    bed = AlarmBed()
    limit = 50 * MB
    assert bed.leave(limit + 1000 * MB) == 8_000
    assert bed.leave(limit + 10 * MB) == 100
    assert bed.leave(limit - 1) == 10_000 and bed.alarms() == ["alarm:disk"]
    assert next_look_ms(limit + 10 * MB, limit, False) == 100


def test_scenario_115_a_channel_that_moves_messages_stops_with_its_connection() -> None:
    """What stands for an internal publisher today: consume and publish on one connection. Its
    publishes stop at once, its acks are still read."""
    bed = all_mode(AlarmBed())
    bed.publisher("source", "from")
    mover = bed.connect("mover")
    mover.call(1, m.QueueDeclare("to"), m.QueueDeclareOk)
    mover.say(1, m.BasicConsume("from", "t"))
    assert kinds(mover) == [m.BasicConsumeOk, m.BasicDeliver]
    bed.broker.set_alarm("memory", "low")
    mover.publish("to", b"moved")
    mover.say(1, m.BasicAck(1, False))
    assert bed.ready("to") == 0
    assert bed.broker.vhosts["/"].queues["from"].unacked_count == 0
    bed.broker.clear_alarm("memory")
    bed.run()
    assert bed.ready("to") == 1


@BOTH
@pytest.mark.parametrize("seed", range(3))
def test_scenario_118_signal_pairing(profile: str, seed: int) -> None:
    """1,000 random transitions of both alarms, the hop and other nodes' deaths."""
    bed = AlarmBed(profile=profile)
    chance = random.Random(seed)
    peers = [bed.publisher(f"p{number}", "q") for number in range(3)]
    eater = consumer(bed, "q")
    actor = bed.broker.vhosts["/"].queues["q"]
    told: list[list[type[m.Method]]] = [[] for _ in peers]
    bed.manager.node_up("n2", ())
    deeds = (
        lambda: bed.use(chance.choice((100, 380, 410, 500)) * MB),
        lambda: bed.leave(chance.choice((10, 53, 500)) * MB),
        lambda: bed.change("alarm.mode", chance.choice(("targeted", "all"))),
        lambda: bed.manager.set("memory", "low", None, "n2"),
        lambda: bed.manager.clear("memory", "n2"),
        lambda: bed.manager.node_down("n2"),
        lambda: bed.manager.node_up("n2", chance.choice(((), ("disk",)))),
        lambda: actor.gate.close("store:/", "disk"),
        lambda: actor.gate.open("store:/", "disk"),
        lambda: chance.choice(peers).publish("q", b"x" * 1000),
        lambda: chance.choice(peers).publish("q", b""),
    )
    for _ in range(1000):
        chance.choice(deeds)()
        bed.run()
        for peer, heard in zip(peers, told, strict=True):
            heard += kinds(peer)
        eater.heard()
    bed.manager.node_down("n2")
    bed.use(100 * MB)
    bed.leave(500 * MB)
    actor.gate.open("store:/", "disk")
    for peer, heard in zip(peers, told, strict=True):
        peer.read_on()
        heard += kinds(peer)
        pair = [m.ConnectionBlocked, m.ConnectionUnblocked]
        assert heard == pair * (len(heard) // 2), "strictly in turn, unblocked at the end"
        assert len(heard) >= 10, "the storm was one"
        assert bed.state(peer) in ("running", "flow")
    bed.settle()
