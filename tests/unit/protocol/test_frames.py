"""The method of a content is the object of the one before it exactly when their bytes are equal."""

import struct

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
        found.append(received.message.method)
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
    assert received.message is not None and received.message.method == longer
    assert parser.last_method == longest
