"""What a client hears, and what not, when the broker behind its node is another one."""

import random

import pytest

from penstock.broker.admin.users import change_password
from penstock.broker.session.passwords import SHA256, hash_password
from penstock.forwarding.kept_channel import HELD_BYTES, CannotKeep
from penstock.forwarding.kept_connection import AttachFault
from penstock.protocol import methods as m
from penstock.protocol.constants import SHUTDOWN_TEXT
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.values import Table
from penstock.replication.seen import NOTHING, decode_runs, encode_runs
from tests.unit.broker.peer import Heard, frame, publish
from tests.unit.forwarding.relay import QUEUE, Relay


@pytest.fixture
def relay() -> Relay:
    made = Relay(random.Random(1))
    made.call(1, m.QueueDeclare(QUEUE, durable=True), m.QueueDeclareOk)
    return made


def methods(heard: list[Heard]) -> list[type[m.Method]]:
    return [type(one.method) for one in heard]


def test_an_exclusive_queue_keeps_the_name_that_the_broker_gave(relay: Relay) -> None:
    name = relay.call(1, m.QueueDeclare("", exclusive=True), m.QueueDeclareOk).queue
    relay.call(1, m.QueueBind(name, "amq.topic", "a.*"), m.QueueBindOk)
    relay.call(1, m.BasicConsume(name, "mine", no_ack=True), m.BasicConsumeOk)
    relay.die()
    relay.publish("a.b", b"still here", exchange="amq.topic")
    assert relay.bodies() == [b"still here"]
    actor = relay.bed.actor(name)
    assert actor.owner != "" and not actor.durable


def test_nobody_else_may_take_such_a_name(relay: Relay) -> None:
    other = relay.bed.connect("other")
    other.say(1, m.QueueDeclare("amq.gen-mine", exclusive=True))
    assert other.one(m.ChannelClose).reply_code == 403


def test_what_is_not_durable_is_declared_again_and_the_rest_is_not(relay: Relay) -> None:
    relay.call(1, m.ExchangeDeclare("events", "fanout"), m.ExchangeDeclareOk)
    relay.call(1, m.ExchangeDeclare("gone", "fanout"), m.ExchangeDeclareOk)
    relay.call(1, m.QueueDeclare("copies"), m.QueueDeclareOk)
    relay.call(1, m.QueueBind("copies", "events"), m.QueueBindOk)
    relay.call(1, m.QueueBind(QUEUE, "events"), m.QueueBindOk)
    relay.call(1, m.QueueBind("copies", "gone"), m.QueueBindOk)
    relay.call(1, m.QueueBind("copies", "amq.topic", "x"), m.QueueBindOk)
    relay.call(1, m.QueueUnbind("copies", "amq.topic", "x"), m.QueueUnbindOk)
    relay.call(1, m.ExchangeDelete("gone"), m.ExchangeDeleteOk)
    relay.die()
    relay.publish("", b"one", exchange="events")
    relay.publish("x", b"two", exchange="amq.topic")
    for queue, count in (("copies", 1), (QUEUE, 1)):
        answer = relay.call(1, m.QueueDeclare(queue, passive=True), m.QueueDeclareOk)
        assert answer.message_count == count, queue
    relay.say(1, m.ExchangeDeclare("gone", passive=True))
    assert relay.one(m.ChannelClose).reply_code == 404


def test_a_queue_that_deleted_itself_does_not_come_back(relay: Relay) -> None:
    relay.call(1, m.QueueDeclare("short", auto_delete=True), m.QueueDeclareOk)
    relay.call(1, m.BasicConsume("short", "c"), m.BasicConsumeOk)
    relay.call(1, m.BasicCancel("c"), m.BasicCancelOk)
    relay.die()
    assert "short" not in relay.bed.broker.vhosts["/"].queues


def test_one_refused_declaration_does_not_stop_the_others(relay: Relay) -> None:
    for number in range(150):
        relay.call(1, m.QueueDeclare(f"t{number}"), m.QueueDeclareOk)

    def spoil() -> None:
        other = relay.bed.connect("other")
        for number in (0, 70, 149):
            other.call(1, m.QueueDeclare(f"t{number}", auto_delete=True), m.QueueDeclareOk)

    relay.die(meanwhile=spoil)
    assert {f"t{number}" for number in range(150)} < set(relay.bed.broker.vhosts["/"].queues)
    assert relay.heard() == []


