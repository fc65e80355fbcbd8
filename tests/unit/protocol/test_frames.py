"""The method of a content is the object of the one before it exactly when their bytes are equal."""

import struct
import time
import tracemalloc

import pytest

from penstock.base.errors import ConnectionFault
from penstock.protocol.frames import METHOD_KEPT_BYTES, FrameParser, Received


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, 1, len(payload)) + payload + b"\xce"


def publish(method: bytes) -> bytes:
    header = struct.pack(">HHQH", 60, 0, 1, 0)
    return frame(1, method) + frame(2, header) + frame(3, b"x")


def method_of(exchange: bytes, key: bytes) -> bytes:
    names = bytes([len(exchange)]) + exchange + bytes([len(key)]) + key
    return b"\x00\x3c\x00\x28\x00\x00" + names + b"\x00"


def methods(stream: bytes) -> list[bytes]:
    parser = FrameParser(131_072, 1 << 20)
    parser.feed(stream)
    received = Received()
    found = []
    while parser.next(received):
        assert received.message is not None
        found.append(received.message.address.method)
    return found


def test_publishes_to_one_address_share_their_method() -> None:
    for length in (0, 1, 2, 5, 8, 9, 40, 255):
        method = method_of(b"ex", b"k" * length)
        first, second, third = methods(publish(method) * 3)
        assert first == method
        assert second is first and third is first


def test_a_method_that_differs_in_any_one_byte_is_its_own() -> None:
    for length in (0, 1, 2, 3, 7, 8, 15, 16, 17, 33):
        method = method_of(b"", b"k" * length)
        # The first four bytes say that it is a publish.
        for at in range(4, len(method)):
            other = method[:at] + bytes([method[at] ^ 1]) + method[at + 1 :]
            sent = [method, other, method, other, other]
            assert methods(b"".join(publish(one) for one in sent)) == sent


def test_a_method_too_long_for_a_publish_is_not_kept() -> None:
    longest = method_of(b"e" * 255, b"k" * 255)
    assert len(longest) == METHOD_KEPT_BYTES
    first, second = methods(publish(longest) * 2)
    assert second is first
    longer = longest + b"\x00"
    parser = FrameParser(131_072, 1 << 20)
    parser.feed(publish(longest) + publish(longer))
    received = Received()
    assert parser.next(received) and parser.next(received)
    assert received.message is not None and received.message.address.method == longer
    assert parser.last_address.method == longest


def content(*bodies: bytes) -> bytes:
    total = sum(len(body) for body in bodies)
    header = struct.pack(">HHQH", 60, 0, total, 0)
    frames = b"".join(frame(3, body) for body in bodies)
    return frame(1, method_of(b"ex", b"key")) + frame(2, header) + frames


MIXED = b"".join(
    (
        content(b"a" * 40),
        frame(1, struct.pack(">HHQB", 60, 80, 7, 1)),
        content(),
        content(b"b" * 30, b"c" * 9),
        frame(1, struct.pack(">HHB", 20, 20, 1)),
        b"\x08\x00\x00\x00\x00\x00\x00\xce",
        content(b"\xce" * 25),
        content(b"last"),
    )
)


def seen(parser: FrameParser) -> list[tuple[int, bytes]]:
    """All that is there now, as kinds and bytes."""
    received = Received()
    found = []
    while parser.next(received):
        if received.message is not None:
            found.append((0, received.message.raw))
        else:
            assert received.event is not None
            found.append((int(received.event.kind), received.event.payload))
    return found


def seen_whole() -> list[tuple[int, bytes]]:
    parser = FrameParser(131_072, 1 << 20)
    parser.feed(MIXED)
    return seen(parser)


