"""The raw wire: opening, tuning, logging in, heartbeats, closing, and the order of answers."""

import select
import time
from collections.abc import Callable, Iterator

import pytest
from pamqp import body, header, heartbeat
from pamqp.commands import Basic, Channel, Confirm, Connection, Queue

from tests.conformance.live import Broker
from tests.conformance.peer import GONE, OK, Closed, Content, Outcome, Peer, outcome
from tests.conformance.steps import consume, put, q, raw
from tests.patience import PATIENCE_S, undisturbed

AMQPLAIN = "\x05LOGINS\x00\x00\x00\x05guest\x08PASSWORDS\x00\x00\x00\x05guest"


def refused(mechanism: str) -> Outcome:
    """What a client hears that said it wants to hear it."""
    text = f"ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}. "
    return Outcome("connection", 403, text + "For details see the broker logfile.")


def ending(broker: Broker, story: Callable[[Peer], object]) -> Outcome:
    """How the broker ends a connection on which `story` happens; OK if it stays usable."""
    with Peer(broker) as peer:
        try:
            story(peer)
            peer.call(Channel.Open(), 9)
        except Closed as closed:
            return closed.outcome
    return OK


def opened_with(
    channel_max: int = 2047, frame_bytes_max: int = 131072, heartbeat_s: int = 0, vhost: str = "/"
) -> Callable[[Peer], object]:
    """The handshake with these tune-ok values and this virtual host."""

    def story(peer: Peer) -> None:
        peer.start()
        peer.log_in()
        peer.send(0, Connection.TuneOk(channel_max, frame_bytes_max, heartbeat_s))
        peer.send(0, Connection.Open(vhost))
        peer.expect(Connection.OpenOk)

    return story


def logged_in(
    response: str, mechanism: str = "PLAIN", notify: bool = True
) -> Callable[[Peer], object]:
    """The handshake up to tune."""

    def story(peer: Peer) -> None:
        peer.start()
        peer.log_in(response, mechanism, {"authentication_failure_close": notify})
        peer.send(0, Connection.TuneOk(2047, 131072, 0))
        peer.send(0, Connection.Open("/"))
        peer.expect(Connection.OpenOk)

    return story


def started_with(*steps: Connection.TuneOk | Connection.Open | bytes) -> Callable[[Peer], object]:
    """Steps right after connection.start, in place of start-ok."""

    def story(peer: Peer) -> None:
        peer.start()
        for step in steps:
            peer.run(step) if isinstance(step, bytes) else peer.send(0, step)
        peer.receive()

    return story


# None: the connection ends. RabbitMQ hangs up without a word there, and only after three seconds.
HANDSHAKES: dict[str, tuple[Callable[[Peer], object], Outcome | None]] = {
    "as proposed": (opened_with(2047, 131072, 60), OK),
    "smallest frames": (opened_with(2047, 4096, 0), OK),
    "plain": (logged_in("\0guest\0guest"), OK),
    "amqplain": (logged_in(AMQPLAIN, "AMQPLAIN"), OK),
    "frames too small": (opened_with(frame_bytes_max=4095), None),
    "frames larger than proposed": (opened_with(frame_bytes_max=131073), None),
    "more channels than proposed": (opened_with(channel_max=2048), None),
    "unknown virtual host": (
        opened_with(vhost="nowhere"),
        Outcome("connection", 530, "NOT_ALLOWED - vhost nowhere not found"),
    ),
    "wrong password": (logged_in("\0guest\0wrong"), refused("PLAIN")),
    "unknown user": (logged_in("\0nobody\0guest"), refused("PLAIN")),
    "wrong password, not to be told": (logged_in("\0guest\0wrong", notify=False), GONE),
    "wrong password, amqplain": (
        logged_in(AMQPLAIN.replace("guest\x08", "guesx\x08"), "AMQPLAIN"),
        refused("AMQPLAIN"),
    ),
    "garbled plain": (logged_in("guest"), None),
    "unknown mechanism": (logged_in("\0guest\0guest", "MAGIC"), None),
    "tune-ok too early": (started_with(Connection.TuneOk(0, 0, 0)), None),
    "open too early": (started_with(Connection.Open("/")), None),
    "garbage instead of start-ok": (started_with(b"x" * 64), None),
}


@pytest.mark.parametrize(("story", "expected"), HANDSHAKES.values(), ids=HANDSHAKES)
def test_how_a_handshake_ends(
    broker: Broker, story: Callable[[Peer], object], expected: Outcome | None
) -> None:
    ended = ending(broker, story)
    assert ended.scope in ("connection", "gone") if expected is None else ended == expected