def test_who_is_still_there_is_waited_for(relay: Relay) -> None:
    """The old connection of the same client, when its link broke and the broker lives."""
    relay.call(1, m.QueueDeclare("mine", exclusive=True), m.QueueDeclareOk)

    def spoil() -> None:
        relay.bed.connect("old").call(1, m.QueueDeclare("mine", exclusive=True), m.QueueDeclareOk)

    with pytest.raises(AttachFault, match="mine"):
        relay.die(meanwhile=spoil)
    relay.die()
    assert relay.heard() == []


def test_an_exclusive_consumer_is_waited_for(relay: Relay) -> None:
    relay.call(1, m.BasicConsume(QUEUE, "only", exclusive=True), m.BasicConsumeOk)

    def spoil() -> None:
        relay.bed.connect("old").call(1, m.BasicConsume(QUEUE, "only"), m.BasicConsumeOk)

    with pytest.raises(AttachFault, match="exclusive"):
        relay.die(meanwhile=spoil)
    relay.die()
    relay.publish(QUEUE, b"x")
    assert relay.bodies() == [b"x"]


def test_a_prefetch_holds_for_the_consumers_that_had_it(relay: Relay) -> None:
    relay.call(1, m.BasicQos(prefetch_count=2), m.BasicQosOk)
    relay.call(1, m.BasicConsume(QUEUE, "two"), m.BasicConsumeOk)
    relay.call(1, m.BasicQos(prefetch_count=3), m.BasicQosOk)
    relay.die()
    relay.publish(QUEUE, *[b"x"] * 10)
    assert relay.bodies() == [b"x"] * 2
    relay.say(1, m.BasicAck(2, multiple=True), m.BasicCancel("two"))
    relay.heard()
    relay.call(1, m.BasicGet(QUEUE, no_ack=True), m.BasicGetOk)
    relay.say(1, m.BasicConsume(QUEUE, "three"))
    assert len([one for one in relay.heard() if one.header]) == 3


def test_a_request_that_was_under_way_is_asked_again(relay: Relay) -> None:
    relay.pace = 0.0
    relay.say(1, m.QueuePurge(QUEUE), m.BasicGet(QUEUE))
    relay.die()
    assert methods(relay.heard()) == [m.QueuePurgeOk, m.BasicGetEmpty]


def test_a_transaction_that_was_open_ends_its_channel_alone(relay: Relay) -> None:
    relay.say(2, m.ChannelOpen(), m.TxSelect())
    relay.say(3, m.ChannelOpen(), m.TxSelect())
    relay.heard()
    relay.publish(QUEUE, b"uncommitted", channel=2)
    relay.die()
    heard = relay.heard()
    assert [one.channel for one in heard] == [2]
    assert isinstance(heard[0].method, m.ChannelClose) and heard[0].method.reply_code == 541
    # What it says before it has heard that, and its answer, are for nobody.
    relay.publish(QUEUE, b"too late", channel=2)
    relay.say(2, m.ChannelCloseOk(), m.ChannelOpen())
    assert methods(relay.heard()) == [m.ChannelOpenOk]
    relay.publish(QUEUE, b"committed", channel=3)
    relay.call(3, m.TxCommit(), m.TxCommitOk)
    assert relay.call(1, m.QueueDeclare(QUEUE, passive=True), m.QueueDeclareOk).message_count == 1


def test_closing_is_answered_in_the_place_of_a_broker_that_is_gone(relay: Relay) -> None:
    relay.pace = 0.0
    relay.say(1, m.ChannelClose())
    relay.die()
    assert methods(relay.heard()) == [m.ChannelCloseOk]
    relay.call(1, m.ChannelOpen(), m.ChannelOpenOk)


