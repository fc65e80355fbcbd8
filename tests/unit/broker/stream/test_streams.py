"""Stream queues over the wire, in a broker in memory: places, headers, credit, refusals, ends."""

import pytest

from penstock.base.policy import Policy
from penstock.broker.admin.view_store import stream_in_words, stream_store_snapshot
from penstock.broker.stream import stream_actor
from penstock.broker.stream.stream_actor import StreamActor
from penstock.broker.stream.stream_cursor import StreamCursor
from penstock.broker.stream.stream_store import StreamStore
from penstock.protocol import methods as m
from penstock.protocol.integers import Timestamp
from penstock.protocol.values import Table, Value, decode_table
from penstock.streams.reading import StreamRead
from scripts.show_build import is_compiled
from tests.unit.broker.peer import Bed, Heard, Peer, headers_property, publish

S = 1_000_000_000


def made(bed: Bed, **arguments: Value) -> Peer:
    """A publisher, with stream `s` declared."""
    peer = bed.connect("publisher", channels=2)
    table: Table = {"x-queue-type": "stream"}
    table.update({name.replace("_", "-"): value for name, value in arguments.items()})
    peer.call(1, m.QueueDeclare("s", durable=True, arguments=table), m.QueueDeclareOk)
    return peer


def streaming(**arguments: Value) -> tuple[Bed, Peer]:
    """A broker, and a publisher who has declared the stream `s`."""
    bed = Bed()
    return bed, made(bed, **arguments)


def stream(bed: Bed) -> StreamActor:
    actor = bed.broker.vhosts["/"].queues["s"]
    assert isinstance(actor, StreamActor)
    return actor


def store(bed: Bed) -> StreamStore:
    return bed.broker.streams.stores["/"]


def reader(bed: Bed, offset: Value = "first", prefetch: int = 100, name: str = "reader") -> Peer:
    peer = bed.connect(name)
    peer.call(1, m.BasicQos(0, prefetch, False), m.BasicQosOk)
    peer.say(1, m.BasicConsume("s", "tag", arguments={"x-stream-offset": offset}))
    return peer


def given(peer: Peer) -> list[bytes]:
    """Bodies of the deliveries that are heard."""
    return [one.body for one in peer.heard() if isinstance(one.method, m.BasicDeliver)]


def headers(one: Heard) -> Table:
    """The headers, which are the only property."""
    assert one.header[12:14] == b"\x20\x00"
    return decode_table(one.header, 14, len(one.header))[0]


def test_everybody_reads_from_a_place_of_his_own() -> None:
    bed, peer = streaming()
    peer.publish("s", *(b"%d" % n for n in range(5)))
    assert given(reader(bed, "first", name="a")) == [b"0", b"1", b"2", b"3", b"4"]
    assert given(reader(bed, 3, name="b")) == [b"3", b"4"]
    late = reader(bed, 6, name="c")
    fresh = reader(bed, "next", name="d")
    assert given(late) == given(fresh) == []
    peer.publish("s", b"5", b"6", b"7")
    assert given(late) == [b"6", b"7"]
    assert given(fresh) == [b"5", b"6", b"7"]
    assert given(reader(bed, "first", name="e"))[0] == b"0"
    bed.settle()


def test_last_is_the_last_chunk() -> None:
    bed, peer = streaming()
    peer.publish("s", b"0", b"1")
    peer.publish("s", b"2", b"3")
    assert given(reader(bed, "last")) == [b"2", b"3"]


def test_times() -> None:
    bed, peer = streaming()
    start_s = bed.clock.wall_ns() // S
    for n in range(4):
        peer.publish("s", b"%d" % n)
        bed.clock.advance(10 * S)
    assert given(reader(bed, Timestamp(start_s + 15), name="a")) == [b"2", b"3"]
    assert given(reader(bed, Timestamp(start_s), name="b"))[0] == b"0"
    assert given(reader(bed, "15s", name="c")) == [b"3"]
    assert given(reader(bed, "1h", name="d"))[0] == b"0"
    future = reader(bed, Timestamp(start_s + 1000), name="e")
    peer.publish("s", b"4")
    assert given(future) == [], "it came before that time, and so it is passed over"
    bed.clock.advance(1000 * S)
    peer.publish("s", b"5")
    assert given(future) == [b"5"]


