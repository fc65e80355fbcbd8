"""When to look at the disk again: the less room there is, the sooner.

    room = free - limit            next look = room / (the fastest a disk is filled) / 2
Source: flow-semantics 10.3, scenario 75.
"""

from typing import Final

POLL_MS_MIN: Final = 100
POLL_MS_MAX: Final = 10_000
FILL_BYTES_PER_MS: Final = 250_000
"""The speed that is assumed: 250 MB/s."""


def next_look_ms(free_bytes: int, limit_bytes: int, is_alarmed: bool) -> int:
    """Milliseconds until the next look, POLL_MS_MIN..POLL_MS_MAX; the longest while the alarm is
    set, because then nothing is published that could fill it."""
    if is_alarmed:
        return POLL_MS_MAX
    room_ms = 2 * (free_bytes - limit_bytes) // FILL_BYTES_PER_MS
    return max(POLL_MS_MIN, min(POLL_MS_MAX, room_ms))
