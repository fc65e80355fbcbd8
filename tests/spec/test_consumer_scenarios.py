"""Scenarios 65, 76, 83, 86, 89, 90 and 91 of flow-semantics 19: what consumers are given, and when
they are given up. [R] runs under rabbitmq-3.5 and rabbitmq-4, [N] under penstock."""

import asyncio
import os
import select
import socket
from collections.abc import Iterator

import pytest

from penstock.base.clock import ManualClock
from penstock.base.config import Config
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor
from penstock.flow.profile import PENSTOCK
from penstock.protocol import methods as m
from penstock.protocol.heartbeat import Heartbeat
from penstock.protocol.values import Table
from penstock.server.net.poller import READ, EpollPoller, Watched
from penstock.server.net.stall_timeout import StallTimeout, stall_timeout_ms, watch_host
from penstock.telemetry.events import GATE_CLOSED
from tests.spec.stage import Stage
from tests.unit.broker.peer import MS, READ_BYTES, Bed, Heard, LogBook, Peer, SeededChance, publish

EMULATED = pytest.mark.parametrize("profile", ["rabbitmq-3.5", "rabbitmq-4"])
S = 1000 * MS


def declare(peer: Peer, *names: str) -> None:
    for name in names:
        peer.call(1, m.QueueDeclare(name), m.QueueDeclareOk)


def queue(bed: Bed, name: str = "q") -> QueueActor:
    return bed.broker.vhosts["/"].queues[name]


def given(heard: list[Heard]) -> list[bytes]:
    return [one.body for one in heard if one.header]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


# -- 65 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["penstock", "rabbitmq-3.5", "rabbitmq-4"])
def test_scenario_65_client_buffering(profile: str) -> None:
    """Without prefetch deliveries go on until TCP stops; with prefetch 10 never more than 10."""
    bed = Bed(profile=profile)
    peer = bed.connect()
    declare(peer, "q")
    peer.publish("q", *numbered(20_000))
    eager, modest, stuck = bed.connect("eager"), bed.connect("modest"), bed.connect("stuck")
    modest.call(1, m.BasicQos(0, 10), m.BasicQosOk)
    modest.say(1, m.BasicConsume("q", "t"))
    assert len(given(modest.heard())) == 10
    stuck.take(5000)
    stuck.say(1, m.BasicConsume("q", "t"))
    assert queue(bed).messages.deliver_count < 1000, "TCP has stopped it"
    eager.say(1, m.BasicConsume("q", "t"))
    assert len(given(eager.heard())) > 19_000, "they are all at the client"
    for _ in range(50):
        modest.say(1, m.BasicAck(0, True))
        assert modest.connection.channels[1].table.count <= 10


# -- 76 ------------------------------------------------------------------------------------------


def test_scenario_76_heartbeat_of_a_blocked_client() -> None:
    """Five minutes without reading: the peer's silence counts for nothing, ours goes on."""
    heartbeat = Heartbeat(10, 0)
    heartbeat.pause()
    sent = 0
    for second in range(300):
        assert not heartbeat.is_peer_dead(second * S)
        if heartbeat.is_send_due(second * S):
            heartbeat.sent(second * S)
            sent += 1
    assert sent == 59
    heartbeat.resume(300 * S)
    assert not heartbeat.is_peer_dead(319 * S)
    assert heartbeat.is_peer_dead(320 * S)


