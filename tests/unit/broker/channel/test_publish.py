"""Publishing: routing, properties, confirms, parking, and what a publish does wrong."""

import pytest

from penstock.base.limits import UNCONFIRMED_MAX
from penstock.broker.channel.publish import Publisher
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import encode_method, method_frame
from penstock.protocol.values import Table
from tests.unit.broker.peer import Bed, Peer, frame, header, headers_property, publish


def publisher_of(peer: Peer, channel: int = 1) -> Publisher:
    found = peer.connection.channels[channel].publisher
    assert found is not None
    return found


def with_queues(bed: Bed, *names: str, name: str = "peer") -> Peer:
    peer = bed.connect(name)
    for queue in names:
        peer.call(1, m.QueueDeclare(queue), m.QueueDeclareOk)
    return peer


def get(peer: Peer, queue: str) -> tuple[m.BasicGetOk, bytes, bytes] | None:
    """Method, header and body of the next message of `queue`."""
    peer.say(1, m.BasicGet(queue, True))
    found = peer.heard()
    assert len(found) == 1
    if isinstance(found[0].method, m.BasicGetEmpty):
        return None
    assert isinstance(found[0].method, m.BasicGetOk)
    return found[0].method, found[0].header, found[0].body


def make_deep(bed: Bed, queue: str) -> Peer:
    """Fill `queue` above its mark, so that whoever publishes there soon has no credit."""
    other = bed.connect("filler")
    for _ in range(3):
        other.publish(queue, b"x" * 5_000)
    actor = bed.broker.vhosts["/"].queues[queue]
    assert not actor.gate.is_open
    return other


def deep_bed() -> Bed:
    return Bed(queue_depth_bytes=10_000)


# -- order on one channel ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "question",
    [m.BasicGet("q", True), m.QueueDeclare("q", passive=True), m.QueuePurge("q")],
    ids=lambda method: method.NAME,
)
def test_a_channel_sees_its_own_publishes(question: m.Method) -> None:
    """RabbitMQ: what a channel says to one queue arrives in order."""
    bed = Bed()
    peer = with_queues(bed, "q")
    peer.send(publish(1, "", "q", b"1"), publish(1, "", "q", b"2"), method_frame(1, question))
    answer = peer.heard()[0].method
    if isinstance(answer, m.BasicGetOk):
        assert answer.message_count == 1
    else:
        assert isinstance(answer, m.QueueDeclareOk | m.QueuePurgeOk)
        assert answer.message_count == 2
    bed.settle()


def test_delete_if_empty_sees_the_publish_before_it() -> None:
    bed = Bed()
    peer = with_queues(bed, "q")
    peer.send(publish(1, "", "q", b"1"), method_frame(1, m.QueueDelete("q", if_empty=True)))
    assert peer.one(m.ChannelClose).reply_code == 406
    assert "q" in bed.broker.vhosts["/"].queues
    bed.settle()


def test_delete_counts_the_publishes_before_it() -> None:
    bed = Bed()
    peer = with_queues(bed, "q")
    peer.send(publish(1, "", "q", b"1"), method_frame(1, m.QueueDelete("q")))
    assert peer.one(m.QueueDeleteOk).message_count == 1
    bed.settle()


# -- confirms ------------------------------------------------------------------------------------


def test_every_publish_is_confirmed_once() -> None:
    bed = Bed(turn_messages=3)
    peer = with_queues(bed, "q", "r")
    peer.call(1, m.QueueBind("q", "amq.fanout", ""), m.QueueBindOk)
    peer.call(1, m.QueueBind("r", "amq.fanout", ""), m.QueueBindOk)
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    peer.send(
        *(
            publish(1, exchange, key, b"x")
            for _ in range(50)
            for exchange, key in (("", "q"), ("amq.fanout", ""), ("", "nobody"))
        )
    )
    assert peer.confirmed() == dict.fromkeys(range(1, 151), "ack")
    bed.settle()


def test_a_return_precedes_its_confirm() -> None:
    """F52."""
    bed = Bed()
    peer = with_queues(bed)
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    peer.send(publish(1, "", "nobody", b"x", mandatory=True))
    returned, confirm = peer.heard()
    assert returned.method == m.BasicReturn(312, "NO_ROUTE", "", "nobody")
    assert returned.body == b"x"
    assert confirm.method == m.BasicAck(1, False)


def test_confirms_go_out_when_a_queue_is_deleted_with_messages_on_their_way() -> None:
    bed = Bed()
    peer = with_queues(bed, "q")
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    actor = bed.broker.vhosts["/"].queues["q"]
    other = bed.connect("other")
    # Both arrive before the queue has its turn.
    other.connection.receive(method_frame(1, m.QueueDelete("q")))
    peer.connection.receive(publish(1, "", "q", b"1") + publish(1, "", "q", b"2"))
    bed.run()
    assert not actor.is_alive
    other.one(m.QueueDeleteOk)
    assert peer.confirmed() == {1: "ack", 2: "ack"}
    bed.settle()


