"""Frames between members: round trips, junk, and versions."""

import pytest

from penstock.replication.frames import (
    PROTOCOL,
    RESYNC,
    Ack,
    Attach,
    Attached,
    Entries,
    Fenced,
    Frame,
    FrameFault,
    Heartbeat,
    Hello,
    Refused,
    decode,
    encode,
    version_refusal,
)
from penstock.replication.positions import Entry, Position

FRAMES: list[Frame] = [
    Hello(PROTOCOL, "c", "a", "a1", 4),
    Refused("why"),
    Heartbeat(4, True, 17),
    Attach(4, 1 << 40, Position(3, 9), True, 0, False),
    Attached(4, 7, RESYNC, Position(4, 10), Position(4, 10)),
    Entries(4, 7, Position(3, 9), 9, (Entry(4, 10, b"\0\xff"), Entry(4, 11, b""))),
    Ack(4, 7, Position(4, 11), True),
    Fenced(5),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_round_trip(frame: Frame) -> None:
    assert decode(encode(frame)) == frame


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_a_frame_that_is_cut_or_changed_is_refused_or_is_another_frame(frame: Frame) -> None:
    data = encode(frame)
    for end in range(len(data)):
        with pytest.raises(FrameFault, match=f"a frame of {end} bytes"):
            decode(data[:end])
    for at in range(len(data)):
        for bit in range(8):
            spoiled = bytearray(data)
            spoiled[at] ^= 1 << bit
            try:
                decode(bytes(spoiled))
            except FrameFault:
                continue


def test_members_may_be_one_version_apart() -> None:
    assert version_refusal(PROTOCOL) == version_refusal(PROTOCOL + 1) == ""
    assert "too much newer" in version_refusal(PROTOCOL + 2)
    assert "too much older" in version_refusal(PROTOCOL - 2)