def test_a_stream_is_read_on_behind_the_last_message(relay: Relay) -> None:
    stream: Table = {"x-queue-type": "stream"}
    relay.call(1, m.QueueDeclare("log", durable=True, arguments=stream), m.QueueDeclareOk)
    relay.publish("log", *(b"%d" % number for number in range(6)))
    relay.call(1, m.BasicQos(prefetch_count=3), m.BasicQosOk)
    relay.say(1, m.BasicConsume("log", "reader", arguments={"x-stream-offset": "first"}))
    assert [one.body for one in relay.heard() if one.header] == [b"0", b"1", b"2"]

    def same() -> None:
        writer = relay.bed.connect("same")
        writer.call(1, m.QueueDeclare("log", durable=True, arguments=stream), m.QueueDeclareOk)
        writer.publish("log", *(b"%d" % number for number in range(6)))

    relay.die(meanwhile=same)
    assert relay.bodies() == [b"3", b"4", b"5"]


@pytest.mark.parametrize(
    "said",
    [
        m.BasicConsume(QUEUE, "c", arguments={"x-stream-group": "g"}),
        m.BasicConsume(QUEUE, "c", arguments={"x-penstock-format": "chunk"}),
        m.BasicConsume(
            QUEUE, "c", arguments={"x-lease-group": "g", "x-lease-from": 0, "x-lease-to": 9}
        ),
        m.RequestAsk("stream.offsets"),
    ],
)
def test_what_only_that_broker_knows_ends_with_it(relay: Relay, said: m.Method) -> None:
    relay.say(1, said)
    with pytest.raises(CannotKeep):
        relay.die()