@pytest.mark.parametrize(
    "greeting",
    [b"AMQP\x00\x00\x08\x00", b"HTTP/1.1", b"AMQP\x09\x09\x09\x09"],
)
def test_another_protocol_is_answered_with_ours(broker: Broker, greeting: bytes) -> None:
    with Peer(broker) as peer:
        peer.send_bytes(greeting)
        assert peer.socket.recv(8) == b"AMQP\x00\x00\x09\x01"
        assert peer.is_gone()


def test_start_and_tune_offer_what_rabbitmq_offers(broker: Broker) -> None:
    with Peer(broker) as peer:
        started = peer.start()
        tuned = peer.log_in()
    assert (started.version_major, started.version_minor, started.locales) == (0, 9, "en_US")
    assert {"PLAIN", "AMQPLAIN"} <= set((started.mechanisms or "").split())
    assert (tuned.channel_max, tuned.frame_max, tuned.heartbeat) == (2047, 131072, 60)
    capabilities = peer.server_properties["capabilities"]
    for capability in (
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    ):
        assert capabilities[capability] is True
    for key in ("product", "version", "platform", "information"):
        assert peer.server_properties[key]


def test_the_negotiated_channel_number_is_the_last(broker: Broker) -> None:
    def story(peer: Peer) -> None:
        peer.open(channel_max=3, channels=3)
        peer.call(Channel.Open(), 4)

    expected = (
        "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)"
    )
    assert ending(broker, story) == Outcome("connection", 530, expected)


BEAT = raw(8, 0, b"")
LATE_S_MAX = 0.5
"""The broker is right to hang up when nothing came for two seconds."""


def beat_until(peer: Peer, beats: int) -> None:
    """Send heartbeats at the right moments until so many of the broker's have come."""
    end_s = time.monotonic() + PATIENCE_S
    while beats > 0:
        assert time.monotonic() < end_s, f"{beats} heartbeats never came"
        if select.select([peer.socket], [], [], 0.3)[0]:
            peer.expect(heartbeat.Heartbeat)
            beats -= 1
        peer.send_bytes(BEAT)


def test_the_broker_sends_heartbeats_and_hangs_up_without_ours(broker: Broker) -> None:
    """One second negotiated: a heartbeat comes soon, and silence ends in a closed socket."""

    def story() -> None:
        with Peer(broker) as peer:
            peer.open(heartbeat_s=1)
            beat_until(peer, 1)
            started = time.monotonic()
            peer.send_bytes(BEAT)
            with pytest.raises(Closed) as closed:
                while True:
                    peer.receive()
            silent_s = time.monotonic() - started
        assert closed.value.outcome == GONE
        assert 1.0 < silent_s < PATIENCE_S

    undisturbed(story, LATE_S_MAX, broker.pid)


def test_heartbeats_keep_a_connection(broker: Broker) -> None:
    def story() -> None:
        with Peer(broker) as peer:
            peer.open(heartbeat_s=1)
            beat_until(peer, 6)
            peer.call(Queue.Declare(exclusive=True))

    undisturbed(story, LATE_S_MAX, broker.pid)


@pytest.fixture
def peer(broker: Broker) -> Iterator[Peer]:
    """An open connection with one channel."""
    with Peer(broker) as opened:
        yield opened.open()


def test_close_is_answered(peer: Peer) -> None:
    peer.call(Channel.Close(200, "bye", 0, 0))
    peer.call(Channel.Open())
    peer.call(Connection.Close(200, "bye", 0, 0), 0)


def test_close_in_the_middle_of_a_publish(broker: Broker, name: str) -> None:
    """What was complete is kept, what was not is forgotten, and close-ok still comes."""
    with Peer(broker) as peer:
        peer.open()
        peer.run(q(name))
        peer.run(put("", name, b"whole"))
        peer.send(1, Basic.Publish(routing_key=name))
        peer.send(1, header.ContentHeader(0, 10, Basic.Properties()))
        peer.send(1, body.ContentBody(b"half"))
        peer.call(Connection.Close(200, "bye", 0, 0), 0)
    with Peer(broker) as peer:
        peer.open()
        assert peer.call(q(name, passive=True)).message_count == 1


def test_channel_close_in_the_middle_of_a_publish(broker: Broker, name: str) -> None:
    """Another method between header and body is wrong, also channel.close."""
    steps = [Basic.Publish(), Channel.Close(200, "bye", 0, 0)]
    assert outcome(broker, steps).code == 505


def test_a_hard_error_ends_all_channels(broker: Broker) -> None:
    with Peer(broker) as peer:
        peer.open(channels=3)
        peer.send(2, Basic.Recover(requeue=False))
        with pytest.raises(Closed, match="540"):
            peer.receive()
        assert peer.is_gone()