def test_confirms_are_flushed_before_the_channel_closes() -> None:
    bed = Bed()
    peer = with_queues(bed, "q")
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    peer.send(
        publish(1, "", "q", b"1"),
        publish(1, "", "q", b"2"),
        method_frame(1, m.ChannelClose(200, "", 0, 0)),
    )
    heard = peer.heard()
    assert isinstance(heard[-1].method, m.ChannelCloseOk)
    assert {1, 2} <= {
        sequence
        for one in heard[:-1]
        if isinstance(one.method, m.BasicAck)
        for sequence in range(1, one.method.delivery_tag + 1)
    }
    bed.settle()


def test_confirms_are_flushed_before_a_fault_closes_the_channel() -> None:
    bed = Bed()
    peer = with_queues(bed, "q")
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    peer.send(publish(1, "", "q", b"1"), publish(1, "nowhere", "q", b"2"))
    heard = peer.heard()
    assert [type(one.method) for one in heard] == [m.BasicAck, m.ChannelClose]
    bed.settle()


def test_unanswered_publishes_behind_a_parked_one_are_bounded() -> None:
    """Limit unconfirmed_max: numbers are kept until they are answered."""
    bed = deep_bed()
    peer = with_queues(bed, "q", "r")
    filler = make_deep(bed, "q")
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    publisher = publisher_of(peer)
    peer.publish("q", b"x")
    assert publisher.parking.lines
    peer.heard()
    confirms = publisher.confirms
    assert confirms is not None
    # As if so many had been parked for a long time.
    missing = UNCONFIRMED_MAX.default - int(confirms.span()) - 5
    confirms.early = {-number: 1 for number in range(1, missing + 1)}
    peer.send(*(publish(1, "", "q", b"x") for _ in range(20)))
    assert confirms.span() == UNCONFIRMED_MAX.default
    confirms.early = {}
    filler.call(1, m.QueuePurge("q"), m.QueuePurgeOk)
    peer.read_on()
    assert not publisher.parking.lines
    assert bed.broker.vhosts["/"].queues["q"].messages.publish_count == 3 + 1 + 20
    bed.settle()


# -- parking -------------------------------------------------------------------------------------


def test_a_publish_for_a_full_queue_waits_and_the_connection_reads_on() -> None:
    bed = deep_bed()
    peer = with_queues(bed, "q", "r")
    filler = make_deep(bed, "q")
    peer.publish("q", b"x")
    assert publisher_of(peer).parking.lines
    assert peer.connection.can_receive()
    peer.publish("r", b"y")
    found = get(peer, "r")
    assert found is not None and found[2] == b"y"
    filler.call(1, m.QueuePurge("q"), m.QueuePurgeOk)
    assert not publisher_of(peer).parking.lines
    bed.settle()


def test_a_queue_deleted_under_a_parked_publish_lets_it_go() -> None:
    bed = deep_bed()
    peer = with_queues(bed, "q", "r")
    filler = make_deep(bed, "q")
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    peer.send(*(publish(1, "", "q", b"x") for _ in range(405)))
    filler.call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    assert peer.confirmed() == dict.fromkeys(range(1, 406), "ack")
    assert peer.connection.gate.is_open
    bed.settle()


