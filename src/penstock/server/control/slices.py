"""Long work done on the loop without holding it: a few milliseconds, then everybody else's turn."""

import asyncio
import time
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from penstock.broker.actors.steps import Steps

SLICE_NS: Final = 2_000_000
ROWS: Final = 256
"""Of a long list that are written as JSON at a time."""
T = TypeVar("T")


async def in_slices(steps: Steps[T]) -> T:
    """Run `steps` to their end. Whoever awaits it may give up; the steps done stay done."""
    try:
        while True:
            rest_s = _slice(steps)
            await asyncio.sleep(rest_s)
    except _Ended as end:
        found: T = end.value  # type: ignore[assignment]  # what `steps` has returned
        return found


def _slice(steps: Steps[T]) -> float:
    """Steps for SLICE_NS, or until one wants to rest. Raises: _Ended."""
    end_ns = time.monotonic_ns() + SLICE_NS
    while True:
        try:
            rest_s = next(steps)
        except StopIteration as end:
            raise _Ended(end.value) from None
        if rest_s > 0 or time.monotonic_ns() >= end_ns:
            return rest_s


class _Ended(Exception):
    """The steps have ended with `value`; a coroutine may not raise StopIteration."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


def json_steps(value: object) -> Steps[bytes]:
    """`value` as JSON, written in steps."""
    parts: list[bytes] = []
    for part in _parts(value):
        parts.append(part)
        yield 0.0
    return b"".join(parts)


def _parts(value: object) -> Iterator[bytes]:
    """Objects that hold lists are taken apart, and long lists; the rest is written whole."""
    if isinstance(value, list) and len(value) > ROWS:
        for start in range(0, len(value), ROWS):
            yield b"," if start else b"["
            yield msgspec.json.encode(value[start : start + ROWS])[1:-1]
        yield b"]"
    elif isinstance(value, dict) and any(isinstance(one, list | dict) for one in value.values()):
        mark = b"{"
        for key, one in value.items():
            yield mark + msgspec.json.encode(key) + b":"
            yield from _parts(one)
            mark = b","
        yield b"}"
    else:
        yield msgspec.json.encode(value)