def test_a_soft_error_leaves_the_other_channels(broker: Broker, name: str) -> None:
    with Peer(broker) as peer:
        peer.open(channels=2)
        peer.send(1, q(name, passive=True))
        # Sent before the error was seen: ignored until close-ok.
        peer.send(1, Basic.Qos())
        with pytest.raises(Closed, match="404"):
            peer.receive()
        peer.call(q(name, exclusive=True), 2)
        peer.call(Channel.Open(), 1)
        peer.call(q(name, passive=True), 1)


def test_the_close_names_the_method_it_is_about(peer: Peer, name: str) -> None:
    peer.send(1, q(name, passive=True))
    _, value = peer._next()
    assert isinstance(value, Channel.Close)
    assert (value.class_id, value.method_id) == (50, 10)
    peer.send(1, Channel.CloseOk())
    peer.call(Channel.Open())
    peer.run(put("", name, immediate=True))
    _, value = peer._next()
    assert isinstance(value, Connection.Close)
    assert (value.class_id, value.method_id) == (60, 40)


def test_the_return_comes_before_its_confirm(peer: Peer, name: str) -> None:
    peer.call(Confirm.Select())
    for number in range(3):
        peer.run(put("", name, b"%d" % number, mandatory=True))
        returned = peer.content(Basic.Return)
        assert isinstance(returned.method, Basic.Return)
        assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
        assert returned.body == b"%d" % number
        assert peer.expect(Basic.Ack).delivery_tag == number + 1


def test_consume_ok_comes_before_the_first_delivery(peer: Peer, name: str) -> None:
    peer.run(q(name, exclusive=True))
    peer.run(put("", name, b"m"))
    assert peer.call(consume(name)).consumer_tag == "tag"
    delivered = peer.content()
    assert isinstance(delivered.method, Basic.Deliver)
    assert (delivered.method.delivery_tag, delivered.body) == (1, b"m")


def test_nothing_is_delivered_after_cancel_ok(broker: Broker, name: str) -> None:
    with Peer(broker) as peer:
        peer.open(channels=2)
        peer.run(q(name, exclusive=True))
        peer.run(consume(name, no_ack=True))
        peer.call(Basic.Cancel(consumer_tag="tag"))
        peer.publish(put("", name, b"late"), 2)
        peer.call(Basic.Qos(), 2)
        assert isinstance(peer.call(Basic.Get(queue=name, no_ack=True)), Basic.GetOk)


def test_delete_ok_comes_before_the_cancel_it_causes(peer: Peer, name: str) -> None:
    """The other order makes py-amqp raise ConsumerCancelled out of queue_delete."""
    peer.run(q(name))
    peer.run(consume(name))
    assert peer.call(Queue.Delete(queue=name)).message_count == 0
    assert peer.expect(Basic.Cancel).consumer_tag == "tag"


def test_a_publish_is_seen_by_what_follows_it_on_the_channel(peer: Peer, name: str) -> None:
    """Sent in one go, so that nothing but the broker can put them in order."""
    for number in range(20):
        queues = [f"{name}.{number}.{which}" for which in range(5)]
        for queue in queues:
            peer.run(q(queue, exclusive=True))
            peer.run(Queue.Bind(queue=queue, exchange="amq.fanout"))
        peer.run(put("amq.fanout", "", b"m"))
        for queue in queues:
            peer.send(1, Basic.Get(queue=queue, no_ack=True))
        for _ in queues:
            assert peer.content(Basic.GetOk).body == b"m"
        for queue in queues:
            peer.call(Queue.Delete(queue=queue))


def test_methods_without_wait_are_not_answered(peer: Peer, name: str) -> None:
    peer.run(q(name, exclusive=True, nowait=True))
    peer.run(Queue.Bind(queue=name, exchange="amq.direct", routing_key=name, nowait=True))
    peer.run(Confirm.Select(nowait=True))
    peer.run(Basic.Consume(queue=name, consumer_tag="t", no_ack=True, nowait=True))
    peer.run(Basic.Cancel(consumer_tag="t", nowait=True))
    peer.run(Queue.Purge(queue=name, nowait=True))
    peer.run(Queue.Delete(queue=name, nowait=True))
    peer.call(Basic.Qos())


def test_a_name_that_is_no_text_is_carried_as_it_is(peer: Peer) -> None:
    """Field values of type long string need not be UTF-8."""
    name = peer.call(Queue.Declare(exclusive=True)).queue
    peer.run(Content(Basic.Publish(routing_key=name), b"\xff\xfe", Basic.Properties()))
    peer.send(1, Basic.Get(queue=name))
    assert peer.content(Basic.GetOk).body == b"\xff\xfe"


@pytest.mark.slow
def test_a_silent_stranger_is_not_kept(broker: Broker) -> None:
    """RabbitMQ gives a connection ten seconds to finish its handshake."""
    started = time.monotonic()
    with Peer(broker) as stranger:
        assert stranger.is_gone()
        assert 5 < time.monotonic() - started < PATIENCE_S