def test_a_channel_that_closes_with_a_parked_publish_hands_it_over() -> None:
    bed = deep_bed()
    peer = with_queues(bed, "q")
    make_deep(bed, "q")
    peer.send(*(publish(1, "", "q", b"x") for _ in range(400)))
    actor = bed.broker.vhosts["/"].queues["q"]
    peer.call(1, m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
    bed.run()
    assert actor.messages.publish_count == 2 + 400
    bed.settle()


def test_a_channel_that_is_gone_is_not_kept_by_a_deep_queue() -> None:
    """Deferred grants of hops without a sender would pile up for as long as the queue is deep."""
    bed = deep_bed()
    with_queues(bed, "q")
    make_deep(bed, "q")
    actor = bed.broker.vhosts["/"].queues["q"]
    for index in range(5):
        peer = bed.connect(f"short-{index}")
        peer.send(*(publish(1, "", "q", b"x") for _ in range(300)))
        peer.hang_up()
    assert len(actor.gate.deferred) <= 1
    assert len(actor.lanes) <= 1
    bed.settle()


def test_a_lost_connection_with_parked_and_stopped_publishes_repays_everything() -> None:
    bed = deep_bed()
    bed.broker.parking.lot_bytes_max = 10_000
    peer = with_queues(bed, "q")
    make_deep(bed, "q")
    peer.send(*(publish(1, "", "q", b"x") for _ in range(2000)))
    assert peer.unread
    peer.hang_up()
    bed.settle()


# -- properties ----------------------------------------------------------------------------------


def test_cc_and_bcc_add_keys_and_bcc_is_not_shown() -> None:
    bed = Bed()
    peer = with_queues(bed, "q", "r", "s")
    table: Table = {"CC": ["r"], "BCC": ["s", "q"], "other": 1}
    peer.send(publish(1, "", "q", b"x", headers_property(table)))
    for queue in ("q", "r", "s"):
        found = get(peer, queue)
        assert found is not None
        assert b"\x02CC" in found[1] and b"BCC" not in found[1] and b"other" in found[1]
        assert found[0].routing_key == "q" and found[2] == b"x"
        assert get(peer, queue) is None
    bed.settle()


def test_a_parked_publish_keeps_its_bcc_keys() -> None:
    bed = deep_bed()
    peer = with_queues(bed, "q", "r")
    filler = make_deep(bed, "q")
    peer.send(publish(1, "", "q", b"y", headers_property({"BCC": ["r"]})))
    assert publisher_of(peer).parking.lines
    filler.call(1, m.QueuePurge("q"), m.QueuePurgeOk)
    found = get(peer, "r")
    assert found is not None and found[2] == b"y" and b"BCC" not in found[1]
    bed.settle()


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        (headers_property({"CC": "r"}), 406),
        (headers_property({"BCC": 1}), 406),
        ((0x0010, b"\x05other"), 406),
        ((0x0100, b"\x03abc"), 406),
        ((0x0200, b"\x17amq.rabbitmq.reply-to"), 406),
    ],
)
def test_properties_that_break_a_rule_close_the_channel(
    properties: tuple[int, bytes], code: int
) -> None:
    bed = Bed()
    peer = with_queues(bed, "q")
    flags, value = properties
    if flags == 0x0200:
        value = b"\x15amq.rabbitmq.reply-to"
    peer.send(publish(1, "", "q", b"x", (flags, value)))
    assert peer.one(m.ChannelClose).reply_code == code
    bed.settle()


@pytest.mark.parametrize("flags", [0x2000, 0x0100, 0x0200, 0x0010, 0x8000, 0xFFFF, 0x0001])
@pytest.mark.parametrize("values", [b"", b"\xff", b"\x00\x00\x00\xff"])
def test_malformed_properties_are_the_peers_fault(flags: int, values: bytes) -> None:
    bed = Bed()
    peer = with_queues(bed, "q")
    peer.send(publish(1, "", "q", b"x", (flags, values)))
    assert peer.one(m.ConnectionClose).reply_code in (501, 502)
    bed.settle()


# -- faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(4, 12))
def test_a_publish_method_that_ends_early_is_the_peers_fault(size: int) -> None:
    bed = Bed()
    peer = with_queues(bed, "q")
    whole = encode_method(m.BasicPublish("ex", "key", False, False))
    content = frame(2, 1, header(0))
    peer.send(frame(1, 1, whole[:size]), content)
    assert peer.one(m.ConnectionClose).reply_code in (501, 502)
    bed.settle()


def test_a_publish_method_with_more_behind_it_is_the_peers_fault() -> None:
    bed = Bed()
    peer = with_queues(bed, "q")
    whole = encode_method(m.BasicPublish("", "q", False, False))
    peer.send(frame(1, 1, whole + b"x"), frame(2, 1, header(0)))
    assert peer.one(m.ConnectionClose).reply_code in (501, 502)


def test_immediate_is_not_implemented() -> None:
    bed = Bed()
    peer = with_queues(bed, "q")
    method = encode_method(m.BasicPublish("", "q", False, True))
    peer.send(frame(1, 1, method), frame(2, 1, header(0)))
    assert peer.one(m.ConnectionClose).reply_code == 540


@pytest.mark.parametrize(("exchange", "code"), [("nowhere", 404), ("amq.rabbitmq.trace", 403)])
def test_an_exchange_nobody_may_publish_to(exchange: str, code: int) -> None:
    bed = Bed()
    peer = with_queues(bed, "q")
    peer.send(publish(1, exchange, "q", b"x"))
    assert peer.one(m.ChannelClose).reply_code == code
    peer.say(1, m.ChannelCloseOk())
    bed.settle()


# -- frames --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 20_000, 131_064, 131_065, 400_000])
def test_bodies_are_cut_to_what_the_receiver_takes(size: int) -> None:
    bed = Bed()
    sender = with_queues(bed, "q")
    receiver = bed.connect("receiver", frame_bytes_max=4096)
    body = bytes(index % 251 for index in range(size))
    sender.send(publish(1, "", "q", body))
    receiver.say(1, m.BasicGet("q", True))
    data = bytes(receiver.output.sent)
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at + 3 : at + 7], "big") + 8
        assert length <= 4096
        at += length
    assert [one.body for one in receiver.heard()] == [body]
    bed.settle()


