"""Long work in small steps, as of broker/actors/cooperative, run to its end in one go."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def whole(steps: Generator[float, None, T]) -> T:
    """What `steps` come to, where nobody else waits: for records, and tests."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