def test_deliveries_carry_their_offset() -> None:
    bed, peer = streaming()
    old: Table = {"a": 1, "x-stream-offset": "old", "z": "q"}
    peer.publish("s", b"plain")
    peer.send(publish(1, "", "s", b"headed", headers_property(old)))
    heard = reader(bed).heard()[1:]
    assert [headers(one) for one in heard] == [
        {"x-stream-offset": 0},
        {"a": 1, "z": "q", "x-stream-offset": 1},
    ]
    first = heard[0].method
    assert isinstance(first, m.BasicDeliver)
    assert (first.routing_key, first.redelivered, first.delivery_tag) == ("s", False, 1)


def test_an_acknowledgement_gives_room_and_nothing_else() -> None:
    bed, peer = streaming()
    peer.publish("s", *(b"%d" % n for n in range(6)))
    slow = reader(bed, prefetch=2)
    assert given(slow) == [b"0", b"1"]
    slow.say(1, m.BasicAck(1))
    assert given(slow) == [b"2"]
    slow.say(1, m.BasicAck(3, True))
    assert given(slow) == [b"3", b"4"]
    assert stream(bed).unacked_count == 2
    slow.hang_up()
    assert stream(bed).unacked_count == 0 and not stream(bed).cursors
    assert given(reader(bed, name="again")) == [b"%d" % n for n in range(6)]


def test_what_is_delivered_and_not_acknowledged_takes_no_memory_of_its_size() -> None:
    bed, peer = streaming()
    peer.publish("s", bytes(50_000))
    slow = reader(bed)
    (channel,) = slow.connection.channels.values()
    delivery = channel.table.oldest()
    assert delivery is not None and delivery.message.raw == b""
    assert slow.heard()[1].body == bytes(50_000)


def test_a_body_is_cut_as_its_receiver_has_agreed() -> None:
    bed, peer = streaming()
    body = bytes(n % 251 for n in range(20_000))
    peer.publish("s", body, b"")
    small = bed.connect("small", frame_bytes_max=4096)
    small.call(1, m.BasicQos(0, 10, False), m.BasicQosOk)
    small.say(1, m.BasicConsume("s", arguments={"x-stream-offset": "first"}))
    assert given(small) == [body, b""]


def test_a_publisher_is_confirmed() -> None:
    bed, peer = streaming()
    peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    peer.publish("s", b"a", b"b")
    assert peer.confirmed() == {1: "ack", 2: "ack"}
    bed.settle()


def test_many_messages_to_a_reader_that_answers() -> None:
    bed, peer = streaming()
    slow = reader(bed, prefetch=7)
    for start in range(0, 3000, 100):
        peer.publish("s", *(b"%d" % n for n in range(start, start + 100)))
    found: list[bytes] = []
    while True:
        some = given(slow)
        if not some:
            break
        found += some
        slow.say(1, m.BasicAck(len(found), True))
    assert found == [b"%d" % n for n in range(3000)]
    bed.settle()


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (m.BasicGet("s"), "basic.get"),
        (m.QueuePurge("s"), "queue.purge"),
        (m.BasicConsume("s", no_ack=True), "automatic acknowledgement"),
        (m.BasicNack(1, requeue=True), "basic.nack and basic.reject"),
        (m.BasicReject(1), "basic.nack and basic.reject"),
        (m.BasicRecover(True), "basic.recover"),
    ],
)
def test_what_streams_do_not_do(said: m.Method, what: str) -> None:
    bed, peer = streaming()
    peer.publish("s", b"a")
    other = reader(bed)
    other.heard()
    other.say(1, said)
    close = other.one(m.ConnectionClose)
    assert close.reply_code == 540
    assert close.reply_text == (
        f"NOT_IMPLEMENTED - {what} not supported by stream queues queue 's' in vhost '/'"
    )
    assert stream(bed).messages.ready_count() == 1