def test_a_message_that_came_in_part_ends_with_its_broker(relay: Relay) -> None:
    relay.call(1, m.BasicConsume(QUEUE, "c"), m.BasicConsumeOk)
    body = b"x" * (2 * HELD_BYTES)
    relay.kept.from_broker(method_frame(1, m.BasicDeliver("c", 1)))
    whole = publish(1, "", QUEUE, body)
    content = whole[len(method_frame(1, m.BasicPublish("", QUEUE))) :]
    relay.kept.from_broker(content[: HELD_BYTES + HELD_BYTES // 2])
    with pytest.raises(CannotKeep, match="in part"):
        relay.kept.lost()


def test_a_refused_login_is_told(relay: Relay) -> None:
    def change() -> None:
        hashed = hash_password("another", b"salt")
        change_password(relay.bed.broker, "guest", hashed, SHA256)

    relay.die(meanwhile=change, is_taken=False)
    relay.bed.later(10_000_000_000)  # Whoever guesses has to wait.
    assert relay.one(m.ConnectionClose).reply_code == 403
    assert relay.kept.is_over


def test_a_broker_that_is_stopped_is_left_and_one_that_closes_is_heard(relay: Relay) -> None:
    relay.kept.from_broker(method_frame(0, m.ConnectionClose(320, SHUTDOWN_TEXT)))
    assert relay.kept.is_leaving and relay.kept.to_client == []
    assert relay.kept.to_broker == [method_frame(0, m.ConnectionCloseOk())]
    relay.kept.to_broker.clear()
    relay.die()
    assert relay.heard() == []
    relay.kept.from_broker(method_frame(0, m.ConnectionClose(320, "CONNECTION_FORCED - by hand")))
    assert methods(relay.heard()) == [m.ConnectionClose]
    assert relay.kept.is_over


def test_what_was_stopped_goes_on_with_another_broker(relay: Relay) -> None:
    relay.kept.from_broker(method_frame(0, m.ConnectionBlocked("memory")))
    relay.kept.from_broker(method_frame(1, m.ChannelFlow(active=False)))
    relay.say(1, m.ChannelFlowOk(active=False))
    relay.heard()
    relay.die()
    assert methods(relay.heard()) == [m.ChannelFlow, m.ConnectionUnblocked]
    relay.say(1, m.ChannelFlowOk(active=True))
    relay.call(1, m.QueueDeclare(QUEUE, passive=True), m.QueueDeclareOk)


def test_a_renewed_secret_logs_in(relay: Relay) -> None:
    relay.pace = 0.0
    relay.say(0, m.ConnectionUpdateSecret(b"another", "it was due"))

    def change() -> None:
        hashed = hash_password("another", b"salt")
        change_password(relay.bed.broker, "guest", hashed, SHA256)

    relay.die(meanwhile=change)
    assert methods(relay.heard()) == [m.ConnectionUpdateSecretOk]


def test_a_spoilt_frame_is_for_the_broker_to_judge(relay: Relay) -> None:
    relay.send(frame(1, 1, b"\x00\x0a")[:-1] + b"\x00")
    assert relay.one(m.ConnectionClose).reply_code == 501


def test_another_protocol_is_answered_by_the_broker() -> None:
    made = Relay(random.Random(1), is_open=False)
    made.send(b"AMQP\x01\x01\x00\x0a")
    assert made.heard() == [] and made.greeting == b"AMQP\x00\x00\x09\x01"


def test_what_is_kept_has_a_bound_and_is_given_back(relay: Relay) -> None:
    before = relay.share.used
    for number in range(50):
        relay.call(1, m.QueueDeclare(f"t{number}", exclusive=True), m.QueueDeclareOk)
        relay.call(1, m.BasicConsume(f"t{number}", f"c{number}"), m.BasicConsumeOk)
        relay.call(1, m.QueueBind(f"t{number}", "amq.topic", "x"), m.QueueBindOk)
    assert relay.share.used > before + 50 * 900
    for number in range(50):
        relay.call(1, m.BasicCancel(f"c{number}"), m.BasicCancelOk)
        relay.call(1, m.QueueDelete(f"t{number}"), m.QueueDeleteOk)
    assert relay.share.used == before
    relay.share.bound = 3000
    for number in range(20):
        relay.call(1, m.QueueDeclare(f"t{number}", exclusive=True), m.QueueDeclareOk)
    with pytest.raises(CannotKeep, match="too much"):
        relay.die()


def test_the_last_declared_queue_has_no_name_needed(relay: Relay) -> None:
    relay.call(1, m.QueueDeclare("last", durable=True), m.QueueDeclareOk)
    relay.call(1, m.BasicConsume("", "c", no_ack=True), m.BasicConsumeOk)

    def same() -> None:
        relay.bed.connect("x").call(1, m.QueueDeclare("last", durable=True), m.QueueDeclareOk)

    relay.die(meanwhile=same)
    relay.call(1, m.QueuePurge(""), m.QueuePurgeOk)
    relay.publish("last", b"x")
    assert relay.bodies() == [b"x"]


@pytest.mark.parametrize("channels", [1, 3])
def test_who_uses_every_channel_that_it_may_goes_on(channels: int) -> None:
    relay = Relay(random.Random(1), is_open=False)
    relay.open(channels, channel_max=channels)
    relay.call(1, m.QueueDeclare(QUEUE, durable=True), m.QueueDeclareOk)
    name = relay.call(1, m.QueueDeclare("", exclusive=True), m.QueueDeclareOk).queue
    relay.call(channels, m.BasicConsume(name, "mine", no_ack=True), m.BasicConsumeOk)
    relay.die()
    relay.publish(name, b"still here")
    assert relay.bodies() == [b"still here"]


def test_a_get_that_was_answered_in_part_is_asked_again(relay: Relay) -> None:
    relay.publish(QUEUE, b"whole")
    relay.pace = 0.0
    relay.say(1, m.BasicGet(QUEUE, no_ack=False))
    relay.behind.send(b"".join(relay.kept.to_broker))
    relay.kept.to_broker.clear()
    # The method and no content.
    heard = bytes(relay.behind.output.sent)
    relay.behind.output.sent.clear()
    relay.kept.from_broker(heard[: 8 + int.from_bytes(heard[3:7], "big")])
    relay.die()
    assert methods(relay.heard()) == [m.BasicGetOk]


def test_a_consumer_that_was_cancelled_before_it_was_there_does_not_come_back(
    relay: Relay,
) -> None:
    relay.say(1, m.BasicConsume(QUEUE, "c", no_wait=True), m.BasicCancel("c"))
    assert methods(relay.heard()) == [m.BasicCancelOk]
    relay.die()
    relay.publish(QUEUE, b"for nobody")
    assert relay.heard() == []


def test_a_purge_without_an_answer_is_not_done_once_more(relay: Relay) -> None:
    relay.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    relay.publish(QUEUE, b"old")
    relay.say(1, m.QueuePurge(QUEUE, no_wait=True))
    relay.publish(QUEUE, b"new", b"newer")
    assert set(methods(relay.heard())) == {m.BasicAck}
    relay.die()
    again = relay.call(1, m.QueueDeclare(QUEUE, passive=True), m.QueueDeclareOk)
    assert again.message_count == 2


def test_a_request_without_an_answer_is_asked_again_unless_it_was_done(relay: Relay) -> None:
    relay.call(1, m.BasicConsume(QUEUE, "c", no_ack=True), m.BasicConsumeOk)
    relay.bed.connect("other").publish(QUEUE, b"x")
    relay.pace = 0.0
    relay.say(1, m.QueueDeclare("late", durable=True, no_wait=True))
    relay.kept.from_broker(bytes(relay.behind.output.sent))
    relay.behind.output.sent.clear()
    assert b"".join(relay.kept.to_client), "a delivery, of before"
    relay.die()
    relay.pace = 1.0
    relay.heard()
    relay.call(1, m.QueueDeclare("late", passive=True), m.QueueDeclareOk)


def test_no_more_of_a_frame_is_held_than_the_broker_would_take() -> None:
    made = Relay(random.Random(1), is_open=False)
    made.send(b"AMQP\x00\x00\x09\x01")
    made.heard()
    made.send(b"\x01\x00\x00\x00\x0f\xff\xff" + bytes(5000))
    made.send(bytes(5000))
    assert made.kept.is_raw and not made.kept.client.rest
    assert made.one(m.ConnectionClose).reply_code == 501


def test_a_frame_has_the_length_that_was_agreed_on(relay: Relay) -> None:
    agreed = relay.kept.tune_ok.frame_max
    relay.publish(QUEUE, b"x" * (agreed - 8))
    assert not relay.kept.is_raw
    relay.send(b"\x03\x00\x01" + (agreed + 1).to_bytes(4, "big") + b"x")
    assert relay.one(m.ConnectionClose).reply_code == 501


def test_only_what_is_not_confirmed_is_asked_for_however_much_there_was(relay: Relay) -> None:
    relay.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    channel = relay.kept.channels[1]
    # As after two days of 25,000 a second.
    channel.seq = 5_000_000_000
    relay.pace = 0.0
    relay.publish(QUEUE, b"x", b"y", b"z")
    relay.kept.lost()
    (run,) = relay.kept.unknown()
    assert (run.first, run.last) == (5_000_000_001, 5_000_000_003)
    assert decode_runs(encode_runs([run])) == [run]


def test_another_broker_is_asked_for_the_virtual_host() -> None:
    """The login was heard by one that has not got it; what was said behind it is not lost."""
    moved = Relay(random.Random(2), is_open=False)
    moved.send(b"AMQP\x00\x00\x09\x01")
    moved.one(m.ConnectionStart)
    moved.say(0, m.ConnectionStartOk(Table(), "PLAIN", b"\x00guest\x00guest", "en_US"))
    tune = moved.one(m.ConnectionTune)
    assert moved.kept.vhost == "" and not moved.kept.can_move
    # Not yet passed on, as when both come in one piece.
    kept = moved.kept
    kept.from_client(
        method_frame(0, m.ConnectionTuneOk(tune.channel_max, tune.frame_max, 0))
        + method_frame(0, m.ConnectionOpen("/"))
        + method_frame(1, m.ChannelOpen())
        + method_frame(1, m.QueueDeclare("behind", durable=True))
    )
    assert kept.vhost == "/" and kept.can_move
    kept.move()
    moved.bed = moved.new_bed()
    moved.go_on(NOTHING)
    assert kept.is_known and kept.is_attached and not kept.can_move
    assert methods(moved.heard()) == [m.ConnectionOpenOk, m.ChannelOpenOk, m.QueueDeclareOk]
    assert "behind" in moved.bed.broker.vhosts["/"].queues
    # From now on it is a client like any other.
    moved.say(1, m.QueueDeclare(QUEUE, durable=True))
    moved.one(m.QueueDeclareOk)
    moved.die()
    moved.publish(QUEUE, b"goes on")
    assert moved.heard() == []


def test_a_broker_that_refuses_the_virtual_host_has_the_last_word() -> None:
    moved = Relay(random.Random(3), is_open=False)
    moved.send(b"AMQP\x00\x00\x09\x01")
    moved.one(m.ConnectionStart)
    moved.say(0, m.ConnectionStartOk(Table(), "PLAIN", b"\x00guest\x00guest", "en_US"))
    tune = moved.one(m.ConnectionTune)
    kept = moved.kept
    kept.from_client(
        method_frame(0, m.ConnectionTuneOk(tune.channel_max, tune.frame_max, 0))
        + method_frame(0, m.ConnectionOpen("none"))
    )
    kept.move()
    moved.bed = moved.new_bed()
    moved.go_on(NOTHING)
    assert moved.one(m.ConnectionClose).reply_code == 530
    assert kept.is_over and not kept.can_move


def test_a_client_that_another_broker_has_heard_goes_on() -> None:
    """What was agreed on there is said again with the client's login, and he hears no second."""
    moved = Relay(random.Random(4), is_open=False)
    kept = moved.kept
    login = method_frame(0, m.ConnectionStartOk(Table(), "PLAIN", b"\x00guest\x00guest", "en_US"))
    said = method_frame(0, m.ConnectionOpen("/")) + method_frame(1, m.ChannelOpen())
    assert kept.resume(login, m.ConnectionTuneOk(2047, 131_072, 0), said)
    moved.go_on(NOTHING)
    assert methods(moved.heard()) == [m.ConnectionOpenOk, m.ChannelOpenOk]
    moved.call(1, m.QueueDeclare(QUEUE, durable=True), m.QueueDeclareOk)
    moved.die()
    moved.publish(QUEUE, b"goes on")
    assert moved.heard() == []


def test_a_client_that_says_everything_at_once_hears_every_answer() -> None:
    """Its virtual host is asked for elsewhere before the first broker has said a word."""
    moved = Relay(random.Random(6), is_open=False)
    kept = moved.kept
    start_ok = m.ConnectionStartOk(Table(), "PLAIN", b"\x00guest\x00guest", "en_US")
    said = (start_ok, m.ConnectionTuneOk(2047, 65_536, 0), m.ConnectionOpen("/"))
    kept.from_client(b"AMQP\x00\x00\x09\x01" + b"".join(method_frame(0, one) for one in said))
    assert kept.can_move
    kept.move()
    moved.bed = moved.new_bed()
    moved.go_on(NOTHING)
    assert methods(moved.heard()) == [m.ConnectionStart, m.ConnectionTune, m.ConnectionOpenOk]
    assert kept.client.payload_max == 65_536
    moved.call(1, m.ChannelOpen(), m.ChannelOpenOk)
    moved.call(1, m.QueueDeclare(QUEUE, durable=True), m.QueueDeclareOk)
    moved.die()
    moved.publish(QUEUE, b"goes on")
    assert moved.heard() == []


@pytest.mark.parametrize(
    "last", [(m.ChannelClose(200, "bye", 0, 0),), (m.TxSelect(), m.TxCommit())]
)
def test_what_is_over_in_one_piece_is_not_taken_for_lost(last: tuple[m.Method, ...]) -> None:
    """A channel or a transaction behind connection.open: it is not answered before that is, and
    what was said on it is not forgotten. The broker that hears the client passes it on."""
    moved = Relay(random.Random(7), is_open=False)
    kept = moved.kept
    login = method_frame(0, m.ConnectionStartOk(Table(), "PLAIN", b"\x00guest\x00guest", "en_US"))
    said = method_frame(0, m.ConnectionOpen("/")) + b"".join(
        method_frame(1, one) for one in (m.ChannelOpen(), m.QueueDeclare("behind"), *last)
    )
    assert not kept.resume(login, m.ConnectionTuneOk(2047, 131_072, 0), said)
    assert kept.to_client == []


def test_one_that_says_something_else_there_does_not() -> None:
    moved = Relay(random.Random(5), is_open=False)
    login = method_frame(0, m.ConnectionStartOk(Table(), "PLAIN", b"\x00guest\x00guest", "en_US"))
    assert not moved.kept.resume(login, m.ConnectionTuneOk(), b"GET / HTTP/1.1\r\n\r\n")
