"""Whole chunks over the wire: what lies on the disk, counted as one delivery, up to an end."""

import pytest

from penstock.protocol import methods as m
from penstock.protocol.integers import Timestamp
from penstock.protocol.values import Table, Value, decode_table
from penstock.storage.layout.checksum import extend_of
from penstock.streams.chunk import Chunk, is_whole
from penstock.streams.handout import CONTENT_TYPE
from tests.unit.broker.peer import Bed, Heard, Peer
from tests.unit.broker.stream.test_streams import S, stream, streaming


def chunk_reader(
    bed: Bed,
    offset: Value = "first",
    prefetch: int = 100,
    frame_bytes_max: int = 131_072,
    **arguments: Value,
) -> Peer:
    peer = bed.connect("columns", frame_bytes_max=frame_bytes_max)
    peer.call(1, m.BasicQos(0, prefetch, False), m.BasicQosOk)
    table: Table = {"x-stream-offset": offset, "x-penstock-format": "chunk"}
    table.update({name.replace("_", "-"): value for name, value in arguments.items()})
    peer.say(1, m.BasicConsume("s", "tag", arguments=table))
    return peer


def said(one: Heard) -> Table:
    """The headers of a delivery of chunks, behind its content type."""
    at = 14 + 1 + len(CONTENT_TYPE)
    assert one.header[12:14] == b"\xa0\x00"
    assert one.header[15:at] == CONTENT_TYPE
    return decode_table(one.header, at, len(one.header))[0]


def opened(one: Heard) -> list[Chunk]:
    """The chunks of a delivery, each checked as a stranger would."""
    table = said(one)
    version, seed = table["x-chunk-version"], table["x-chunk-seed"]
    assert isinstance(version, int) and isinstance(seed, int)
    chunks: list[Chunk] = []
    at = 0
    while at < len(one.body):
        assert is_whole(one.body, at, extend_of(version), seed)
        chunks.append(Chunk(one.body, at))
        at += int(chunks[-1].size)
    assert table["x-stream-offset"] == chunks[0].first
    assert table["x-stream-count"] == sum(int(chunk.count) for chunk in chunks)
    return chunks


def deliveries(peer: Peer) -> list[Heard]:
    return [one for one in peer.heard() if isinstance(one.method, m.BasicDeliver)]


def bodies(chunks: list[Chunk]) -> list[bytes]:
    found = []
    for chunk in chunks:
        at = chunk.column(1, "i", chunk.count + 1)
        start = int.from_bytes(chunk.data[chunk.at + 44 + 36 : chunk.at + 44 + 40], "little")
        data = chunk.data[chunk.at + start :]
        found += [data[at[n] : at[n + 1]] for n in range(int(chunk.count))]
    return found


def spans(peer: Peer) -> list[tuple[int, int]]:
    """First offset and count of every delivery heard."""
    found = []
    for one in deliveries(peer):
        chunks = opened(one)
        found.append((int(chunks[0].first), sum(int(chunk.count) for chunk in chunks)))
    return found


def filled(chunks: int, rows: int) -> tuple[Bed, Peer]:
    """A broker, the publisher of a stream with `chunks` chunks of `rows` messages."""
    bed, peer = streaming()
    for chunk in range(chunks):
        peer.publish("s", *(b"%d" % (chunk * rows + row) for row in range(rows)))
    return bed, peer


def test_what_was_read_together_is_one_delivery() -> None:
    bed, _ = filled(3, 4)
    (one,) = deliveries(chunk_reader(bed))
    assert isinstance(one.method, m.BasicDeliver)
    assert (one.method.routing_key, one.method.delivery_tag) == ("s", 1)
    assert bodies(opened(one)) == [b"%d" % n for n in range(12)]
    assert stream(bed).unacked_count == 1
    bed.settle()


def test_the_chunk_with_the_offset_comes_whole() -> None:
    bed, _ = filled(3, 4)
    assert spans(chunk_reader(bed, 6)) == [(4, 8)]