def test_scenario_76_client_that_reads_is_not_closed() -> None:
    """[N]: as long as its socket takes something, however slowly."""
    patience = StallTimeout()
    for second in range(300):
        assert not patience.is_over("c", 1_000_000, second // 20, 10, second * S)


def test_scenario_76_vanished_host() -> None:
    """[N]: the kernel gives up a host that acknowledges nothing, 25 s after the last heartbeat,
    which is sent every 5 s; one that is alive and takes nothing is given up in the same time."""
    with socket.socket() as sock:
        watch_host(sock, 10)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 25_000
        probes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        every = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
        first = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        assert first + probes * every <= 30
        watch_host(sock, 0)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0
    assert stall_timeout_ms(10) / 1000 + 5 <= 30
    assert stall_timeout_ms(60) == 120_000
    patience = StallTimeout()
    over = [second for second in range(60) if patience.is_over("c", 1, 0, 10, second * S)]
    assert over[0] == 25
    patience = StallTimeout()
    assert not any(patience.is_over("c", 1, 0, 0, second * S) for second in range(10_000))


# -- 83 ------------------------------------------------------------------------------------------


def test_scenario_83_confirm_window() -> None:
    """A publisher that limits itself to 20 in flight at a queue that takes five at a time: no more
    than 20 of its messages are under way, and nobody is ever held."""
    stage = Stage(PENSTOCK)
    hand = stage.connect()[0]
    hand.say(m.ConfirmSelect()).settle()
    stage.park("queue:/q1")
    session = hand.client.session
    sent = 0
    seen = stage.broker.recorder.next_seq
    while sent < 500:
        window = 20 - session.unconfirmed(hand.channel)
        hand.publish("q1", window)
        sent += window
        stage.settle()
        assert stage.queue_lane(hand, "q1").in_flight == 20
        stage.step("queue:/q1", 5)
        stage.settle()
    kinds = [one.kind for one in stage.broker.recorder.since(seen)]
    assert GATE_CLOSED not in kinds
    assert stage.connection(hand.client).state(stage.world.clock.now_ns) == "running"


# -- 86 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["penstock", "rabbitmq-3.5", "rabbitmq-4"])
def test_scenario_86_auto_ack_with_a_stalled_socket(profile: str) -> None:
    bed = Bed(profile=profile)
    peer, consumer = bed.connect(), bed.connect("consumer", channels=2)
    declare(peer, "q", "r")
    for name in ("q", "r"):
        peer.publish(name, *numbered(2000))
    consumer.take(0)
    for channel, name in ((1, "q"), (1, "r"), (2, "q")):
        consumer.say(channel, m.BasicConsume(name, f"{name}{channel}", no_ack=True))
    for channel, name, count in ((1, "q", 400), (1, "r", 200)):
        assert consumer.connection.channels[channel].unsent[name].count == 200
        assert queue(bed, name).messages.deliver_count == count
    assert queue(bed, "q").messages.ready_count() == 1600, "the queue keeps the rest"
    consumer.take()
    for name in ("q", "r"):
        assert queue(bed, name).messages.ready_count() == 0
    assert len(given(consumer.heard())) == 4000


def test_scenario_86_bound_in_bytes(bed: Bed) -> None:
    """[N]: large messages stop at the output's high mark, long before there are 200."""
    peer, consumer = bed.connect(), bed.connect("consumer")
    declare(peer, "q")
    peer.publish("q", *([b"x" * 50_000] * 50))
    consumer.take(0)
    consumer.say(1, m.BasicConsume("q", "t", no_ack=True))
    held = consumer.output.pending_bytes_max
    assert held < bed.broker.config.socket_output_high_bytes + 60_000
    assert queue(bed).messages.ready_count() >= 43
    consumer.take()
    assert len(given(consumer.heard())) == 50


# -- 89 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["penstock", "rabbitmq-3.5", "rabbitmq-4"])
@pytest.mark.parametrize(("is_global", "each", "together"), [(False, 10, 20), (True, 10, 10)])
def test_scenario_89_both_meanings_of_global(
    profile: str, is_global: bool, each: int, together: int
) -> None:
    bed = Bed(profile=profile)
    peer = bed.connect()
    declare(peer, "q", "r")
    for name in ("q", "r"):
        peer.publish(name, *numbered(100))
    peer.call(1, m.BasicQos(0, 10, is_global), m.BasicQosOk)
    for name in ("q", "r"):
        peer.say(1, m.BasicConsume(name, name))
    consumers = peer.connection.channels[1].consumers.values()
    assert all(one.unacked <= each for one in consumers)
    assert sum(int(one.unacked) for one in consumers) == together
    for _ in range(30):
        tags = [one.method.delivery_tag for one in peer.heard() if one.header]  # type: ignore[attr-defined]  # they are deliveries
        peer.say(1, m.BasicAck(tags[len(tags) // 2], True) if tags else m.BasicAck(0, True))
        assert all(one.unacked <= each for one in consumers)
        assert sum(int(one.unacked) for one in consumers) <= together


@EMULATED
def test_scenario_89_byte_prefetch_is_not_implemented(profile: str) -> None:
    bed = Bed(profile=profile)
    peer = bed.connect()
    peer.say(1, m.BasicQos(1000, 0))
    close = peer.one(m.ConnectionClose)
    assert (close.reply_code, close.reply_text) == (
        540,
        "NOT_IMPLEMENTED - prefetch_size!=0 (1000)",
    )


@pytest.mark.parametrize("is_global", [False, True])
def test_scenario_89_byte_prefetch(is_global: bool, bed: Bed, peer: Peer) -> None:
    """[N]: what fits, and one always when nothing is unanswered."""
    declare(peer, "q")
    sizes = [400, 400, 300, 5000, 10, 990, 1]
    peer.publish("q", *(b"x" * size for size in sizes))
    peer.call(1, m.BasicQos(1000, 0, is_global), m.BasicQosOk)
    peer.say(1, m.BasicConsume("q", "t"))

    def next_sizes() -> list[int]:
        return [len(body) for body in given(peer.heard())]

    assert next_sizes() == [400, 400], "the third would be 1100"
    peer.say(1, m.BasicAck(1, False))
    assert next_sizes() == [300]
    peer.say(1, m.BasicAck(3, True))
    assert next_sizes() == [5000], "alone it may be larger than the window"
    peer.say(1, m.BasicNack(4, False, True))
    assert next_sizes() == [5000]
    peer.say(1, m.BasicReject(5, False))
    assert next_sizes() == [10, 990]
    peer.say(1, m.BasicAck(0, True))
    assert next_sizes() == [1]
    sink = peer.connection.channels[1].sink
    assert (sink.unacked_count, sink.unacked_bytes) == (1, 1)
    peer.say(1, m.BasicCancel("t"), m.BasicNack(0, True, True))
    assert (sink.unacked_count, sink.unacked_bytes) == (0, 0)
    assert queue(bed).messages.ready_count() == 1


def test_scenario_89_byte_prefetch_together_and_apart() -> None:
    """[N]: 1000 bytes each for two consumers, and 1000 bytes for both."""
    for is_global, count in ((False, 20), (True, 10)):
        bed = Bed()
        peer = bed.connect()
        declare(peer, "q")
        peer.publish("q", *([b"x" * 100] * 100))
        peer.call(1, m.BasicQos(1000, 0, is_global), m.BasicQosOk)
        for tag in ("a", "b"):
            peer.say(1, m.BasicConsume("q", tag))
        assert len(given(peer.heard())) == count
        peer.say(1, m.ChannelClose(200, "", 0, 0))
        assert queue(bed).messages.ready_count() == 100
        assert queue(bed).unacked_bytes == 0


# -- 90 ------------------------------------------------------------------------------------------


def seconds(bed: Bed, count: int) -> None:
    """Time, with the broker's once-a-second work."""
    for _ in range(count):
        bed.clock.advance(S)
        bed.broker.consumer_timeout.tick(bed.clock.monotonic_ns())
    bed.run()


@pytest.mark.parametrize("profile", ["penstock", "rabbitmq-4"])
def test_scenario_90_consumer_timeout(profile: str) -> None:
    bed = Bed(profile=profile)
    peer = bed.connect(channels=2)
    declare(peer, "q")
    peer.publish("q", b"1", b"2")
    seconds(bed, 7)
    peer.call(1, m.BasicQos(0, 1), m.BasicQosOk)
    peer.say(1, m.BasicConsume("q", "t"))
    assert given(peer.heard()) == [b"1"]
    seconds(bed, 1800)
    assert peer.heard() == []
    seconds(bed, 62)
    assert peer.one(m.ChannelClose) == m.ChannelClose(
        406,
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value "
        "used: 1800000 ms. This timeout value can be configured, see consumers doc guide to learn "
        "more",
        0,
        0,
    )
    assert queue(bed).messages.ready_count() == 2
    peer.say(2, m.BasicGet("q", True))
    assert given(peer.heard()) == [b"1"], "the other channel lives"
    assert sum("has not been acknowledged" in line for line in bed.log.lines) == 1


def test_scenario_90_whoever_answers_in_time_stays() -> None:
    bed = Bed(consumer_timeout_ms=100_000)
    peer = bed.connect()
    declare(peer, "q")
    peer.publish("q", *numbered(40))
    peer.call(1, m.BasicQos(0, 3), m.BasicQosOk)
    peer.say(1, m.BasicConsume("q", "t"))
    for tag in range(1, 31):
        seconds(bed, 30)
        peer.say(1, m.BasicAck(tag, False))
    assert not [one for one in peer.heard() if isinstance(one.method, m.ChannelClose)]


def test_scenario_90_a_queues_own_timeout_and_none(bed: Bed) -> None:
    """[N], as RabbitMQ since 3.12: x-consumer-timeout; 0 and the setting `off` never time out."""
    peer = bed.connect(channels=3)
    assert bed.broker.settings.write("consumer.timeout", "1m") == ("30m", "1m")
    for number, timeout_ms in ((1, 600_000), (2, 0)):
        arguments: Table = {"x-consumer-timeout": timeout_ms}
        peer.call(number, m.QueueDeclare(f"q{number}", arguments=arguments), m.QueueDeclareOk)
    peer.call(3, m.QueueDeclare("q3"), m.QueueDeclareOk)
    for number in (1, 2, 3):
        peer.publish(f"q{number}", b"1")
        peer.say(number, m.BasicGet(f"q{number}"))
    peer.heard()
    seconds(bed, 122)
    assert [one.channel for one in peer.heard()] == [3]
    seconds(bed, 600)
    assert [one.channel for one in peer.heard()] == [1]
    seconds(bed, 4000)
    assert peer.heard() == []
    bed.broker.settings.write("consumer.timeout", "off")


def test_scenario_90_an_argument_that_is_no_time(peer: Peer) -> None:
    peer.say(1, m.QueueDeclare("q", arguments={"x-consumer-timeout": -1}))
    assert "x-consumer-timeout" in peer.one(m.ChannelClose).reply_text


# -- 91 ------------------------------------------------------------------------------------------


class TickingClock(ManualClock):
    """Every look at it takes 20 microseconds, so that slices end."""

    def monotonic_ns(self) -> int:
        self.advance(20_000)
        return super().monotonic_ns()


class TickingBed(Bed):
    """A broker whose time passes while it works."""

    def __init__(self) -> None:
        self.clock = TickingClock()
        self.log = LogBook()
        config = Config(queue_depth_bytes=1 << 30)
        self.broker = Broker(config, self.clock, SeededChance(1), self.log, 1 << 30)


class FullSocket(Watched):
    """A publisher whose socket never runs empty."""

    def __init__(self, peer: Peer, poller: EpollPoller, data: bytes) -> None:
        self.peer = peer
        self.poller = poller
        self.data = data

    def readable(self) -> bool:
        if not self.peer.connection.can_receive():
            return False
        self.poller.is_more_likely = True
        self.poller.has_backlog = True
        self.peer.connection.receive(self.data)
        return True

    def pause_if_stuck(self) -> None:
        """It is asked again in the next round."""


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="the rule stands in the epoll poller")
@pytest.mark.parametrize("body_bytes", [20, 1000, 20_000])
def test_scenario_91_consumer_bias(loop: asyncio.AbstractEventLoop, body_bytes: int) -> None:
    """[N]: while a backlog is drained at full speed and a publisher's socket is full, one publish
    is taken for every two deliveries at least, and deliveries go on. (A backlog of 8 MB.)"""
    bed = TickingBed()
    peer, consumer = bed.connect(), bed.connect("consumer")
    declare(peer, "q")
    one = publish(1, "", "q", b"x" * body_bytes)
    backlog = 8_000_000 // len(one)
    peer.send(one * backlog)
    messages = queue(bed).messages
    assert messages.ready_count() == backlog
    consumer.take(0)
    consumer.say(1, m.BasicConsume("q", "t", no_ack=True))
    poller = EpollPoller(loop, bed.broker.scheduler)
    ours, theirs = os.pipe()
    os.write(theirs, b"1")
    poller.epoll.register(ours, READ)
    poller.watched[ours] = FullSocket(peer, poller, one * max(1, READ_BYTES // len(one)))
    published, delivered = int(messages.publish_count), int(messages.deliver_count)
    try:
        consumer.output.room_bytes = -1
        consumer.output.mark()
        for _ in range(10):
            poller.ready()
            consumer.output.sent.clear()
    finally:
        poller.close()
        os.close(ours)
        os.close(theirs)
    published = int(messages.publish_count) - published
    delivered = int(messages.deliver_count) - delivered
    assert messages.ready_count() > 0, "the backlog has lasted"
    assert delivered > 100
    assert 2 * published >= 0.9 * delivered, (published, delivered)