@pytest.mark.parametrize("said", [m.BasicNack(0, True), m.BasicRecover(True)], ids=str)
def test_what_a_stream_does_not_take_back_loses_nothing_of_other_queues(said: m.Method) -> None:
    bed, peer = streaming()
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    peer.publish("s", b"a")
    peer.publish("q", b"b")
    other = reader(bed)
    other.say(1, m.BasicGet("q"))
    assert len(other.heard()) == 3
    other.say(1, said)
    assert other.one(m.ConnectionClose).reply_code == 540
    other.hang_up()
    assert stream(bed).unacked_count == 0
    assert peer.call(1, m.QueuePurge("q"), m.QueuePurgeOk).message_count == 1
    bed.settle()


def test_arguments_of_another_declaration_count() -> None:
    _, peer = streaming(x_max_age="1h")
    table: Table = {"x-queue-type": "stream", "x-max-age": "2h"}
    peer.say(1, m.QueueDeclare("s", durable=True, arguments=table))
    assert "inequivalent arg 'x-max-age'" in peer.one(m.ChannelClose).reply_text


def test_a_deleted_stream_ends_its_consumers_and_gives_everything_back() -> None:
    bed, peer = streaming()
    peer.publish("s", b"a", b"b")
    other = reader(bed)
    other.heard()
    assert peer.call(2, m.QueueDelete("s"), m.QueueDeleteOk).message_count == 2
    assert other.one(m.BasicCancel).consumer_tag == "tag"
    assert not store(bed).lanes and not store(bed).handles.directory.names()
    other.say(1, m.BasicAck(2, True))
    bed.settle()


def test_in_memory_the_oldest_go() -> None:
    bed, peer = streaming(x_max_length_bytes=40_000, x_stream_max_segment_size_bytes=10_000)
    behind = reader(bed, prefetch=1)
    for n in range(60):
        peer.publish("s", b"%04d" % n + bytes(2000))
    actor = stream(bed)
    log = actor.counts.log
    assert log is not None and log.first() > 30 and log.committed == 60
    assert actor.messages.ready_count() == log.count()
    assert actor.messages.bytes_ready == log.disk_bytes < 60_000
    assert given(behind) == [b"0000" + bytes(2000)]
    behind.say(1, m.BasicAck(1))
    # What it was read ahead it still gets; then it goes on with the first there is.
    found = []
    while some := given(behind):
        found += some
        behind.say(1, m.BasicAck(len(found) + 1))
    numbers = [int(body[:4]) for body in found]
    assert numbers == sorted(set(numbers)) and numbers[-1] == 59
    assert set(range(int(log.first()), 60)) <= set(numbers)
    bed.settle()


@pytest.mark.skipif(is_compiled(stream_actor.__name__), reason="compiled calls are not counted")
def test_in_memory_one_read_is_looked_at_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    bed, peer = streaming()
    for _ in range(20):
        peer.publish("s", *(bytes(30_000) for _ in range(3)))
    reads: list[int] = []
    run, give = StreamRead.run, StreamActor._give_from

    def counted(read: StreamRead) -> None:
        reads[-1] += 1
        run(read)

    def in_turn(actor: StreamActor, cursor: StreamCursor, most: int) -> int:
        reads.append(0)
        return give(actor, cursor, most)

    monkeypatch.setattr(StreamRead, "run", counted)
    monkeypatch.setattr(StreamActor, "_give_from", in_turn)
    picky = bed.connect("picky")
    picky.call(1, m.BasicQos(0, 100, False), m.BasicQosOk)
    wanted: Table = {"x-stream-offset": "first", "x-stream-filter": "nothing has it"}
    picky.say(1, m.BasicConsume("s", "tag", arguments=wanted))
    assert sum(reads) > 5 and max(reads) == 1
    (cursor,) = stream(bed).cursors.values()
    assert given(picky) == [] and cursor.next == 60
    assert len(given(reader(bed))) == 60