def test_where_the_stream_was_cut_does_not_show() -> None:
    wanted = seen_whole()
    assert len(wanted) == 8
    for first in range(1, len(MIXED)):
        for second in {first + 1, first + 20, first + 70, len(MIXED)}:
            parser = FrameParser(131_072, 1 << 20)
            found = []
            for piece in (MIXED[:first], MIXED[first:second], MIXED[second:]):
                parser.feed(piece)
                found += seen(parser)
            assert found == wanted, (first, second)
            assert parser.unread_bytes() == 0


def test_what_is_fed_before_it_is_looked_at_stays_in_its_order() -> None:
    wanted = seen_whole()
    for first in range(1, len(MIXED) - 60):
        parser = FrameParser(131_072, 1 << 20)
        parser.feed(MIXED[:first])
        found = seen(parser)
        parser.feed(MIXED[first : first + 55])
        parser.feed(MIXED[first + 55 :])
        assert parser.unread_bytes() >= len(MIXED) - first
        found += seen(parser)
        assert found == wanted


def test_what_completes_a_content_is_all_that_is_copied() -> None:
    parser = FrameParser(131_072, 1 << 20)
    large = content(b"x" * 5000)
    parser.feed(large[:3000])
    assert seen(parser) == []
    data = large[3000:] + content(b"y" * 5000) * 10
    parser.feed(data)
    received = Received()
    assert parser.next(received) and parser.next(received)
    assert parser.buffer is data
    parser.forget()
    assert parser.unread_bytes() == 0 and seen(parser) == []


@pytest.mark.parametrize("cut", [0, 1, 11, 50, 4000])
@pytest.mark.parametrize("size", [4088, 4089, 4096])
def test_a_payload_may_be_as_large_as_a_frame(size: int, cut: int) -> None:
    """RabbitMQ's slack: AMQPStorm counts no envelope."""
    for stream in (content(b"x" * size), content(b"a", b"x" * size)):
        parser = FrameParser(4096, 1 << 20)
        parser.feed(stream[:cut])
        found = seen(parser)
        parser.feed(stream[cut:])
        found += seen(parser)
        assert [raw.count(b"x") for _, raw in found] == [size]


@pytest.mark.parametrize("kind", [1, 2, 3, 8])
def test_a_larger_payload_is_refused_before_it_is_there(kind: int) -> None:
    parser = FrameParser(4096, 1 << 20)
    parser.feed(frame(kind, b"x" * 4097)[:8])
    with pytest.raises(ConnectionFault, match=r"frame_too_large,4097,4088") as caught:
        parser.next(Received())
    assert caught.value.code == 501


def test_a_stream_may_come_byte_by_byte() -> None:
    for size in (1, 2, 5, 11):
        parser = FrameParser(131_072, 1 << 20)
        found = []
        for at in range(0, len(MIXED), size):
            parser.feed(MIXED[at : at + size])
            found += seen(parser)
            assert parser.is_cut() == (parser.unread_bytes() > 0)
        assert found == seen_whole()
        assert parser.unread_bytes() == 0


def test_a_large_frame_in_small_pieces_does_not_cost_its_square() -> None:
    body = bytes(1 << 24)
    large = content(body)
    parser = FrameParser(1 << 24, 1 << 24)
    began_s = time.process_time()
    found = []
    for at in range(0, len(large), 1000):
        parser.feed(large[at : at + 1000])
        found += seen(parser)
    # Copied anew with every piece it takes 20 s and more.
    assert time.process_time() - began_s < 3.0
    assert [len(one) for _, one in found] == [len(body) + 30]


def test_tiny_frames_take_no_more_memory_than_what_is_counted() -> None:
    count = 50_000
    parser = FrameParser(131_072, 1 << 24)
    parser.feed(frame(1, method_of(b"", b"q")) + frame(2, struct.pack(">HHQH", 60, 0, 1 << 20, 0)))
    assert seen(parser) == []
    piece = frame(3, b"x") * 1000
    tracemalloc.start()
    for _ in range(count // 1000):
        parser.feed(bytes(piece))
        assert seen(parser) == []
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert parser.kept >= count * 9
    assert taken < 2 * parser.kept
