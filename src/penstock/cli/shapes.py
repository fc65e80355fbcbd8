"""Answers as the classes of broker/admin/answers, and as JSON.

Apart, because msgspec takes a quarter of the time in which a command may start, and a command that
prints one short answer does without."""

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def converted(found: Any, shape: type[T]) -> T:
    """`found` as a `shape`."""
    return msgspec.convert(found, shape)


def as_json(value: object) -> str:
    """One line."""
    return msgspec.json.encode(value).decode()
