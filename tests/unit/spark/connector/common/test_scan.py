"""However the input is cut, the same deliveries and the same other frames come out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import ConnectionFault
from penstock.spark.connector.common.scan import DeliveryScanner
from tests.unit.spark.connector.wire import CHANNEL, HEARTBEAT, frames_of

FRAME_BYTES = 40
OTHER_CHANNEL = b"\x01\x00\x02\x00\x00\x00\x04\x00\x14\x00\x0b\xce"


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Frames in the order of the wire; the deliveries in it; the other frames in it."""
    wire: list[bytes] = []
    messages: list[bytes] = []
    others: list[bytes] = []
    for tag in range(1, draw(st.integers(1, 8)) + 1):
        frames = frames_of(tag, draw(st.binary(max_size=120)), frame_bytes_max=FRAME_BYTES)
        messages.append(b"".join(frames))
        for frame in frames:
            wire.append(frame)
            if draw(st.integers(0, 3)) == 0:
                other = draw(st.sampled_from([HEARTBEAT, OTHER_CHANNEL]))
                wire.append(other)
                others.append(other)
    return wire, messages, others


@given(conversations(), st.lists(st.integers(1, 200), min_size=1, max_size=20))
def test_every_cut_of_the_input_gives_the_same(
    conversation: tuple[list[bytes], list[bytes], list[bytes]], steps: list[int]
) -> None:
    wire, messages, others = conversation
    data = b"".join(wire)
    scanner = DeliveryScanner(CHANNEL)
    found: list[bytes] = []
    frames: list[bytes] = []
    at = turn = 0
    while at < len(data):
        step = steps[turn % len(steps)]
        scanned = scanner.feed(data[at : at + step])
        at += step
        turn += 1
        start = 0
        for end in scanned.ends:
            found.append(scanned.raw[start:end])
            start = end
        assert start == len(scanned.raw)
        frames += scanned.frames
    assert found == messages
    assert frames == others


def test_a_large_body_is_not_joined_again_with_every_piece() -> None:
    data = b"".join(frames_of(1, bytes(1_000_000)))
    scanner = DeliveryScanner(CHANNEL)
    pieces = [data[at : at + 10_000] for at in range(0, len(data), 10_000)]
    for piece in pieces[1:]:
        assert not scanner.feed(pieces.pop(0)).ends
        if piece is pieces[-1]:
            break
    assert scanner.feed(pieces[0]).raw == data


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"".join(frames_of(1, b"x"))[:-1] + b"\x00",
        HEARTBEAT[:-1] + b"\x00",
        b"".join(frames_of(1, b"x")[:1] + frames_of(2, b"x")),
    ],
    ids=["no AMQP", "bad end of a body", "bad end of a frame", "a header is missing"],
)
def test_what_is_no_frame_is_a_fault(data: bytes) -> None:
    with pytest.raises(ConnectionFault):
        DeliveryScanner(CHANNEL).feed(data)
