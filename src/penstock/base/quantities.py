"""Quantities as people write them: sizes, shares, durations, rates and credit windows.

Every parser names the text, what is wrong with it, and how it is written. Every printer gives text
that its parser reads back as the same value.
"""

import re
from typing import Final

from penstock.base.errors import OperatorError

_LETTERS: Final = "kmgtp"
_UNITS: Final = {
    "": 1,
    "b": 1,
    **{f"{letter}{end}": 1000 ** (n + 1) for n, letter in enumerate(_LETTERS) for end in ("", "b")},
    **{
        f"{letter}{end}": 1024 ** (n + 1)
        for n, letter in enumerate(_LETTERS)
        for end in ("i", "ib")
    },
}
"""RabbitMQ's since 3.13: a letter alone is decimal, as GB is; before, K, M and G were binary."""
BYTES_MAX: Final = (1 << 63) - 1
_NS: Final = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_NUMBER: Final = re.compile(r"([0-9]{1,24}(?:\.[0-9]+)?)\s*([a-zA-Z]*)")


def parse_bytes(text: str) -> int:
    """`64MiB`, `1.5GB`, `9000TB`, `4096` as bytes, 0..BYTES_MAX. Raises: OperatorError."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[2].lower() not in _UNITS:
        raise OperatorError(
            f"'{text}' is not a size; write bytes, or KB, MB, GB, TB, PB (of 1000), or KiB, MiB, "
            "GiB, TiB, PiB (of 1024)"
        )
    unit = _UNITS[match[2].lower()]
    bytes_ = int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit
    if bytes_ > BYTES_MAX:
        raise OperatorError(
            f"'{text}' is not a size there can be; the largest is {BYTES_MAX} bytes"
        )
    return bytes_


def show_bytes(bytes_: int) -> str:
    """Bytes in the largest binary unit that leaves a whole number."""
    for name in ("PiB", "TiB", "GiB", "MiB", "KiB"):
        size = _UNITS[name.lower()]
        if bytes_ >= size and bytes_ % size == 0:
            return f"{bytes_ // size}{name}"
    return str(bytes_)


def parse_share(text: str) -> float:
    """`0.4` or `40%` as a share 0..1. Raises: OperatorError."""
    stripped = text.strip()
    is_percent = stripped.endswith("%")
    try:
        share = float(stripped.rstrip("%")) / (100 if is_percent else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise OperatorError(f"'{text}' is not a share; write 0.4 or 40%, from 0 to 1")
    return share


def parse_duration_ns(text: str) -> int:
    """`250ms`, `2s`, `5m`, `1h`, `30d` as nanoseconds. Raises: OperatorError."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[2].lower() not in _NS:
        raise OperatorError(
            f"'{text}' is not a duration; write a number with ns, us, ms, s, m, h or d"
        )
    return round(float(match[1]) * _NS[match[2].lower()])


def show_duration(ns: int) -> str:
    """Nanoseconds in the largest unit that leaves a whole number."""
    for name in ("h", "m", "s", "ms", "us"):
        if ns >= _NS[name] and ns % _NS[name] == 0:
            return f"{ns // _NS[name]}{name}"
    return f"{ns}ns"


def parse_window(text: str) -> tuple[int, int]:
    """`400/200` as (initial, more after); each part is a size, so `4MiB/2MiB` is one too.
    `off` is (0, 0). Raises: OperatorError."""
    if text.strip().lower() == "off":
        return 0, 0
    first, slash, second = text.partition("/")
    if slash == "":
        raise OperatorError(f"'{text}' is not a window; write INITIAL/MORE_AFTER, or off")
    return parse_bytes(first), parse_bytes(second)


def show_window(initial: int, more_after: int) -> str:
    """A window as `parse_window` reads it."""
    if initial == 0 and more_after == 0:
        return "off"
    return f"{show_bytes(initial)}/{show_bytes(more_after)}"


def parse_rate(text: str) -> float:
    """`1000/s`, `5MB/s` or `off` as units a second; 0.0 for off. Raises: OperatorError."""
    stripped = text.strip().lower()
    if stripped == "off":
        return 0.0
    return float(parse_bytes(stripped.removesuffix("/s")))


def show_rate(per_second: float) -> str:
    """A rate as `parse_rate` reads it."""
    return "off" if per_second <= 0 else f"{show_bytes(int(per_second))}/s"