def test_a_paused_stream_gives_nothing_and_takes_everything() -> None:
    bed, peer = streaming()
    other = reader(bed)
    stream(bed).pause(True)
    peer.publish("s", b"a")
    assert given(other) == []
    assert stream(bed).messages.ready_count() == 1
    stream(bed).pause(False)
    bed.run()
    assert given(other) == [b"a"]


def test_a_stream_takes_dead_letters() -> None:
    bed, peer = streaming()
    table: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "s"}
    peer.call(1, m.QueueDeclare("q", arguments={**table, "x-message-ttl": 0}), m.QueueDeclareOk)
    peer.publish("q", b"dead")
    bed.run()
    assert given(reader(bed)) == [b"dead"]
    bed.settle()


def test_what_is_shown() -> None:
    bed, peer = streaming(x_max_age="1h", x_max_length_bytes=1_000_000)
    peer.publish("s", b"a", b"b")
    said = stream_in_words(stream(bed))
    assert said["offsets"] == "0..2" and said["max-age"] == "1h"
    assert said["segments"].startswith("1 with ")
    snapshot = stream_store_snapshot(bed.broker, store(bed))
    assert (snapshot.actor, snapshot.kind) == ("store:/:streams", "store")
    assert snapshot.numbers["synced"] == 2 and snapshot.numbers["mailbox"] == 0
    reader(bed, "next")
    assert stream_in_words(stream(bed)) == said | {"lag": "0"}
    reader(bed, prefetch=1, name="slow")
    assert stream_in_words(stream(bed))["lag"] == "1"


def test_one_message_is_in_many_streams_and_queues() -> None:
    bed, peer = streaming()
    table: Table = {"x-queue-type": "stream"}
    peer.call(1, m.QueueDeclare("t", durable=True, arguments=table), m.QueueDeclareOk)
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)
    for name in ("s", "t", "q"):
        peer.call(1, m.QueueBind(name, "amq.fanout", ""), m.QueueBindOk)
    peer.publish("", b"x", b"y", exchange="amq.fanout")
    queues = bed.broker.vhosts["/"].queues
    assert [int(queues[name].messages.ready_count()) for name in ("s", "t", "q")] == [2, 2, 2]
    heard = reader(bed).heard()[1]
    assert isinstance(heard.method, m.BasicDeliver) and heard.method.exchange == "amq.fanout"


def test_policies_say_what_a_stream_keeps() -> None:
    bed, peer = streaming(x_stream_max_segment_size_bytes=5000)
    for _ in range(20):
        peer.publish("s", bytes(1000))
    assert stream(bed).messages.ready_count() == 20
    said = {"max-length-bytes": 10_000, "expires": 1, "message-ttl": 1, "max-length": 1}
    bed.broker.policy_manager.set(Policy("/", "short", "^s$", said, 0, "streams"), False)
    bed.run()
    bed.clock.advance(10 * S)
    for _ in range(5):
        peer.publish("s", bytes(1000))
    log = stream(bed).counts.log
    assert log is not None and log.disk_bytes < 16_000 and log.first() > 10
    assert stream(bed).queue_limits is None, "the rules of other queues are none of a stream's"
    bed.broker.policy_manager.clear("/", "short", False)
    bed.run()
    for _ in range(20):
        peer.publish("s", bytes(1000))
    assert log.disk_bytes > 20_000
    bed.settle()


def test_an_expiration_means_nothing_to_a_stream() -> None:
    bed, peer = streaming()
    peer.send(publish(1, "", "s", b"brief", (0x0100, b"\x010")))
    bed.clock.advance(S)
    assert given(reader(bed)) == [b"brief"]
    assert stream(bed).queue_limits is None
