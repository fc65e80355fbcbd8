"""Where reading of a stream begins and ends, as options say it: words, offsets, times; by queue.

A place is kept as text, which is also how it is shown in errors:

    ""           nothing was said          "earliest", "latest"
    "1200"       an offset                 "@1700000000000"      a time, ms since 1970 (UTC)

Three options say it, and one of them at most may be given: `startingOffsets` for all queues, or as
JSON for each; `startingTimestamp` for all; `startingOffsetsByTimestamp` as JSON for each. The same
with `ending`.
"""

import json
from datetime import UTC, datetime
from typing import Final

from penstock.base.errors import OperatorError
from penstock.spark.connector.common.option_values import Values

OFFSET_DIGITS_MAX: Final = 18
TIME_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999."""


def parse_places(
    values: Values, which: str, words: tuple[str, ...], queues: tuple[str, ...]
) -> tuple[str, ...]:
    """The place for each of `queues`, in their order. which: starting or ending.

    Raises: OperatorError for two options that say it, a value that is no place, and JSON that names
    other queues than the query reads.
    """
    plain, time, each = f"{which}Offsets", f"{which}Timestamp", f"{which}OffsetsByTimestamp"
    given = [name for name in (plain, time, each) if values.has(name)]
    if len(given) > 1:
        raise OperatorError(f"options {' and '.join(given)}: give one of them")
    if not given:
        return ("",) * len(queues)
    name = given[0]
    text = values.text(name).strip()
    if name == each or text.startswith("{"):
        found = _by_queue(name, text, queues)
        return tuple(_place(name, found[queue], words, name == plain) for queue in queues)
    place = _place(name, text, words, name == plain)
    if place.isdigit() and len(queues) > 1:
        example = json.dumps(dict.fromkeys(queues, int(place)))
        raise OperatorError(
            f"option {name} is one offset, {place}, and there are {len(queues)} queues, each with "
            f"offsets of its own: give {' or '.join(words)}, or JSON as in {example}"
        )
    return (place,) * len(queues)


def time_ms(place: str) -> int:
    """The time of a place that is one, in ms since 1970; -1 for other places."""
    return int(place[1:]) if place.startswith("@") else -1


def _by_queue(name: str, text: str, queues: tuple[str, ...]) -> dict[str, str]:
    example = f'as in {{"{queues[0]}": …}}'
    try:
        found = json.loads(text)
    except ValueError as error:
        raise OperatorError(
            f"option {name} is {text!r}, which is no JSON ({error}); it takes a table by queue, "
            f"{example}"
        ) from error
    if not isinstance(found, dict) or set(found) != set(queues):
        raise OperatorError(
            f"option {name} is {text!r}; it has to say something for each of "
            f"{', '.join(queues)}, and for nothing else, {example}"
        )
    return {queue: str(value) for queue, value in found.items()}


def _place(name: str, text: str, words: tuple[str, ...], is_offset: bool) -> str:
    text = text.strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= OFFSET_DIGITS_MAX
    if is_offset:
        if text.lower() in words or is_number:
            return text.lower()
        raise OperatorError(
            f"option {name} is {text!r}; it takes {', '.join(words)} or an offset 0..10^18"
        )
    moment_ms = int(text) if is_number else _iso_ms(text)
    if 0 <= moment_ms <= TIME_MS_MAX:
        return f"@{moment_ms}"
    raise OperatorError(
        f"option {name} is {text!r}; it takes a time, as in 2026-05-01T12:00:00Z (UTC unless it "
        "says otherwise), or milliseconds since 1970"
    )


def _iso_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return -1
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