def test_frames_that_are_a_little_too_large_go_out_as_agreed() -> None:
    bed = Bed()
    peer = with_queues(bed, "q")
    peer.send(publish(1, "", "q", b"x" * 300_000, frame_bytes_max=131_072 + 8))
    peer.say(1, m.BasicGet("q", True))
    data = bytes(peer.output.sent)
    while data:
        length = int.from_bytes(data[3:7], "big") + 8
        assert length <= 131_072
        data = data[length:]
    assert [one.body for one in peer.heard()] == [b"x" * 300_000]
    bed.settle()


def test_channels_interleave_their_frames() -> None:
    bed = Bed()
    peer = bed.connect(channels=2)
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    one = publish(1, "", "q", b"a" * 10, frame_bytes_max=12)
    two = publish(2, "", "q", b"b" * 10, frame_bytes_max=12)

    def frames(data: bytes) -> list[bytes]:
        found = []
        while data:
            length = int.from_bytes(data[3:7], "big") + 8
            found.append(data[:length])
            data = data[length:]
        return found

    for pair in zip(frames(one), frames(two), strict=True):
        peer.send(*pair)
    bodies = []
    while (found := get(peer, "q")) is not None:
        bodies.append(found[2])
    assert bodies == [b"a" * 10, b"b" * 10]
    bed.settle()


def test_content_of_a_channel_that_was_closed_is_thrown_away() -> None:
    bed = Bed()
    peer = with_queues(bed, "q")
    whole = publish(1, "", "q", b"x")
    peer.send(publish(1, "nowhere", "", b""))
    peer.one(m.ChannelClose)
    peer.send(whole, whole[:-5])
    peer.send(whole[-5:], method_frame(1, m.BasicGet("q")))
    assert peer.heard() == []
    peer.say(1, m.ChannelCloseOk(), m.ChannelOpen())
    peer.one(m.ChannelOpenOk)
    assert get(peer, "q") is None
    bed.settle()


def test_what_exchanges_look_at_is_bounded_by_the_configuration() -> None:
    """Issue 18, 2: the limits are named, and a key each."""
    bed = Bed(topic_hashes=2, headers_values=3, message_headers=4)
    peer = bed.connect()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    refused = {
        "topic_hashes": m.QueueBind("q", "amq.topic", "#.a.#.b.#"),
        "headers_values": m.QueueBind("q", "amq.headers", "", arguments=dict.fromkeys("abcd", 1)),
    }
    for key, said in refused.items():
        closed = peer.call(1, said, m.ChannelClose)
        assert closed.reply_code == 406 and f"({key})" in closed.reply_text
        peer.say(1, m.ChannelCloseOk())
        peer.call(1, m.ChannelOpen(), m.ChannelOpenOk)
    peer.call(1, m.QueueBind("q", "amq.topic", "#.a.#"), m.QueueBindOk)
    peer.call(1, m.QueueBind("q", "amq.headers", "", arguments={"x": 1}), m.QueueBindOk)
    for count, is_taken in ((4, True), (5, False)):
        table: Table = {str(number): 1 for number in range(count - 1)}
        flags, values = headers_property({**table, "x": 1})
        raw = header(1, flags, values)
        method = method_frame(1, m.BasicPublish("amq.headers", ""))
        peer.send(method, frame(2, 1, raw), frame(3, 1, b"x"))
        assert (bed.actor("q").messages.publish_count == 1) is True
        assert (peer.heard() == []) is is_taken
    bed.settle()


def test_headers_that_are_looked_at_take_their_part_of_a_turn() -> None:
    """21,000 of them take as long to read as some hundred ordinary publishes."""
    bed = Bed()
    peer = with_queues(bed, "q")
    peer.call(1, m.QueueBind("q", "amq.headers", "", arguments={"x": 1}), m.QueueBindOk)
    flags, values = headers_property({str(number): True for number in range(15_000)})
    one = b"".join(
        (
            method_frame(1, m.BasicPublish("amq.headers", "")),
            frame(2, 1, header(0, flags, values)),
        )
    )
    peer.connection.receive(one)
    publisher = publisher_of(peer)
    while publisher.publish_count == 0:
        peer.connection.turn(1024)
        before = publisher.work
        channel = peer.connection.channels[1]
        if channel.upstream is not None and channel.upstream.items:
            message = channel.upstream.items[0]
            assert publisher.publish(message, False)
            assert publisher.work - before > 8 * 500
    bed.run()
