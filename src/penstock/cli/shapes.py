"""Answers as the classes of broker/admin/answers, and as JSON.

Apart, because msgspec takes a quarter of the time in which a command may start, and a command that
prints one short answer does without."""

from typing import Any, TypeVar

import msgspec

from penstock.base.errors import OperatorError

T = TypeVar("T")


def converted(found: Any, shape: type[T]) -> T:
    """`found` as a `shape`. Raises: OperatorError if it is none."""
    try:
        return msgspec.convert(found, shape)
    except msgspec.ValidationError as error:
        raise OperatorError(
            f"the answer is not what this version of the command knows ({error}): the broker is of "
            "another version, or is none of Penstock; use the command that was installed with it"
        ) from error


def as_json(value: object) -> str:
    """One line."""
    return msgspec.json.encode(value).decode()
