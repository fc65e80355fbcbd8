"""The first bytes of every body: when it should have been sent, and how much later it was.

    intended: uint64, nanoseconds of the machine's monotonic clock | held: uint32, microseconds

Both latencies follow from it without a table of sent messages: from the intended moment (what a
user feels; free of coordinated omission) and from the moment it left (what the broker adds).
Producer and consumer must share the clock: the same machine.
"""

import struct
from typing import Final

STAMP: Final = struct.Struct(">QI")
STAMP_BYTES: Final = STAMP.size
HELD_US_MAX: Final = 0xFFFFFFFF
OLDEST_NS: Final = 3_600_000_000_000
"""A message older than an hour, or from the future, was not stamped by this clock."""


def write_stamp(intended_ns: int, now_ns: int) -> bytes:
    """The stamp of a message meant for `intended_ns` and published at `now_ns`, not earlier."""
    held_us = (now_ns - intended_ns) // 1000
    return STAMP.pack(intended_ns, held_us if held_us < HELD_US_MAX else HELD_US_MAX)


def read_stamp(raw: bytes, at: int, now_ns: int, oldest_ns: int) -> tuple[int, int] | None:
    """Latency from the intended moment and from publishing, both nanoseconds, 0...

    raw, at: where the body starts. None when there is no stamp there of this machine's clock, or
    one older than `oldest_ns`: another program's message, or one of an earlier run.
    """
    if at + STAMP_BYTES > len(raw):
        return None
    intended_ns, held_us = STAMP.unpack_from(raw, at)
    whole_ns = now_ns - intended_ns
    if not 0 <= whole_ns <= oldest_ns:
        return None
    sent_ns = whole_ns - held_us * 1000
    return whole_ns, sent_ns if sent_ns > 0 else 0
