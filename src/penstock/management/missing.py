"""Whose part the answers to one request lack: of several workers one may be away for a moment.

Listings go on without it, in RabbitMQ's form, which has no place to say so: HEADER does, and a line
on every page. What is kept for all who ask remembers it and notes it for each of them.
"""

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, Final

HEADER: Final = "x-penstock-missing"
_PARTS: ContextVar[dict[str, None] | None] = ContextVar("parts", default=None)


def begin() -> None:
    """A request comes in; it is alone in its task."""
    _PARTS.set({})


def parts_of(answer: dict[str, Any]) -> tuple[str, ...]:
    """Whose part this answer of the broker lacks, as `worker 1: …`."""
    return tuple(str(one) for one in answer.get("missing", ()))


def note(parts: Iterable[str]) -> None:
    """What the request of this task is answered with lacks `parts`."""
    there = _PARTS.get()
    if there is not None:
        there.update(dict.fromkeys(parts))


def noted() -> list[str]:
    return list(_PARTS.get() or ())


def header_text() -> str:
    """For HEADER; "" where nothing is missing."""
    text = "; ".join(noted())
    return "".join(one if " " <= one <= "~" else "?" for one in text)
