"""Numbers from 0 to 2^32 - 1 that look like chance and are the same in every run. COMPILED.

Source of the constants: C. Wellons, "Prospecting for Hash Functions", a 32-bit mixer whose factors
are below 2^31, so that no product leaves 63 bits and compiled arithmetic agrees with interpreted.
"""

from typing import Final
from zlib import crc32

from mypy_extensions import i64

MIXED_SPAN: Final = 1 << 32


def mixed(number: i64) -> i64:
    """`number`, 0..2^32 - 1, to another of the same span, one to one."""
    number ^= number >> 16
    number = (number * 0x21F0AAAD) & 0xFFFFFFFF
    number ^= number >> 15
    number = (number * 0x735A2D97) & 0xFFFFFFFF
    return number ^ (number >> 15)


def text_number(text: str) -> i64:
    """A number for `text`, 0..2^32 - 1."""
    return mixed(i64(crc32(text.encode("utf-8", "surrogateescape"))))