def test_what_comes_later_comes_at_once() -> None:
    bed, peer = filled(1, 2)
    late = chunk_reader(bed, "next")
    assert spans(late) == []
    peer.publish("s", b"2", b"3", b"4")
    assert spans(late) == [(2, 3)]


def test_nothing_is_delivered_from_the_end_on() -> None:
    bed, peer = filled(3, 4)
    some = chunk_reader(bed, 0, x_stream_until=5)
    assert spans(some) == [(0, 8)]
    peer.publish("s", b"12")
    assert spans(some) == []
    assert spans(chunk_reader(bed, 0, x_stream_until=4)) == [(0, 4)]
    # An end that is not there yet is waited for.
    waiting = chunk_reader(bed, 13, x_stream_until=15)
    peer.publish("s", b"13")
    assert spans(waiting) == [(13, 1)]
    peer.publish("s", b"14", b"15")
    peer.publish("s", b"16")
    assert spans(waiting) == [(14, 2)]


def test_a_range_that_is_gone_shows_by_the_first_chunk_there_is() -> None:
    bed, peer = streaming(x_stream_max_segment_size_bytes=5_000, x_max_length_bytes=10_000)
    for _ in range(6):
        peer.publish("s", bytes(5_000))
    log = stream(bed).counts.log
    assert log is not None and log.first() > 1
    assert spans(chunk_reader(bed, 0, x_stream_until=1)) == [(log.first(), 1)]


def test_prefetch_counts_deliveries_and_acknowledging_gives_room() -> None:
    bed, peer = filled(1, 2)
    slow = chunk_reader(bed, "first", 1)
    assert spans(slow) == [(0, 2)]
    peer.publish("s", b"2")
    peer.publish("s", b"3")
    assert spans(slow) == []
    slow.say(1, m.BasicAck(1))
    assert spans(slow) == [(2, 2)]


def test_a_chunk_is_cut_into_frames_as_its_reader_has_agreed() -> None:
    bed, peer = streaming()
    body = bytes(n % 251 for n in range(20_000))
    peer.publish("s", body, b"", body)
    assert bodies(opened(deliveries(chunk_reader(bed, frame_bytes_max=4096))[0])) == [
        body,
        b"",
        body,
    ]


def test_chunks_that_ended_before_a_time_are_passed_over() -> None:
    bed, peer = streaming()
    start_s = bed.clock.wall_ns() // S
    for n in range(4):
        peer.publish("s", b"%d" % n)
        bed.clock.advance(10 * S)
    assert spans(chunk_reader(bed, Timestamp(start_s + 15))) == [(2, 2)]


def test_a_reader_that_retention_has_overtaken_goes_on_with_the_first_there_is() -> None:
    bed, peer = streaming(x_stream_max_segment_size_bytes=20_000, x_max_length_bytes=50_000)
    for _ in range(3):
        peer.publish("s", bytes(5_000))
    reader = chunk_reader(bed, "first", 1)
    assert spans(reader) == [(0, 3)]
    for _ in range(40):
        peer.publish("s", bytes(5_000))
    log = stream(bed).counts.log
    assert log is not None and log.first() > 3
    reader.say(1, m.BasicAck(1))
    ((first, _),) = spans(reader)
    assert first == log.first()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-penstock-format": "rows"}, "'x-penstock-format'"),
        ({"x-stream-until": 5}, "x-penstock-format=chunk"),
        ({"x-penstock-format": "chunk", "x-stream-until": -1}, "0 or more"),
        ({"x-penstock-format": "chunk", "x-stream-until": "5"}, "0 or more"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: Table, text: str) -> None:
    bed, _ = streaming()
    peer = bed.connect("reader")
    peer.call(1, m.BasicQos(0, 10, False), m.BasicQosOk)
    closed = peer.call(1, m.BasicConsume("s", arguments=arguments), m.ChannelClose)
    assert closed.reply_code == 406
    assert text in closed.reply_text
