"""Options as text taken apart: numbers, sizes, times, yes and no; strictly, each fault named.

Spark hands options over as text, with their names in lower case. Unknown names are refused with
the list of good ones, because a misspelt `maxOffsetPerTrigger` would silently switch a bound off.
Values of secret options never appear in an error.

Where reading of a stream begins and ends is a *place*, kept as text, which is also how it is shown
in errors:

    ""           nothing was said          "earliest", "latest"
    "1200"       an offset                 "@1700000000000"      a time, ms since 1970 (UTC)
"""

import difflib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

from penstock.base.errors import OperatorError
from penstock.base.limits import CONNECTOR_QUEUES

T = TypeVar("T")
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_UNITS_BYTES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
# Python refuses to read some thousands of digits in words of its own.
_NUMBER: Final = re.compile(r"([0-9]{1,19})()")
_TIME: Final = re.compile(r"([0-9]{1,9}) ?(ms|s|m|h)")
_SIZE: Final = re.compile(r"([0-9]{1,12}) ?([kmg]?)b?")
_FLAGS: Final = {"true": True, "false": False}
TRIGGER_DELAY_MS_MAX: Final = 86_400_000
SIZE_BYTES_MAX: Final = 1 << 40
OFFSET_DIGITS_MAX: Final = 18
TIME_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999."""
AUTO: Final = "auto"
BODY: Final = "body"
ALWAYS: Final = ("queue", "offset", "timestamp", "exchange", "routing_key", "redelivered")
ASKED_FOR: Final = (
    ("properties", "includeProperties"),
    ("headers", "includeHeaders"),
    ("enqueue_ts", "includeFlow"),
)


@dataclass(frozen=True, slots=True)
class Option:
    """One option, as it is read; what it means is in the documentation alone. field: what it fills
    by itself of the parsed options, "" where others have a say in it; reads: the verb of `Values`,
    and what it takes behind the name: bounds and default; modes: those it is for, none for all;
    aliases: other names of it."""

    name: str
    field: str = ""
    reads: tuple[Any, ...] = ("text",)
    modes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


class Values:
    """The options of a query, by name in lower case; every reader names the option at fault."""

    def __init__(self, given: Mapping[str, str], known: tuple[Option, ...], what: str) -> None:
        """Raises: OperatorError for a name that is none of `known`, or one given twice."""
        self._values: dict[str, str] = {}
        self._known = known
        names = {
            name.lower(): option for option in known for name in (option.name, *option.aliases)
        }
        for key, value in given.items():
            option = names.get(key.lower())
            if option is None:
                raise OperatorError(_unknown(key, known, what))
            if option.name.lower() in self._values:
                raise OperatorError(f"option {option.name} is given twice, once as {key}")
            _check_text(option.name, value)
            self._values[option.name.lower()] = value

    def text(self, name: str, default: str = "") -> str:
        """The value as it is."""
        return self._values.get(name.lower(), default)

    def has(self, name: str) -> bool:
        """Whether it was given."""
        return name.lower() in self._values

    def names(self) -> tuple[str, ...]:
        """What was given, in lower case."""
        return tuple(self._values)

    def fields(self) -> dict[str, Any]:
        """What options fill by themselves, by the name of the field. Raises: OperatorError."""
        return {
            one.field: getattr(self, one.reads[0])(one.name, *one.reads[1:])
            for one in self._known
            if one.field
        }

    def check_fits(self, name: str, mode: str) -> None:
        """Option `name` is `mode`. Raises: OperatorError for an option of other modes, which would
        be ignored, and the user relied on it."""
        for one in self._known:
            if one.modes and mode not in one.modes and self.has(one.name):
                fitting = " or ".join(one.modes)
                raise OperatorError(
                    f"option {one.name} is for {name}={fitting}, and this is {name}={mode}"
                )

    def check_kind(self, stream: str, is_stream: bool, queues: tuple[str, ...]) -> None:
        """What was found: streams, or ordinary queues. stream: how `modes` call the former. Raises:
        OperatorError for an option that is for the others."""
        kinds = "streams" if is_stream else "ordinary queues"
        others = "ordinary queues" if is_stream else "streams"
        for one in self._known:
            is_for = [name == stream for name in one.modes if name != AUTO]
            if is_for and is_stream not in is_for and self.has(one.name):
                raise OperatorError(
                    f"option {one.name} is for {others}, and this query reads {kinds}: "
                    f"{', '.join(queues)}"
                )

    def flag(self, name: str, default: bool) -> bool:
        """true or false. Raises: OperatorError for anything else."""
        return self._read(name, default, _FLAGS.get, "true or false")

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        """One of `allowed`. Raises: OperatorError for anything else."""
        known = {one: one for one in allowed}
        return self._read(name, default, known.get, " or ".join(allowed))

    def number(self, name: str, lowest: int, highest: int, default: int) -> int:
        """A whole number lowest..highest. Raises: OperatorError for anything else."""
        what = f"a whole number {lowest}..{highest}"
        return self._read(name, default, partial(_amount, lowest, highest, _NUMBER, {"": 1}), what)

    def size_bytes(self, name: str, lowest: int, default: int) -> int:
        """Bytes, with k, m or g for powers of 1024. Raises: OperatorError for anything else."""
        what = f"bytes, {lowest}..{SIZE_BYTES_MAX}, as in 67108864 or 64m"
        read = partial(_amount, lowest, SIZE_BYTES_MAX, _SIZE, _UNITS_BYTES)
        return self._read(name, default, read, what)

    def time_ms(self, name: str, lowest: int, highest: int, default: int) -> int:
        """Milliseconds, from text with a unit. Raises: OperatorError for anything else."""
        what = f"a time of {lowest}..{highest} ms with its unit, as in 500ms, 30s or 15m"
        return self._read(name, default, partial(_amount, lowest, highest, _TIME, _UNITS_MS), what)

    def _read(self, name: str, default: T, read: Callable[[str], T | None], what: str) -> T:
        """What `read` makes of the value. Raises: OperatorError where that is None."""
        value = self._values.get(name.lower())
        if value is None:
            return default
        found = read(value.strip().lower())
        if found is None:
            raise OperatorError(f"option {name} is {value!r}; it takes {what}")
        return found


def _amount(
    lowest: int, highest: int, form: re.Pattern[str], units: Mapping[str, int], text: str
) -> int | None:
    """A number and its unit; None for what is of another `form`, or out of bounds."""
    found = form.fullmatch(text)
    amount = int(found[1]) * units[found[2]] if found else lowest - 1
    return amount if lowest <= amount <= highest else None


def _check_text(name: str, value: object) -> None:
    """Raises: OperatorError for what is no text that can be sent: None, as of a variable that is
    not set, half of a character, a zero byte. The value is not shown, it may be a password."""
    if not isinstance(value, str):
        raise OperatorError(
            f"option {name} is {value!r}, as when a variable is not set; give it a text, or leave "
            "it out"
        )
    try:
        value.encode()
    except UnicodeEncodeError as fault:
        raise OperatorError(
            f"option {name} has half of a character (a lone surrogate) as its character "
            f"{fault.start + 1}; write the whole one"
        ) from None
    if "\0" in value:
        raise OperatorError(f"option {name} has a zero byte in it; leave that out")


def _unknown(key: str, known: tuple[Option, ...], what: str) -> str:
    names = sorted((option.name for option in known), key=str.lower)
    close = difflib.get_close_matches(key.lower(), [name.lower() for name in names], 1, 0.75)
    hint = "."
    if close:
        hint = f"; did you mean {next(name for name in names if name.lower() == close[0])}?"
    return f"unknown option {key!r} for {what}{hint} Known: {', '.join(names)}"


def parse_columns(values: Values) -> tuple[str, ...]:
    """The columns that option `columns` names, with BODY for the body whatever it is called; none
    for all. Raises: OperatorError naming what is there."""
    body = values.text("bodyColumn", BODY)
    others = [*ALWAYS, *(name for name, flag in ASKED_FOR if values.flag(flag, False))]
    if not body:
        raise OperatorError("option bodyColumn is empty: give the column a name, or leave it out")
    if body.lower() in others:
        raise OperatorError(
            f"option bodyColumn is {body!r}, and there is a column of that name already; take "
            f"another one than {', '.join(others)}"
        )
    if not values.has("columns"):
        return ()
    there = [body, *others]
    given = [name.strip() for name in values.text("columns").split(",")]
    for number, name in enumerate(given):
        if name not in there:
            raise OperatorError(
                f"option columns names {name!r}; there are {', '.join(there)}{_more(name)}"
            )
        if name in given[:number]:
            raise OperatorError(f"option columns names {name!r} twice")
    return tuple(BODY if name == body else name for name in given)


def _more(name: str) -> str:
    for column, flag in ASKED_FOR:
        if name == column:
            return f", and this one with {flag}=true"
    return ""


def parse_queues(values: Values, found: tuple[str, ...]) -> tuple[str, ...]:
    """Their names, 1 or more. found: what queuePattern matches, or the partitions of superStream;
    without them the option stands for a queue.

    Raises: OperatorError for none, too many, names that are none, and a pattern that is none.
    """
    ways = ("queue", "queues", "queuePattern", "superStream")
    given = [name for name in ways if values.has(name)]
    if len(given) > 1:
        raise OperatorError(f"options {' and '.join(given)}: give one of them")
    if values.has("queuePattern"):
        _check_pattern(values.text("queuePattern"))
        queues = found or (values.text("queuePattern"),)
    elif values.has("superStream"):
        queues = found or (values.text("superStream"),)
    elif values.has("queues"):
        queues = tuple(name.strip() for name in values.text("queues").split(","))
    else:
        queues = (values.text("queue"),)
    if not all(queues):
        raise OperatorError(
            "option queue is missing: the name of the queue or stream to read; or queues, several "
            "names separated by commas, none of them empty; or queuePattern, or superStream"
        )
    if len(set(queues)) < len(queues):
        raise OperatorError(f"option queues names a queue twice: {', '.join(queues)}")
    check_count(f"option {given[0] if given else 'queue'} means", len(queues))
    for name in queues:
        if not found and len(name.encode()) > 255:
            raise OperatorError("option queue is longer than the 255 bytes a name may have")
    return queues


def check_count(what: str, count: int) -> None:
    """Raises: OperatorError when `what` is more queues than one query reads."""
    if count > CONNECTOR_QUEUES.default:
        raise OperatorError(
            f"{what} {count} queues, and a query reads {CONNECTOR_QUEUES.default} at most; divide "
            "them among several queries"
        )


def matching(pattern: str, names: list[str]) -> tuple[str, ...]:
    """Those that `pattern` matches as a whole, in order."""
    return tuple(sorted(name for name in names if re.fullmatch(pattern, name)))


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise OperatorError(
            f"option queuePattern is {pattern!r}, which is no regular expression: {error}"
        ) from error


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
    except (ValueError, RecursionError) as error:
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
