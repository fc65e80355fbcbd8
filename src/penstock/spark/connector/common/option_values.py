"""Options as text taken apart: numbers, sizes, times, yes and no; strictly, each fault named.

Spark hands options over as text, with their names in lower case. Unknown names are refused with
the list of good ones, because a misspelt `maxOffsetPerTrigger` would silently switch a bound off.
Values of secret options never appear in an error.

Option `columns` names the columns a query wants: Spark does not tell a Python source which columns
a query looks at, and copies every one of them twice for each row. Options `queue`, `queues` and
`queuePattern` say what it reads.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import CONNECTOR_QUEUES

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_UNITS_BYTES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TIME: Final = re.compile(r"(\d{1,9}) ?(ms|s|m|h)")
_SIZE: Final = re.compile(r"(\d{1,12}) ?([kmg]?)b?")
_FLAGS: Final = {"true": True, "false": False}
TRIGGER_DELAY_MS_MAX: Final = 86_400_000
SIZE_BYTES_MAX: Final = 1 << 40
BODY: Final = "body"
ALWAYS: Final = ("queue", "offset", "timestamp", "exchange", "routing_key", "redelivered")
ASKED_FOR: Final = (
    ("properties", "includeProperties"),
    ("headers", "includeHeaders"),
    ("enqueue_ts", "includeFlow"),
)


@dataclass(frozen=True, slots=True)
class Option:
    """One option as the reference shows it. `default`: in words, "" where there is none."""

    name: str
    meaning: str
    default: str = ""
    aliases: tuple[str, ...] = ()


class Values:
    """The options of a query, by name in lower case; every reader names the option at fault."""

    def __init__(self, given: Mapping[str, str], known: tuple[Option, ...], what: str) -> None:
        """Raises: OperatorError for a name that is none of `known`, or one given twice."""
        self._values: dict[str, str] = {}
        names = {
            name.lower(): option for option in known for name in (option.name, *option.aliases)
        }
        for key, value in given.items():
            option = names.get(key.lower())
            if option is None:
                raise OperatorError(_unknown(key, known, what))
            if option.name.lower() in self._values:
                raise OperatorError(f"option {option.name} is given twice, once as {key}")
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

    def flag(self, name: str, default: bool) -> bool:
        """true or false. Raises: OperatorError for anything else."""
        value = self._values.get(name.lower())
        if value is None:
            return default
        found = _FLAGS.get(value.strip().lower())
        if found is None:
            raise OperatorError(f"option {name} is {value!r}; it takes true or false")
        return found

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        """One of `allowed`. Raises: OperatorError for anything else."""
        value = self._values.get(name.lower(), default).strip().lower()
        if value not in allowed:
            raise OperatorError(f"option {name} is {value!r}; it takes {' or '.join(allowed)}")
        return value

    def number(self, name: str, lowest: int, highest: int, default: int) -> int:
        """A whole number lowest..highest. Raises: OperatorError for anything else."""
        value = self._values.get(name.lower())
        if value is None:
            return default
        text = value.strip()
        if not (text.isascii() and text.isdigit()) or not lowest <= int(text) <= highest:
            raise OperatorError(
                f"option {name} is {value!r}; it takes a whole number {lowest}..{highest}"
            )
        return int(text)

    def size_bytes(self, name: str, lowest: int, default: int) -> int:
        """Bytes, with k, m or g for powers of 1024. Raises: OperatorError for anything else."""
        value = self._values.get(name.lower())
        if value is None:
            return default
        found = _SIZE.fullmatch(value.strip().lower())
        size = int(found[1]) * _UNITS_BYTES[found[2]] if found else -1
        if not lowest <= size <= SIZE_BYTES_MAX:
            raise OperatorError(
                f"option {name} is {value!r}; it takes bytes, {lowest}..{SIZE_BYTES_MAX}, "
                "as in 67108864 or 64m"
            )
        return size

    def time_ms(self, name: str, lowest: int, highest: int, default: int) -> int:
        """Milliseconds, from text with a unit. Raises: OperatorError for anything else."""
        value = self._values.get(name.lower())
        if value is None:
            return default
        found = _TIME.fullmatch(value.strip().lower())
        time = int(found[1]) * _UNITS_MS[found[2]] if found else -1
        if not lowest <= time <= highest:
            raise OperatorError(
                f"option {name} is {value!r}; it takes a time of {lowest}..{highest} ms with its "
                "unit, as in 500ms, 30s or 15m"
            )
        return time


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
    """Their names, 1 or more. found: what queuePattern matches; without them the pattern stands for
    a queue.

    Raises: OperatorError for none, too many, names that are none, and a pattern that is none.
    """
    given = [name for name in ("queue", "queues", "queuePattern") if values.has(name)]
    if len(given) > 1:
        raise OperatorError(f"options {' and '.join(given)}: give one of them")
    if values.has("queuePattern"):
        _check_pattern(values.text("queuePattern"))
        queues = found or (values.text("queuePattern"),)
    elif values.has("queues"):
        queues = tuple(name.strip() for name in values.text("queues").split(","))
    else:
        queues = (values.text("queue"),)
    if not all(queues):
        raise OperatorError(
            "option queue is missing: the name of the queue or stream to read; or queues, several "
            "names separated by commas, none of them empty; or queuePattern"
        )
    if len(set(queues)) < len(queues):
        raise OperatorError(f"option queues names a queue twice: {', '.join(queues)}")
    if len(queues) > CONNECTOR_QUEUES.default:
        raise OperatorError(
            f"option {'queuePattern matches' if found else 'queues names'} {len(queues)} queues, "
            f"and a query reads {CONNECTOR_QUEUES.default} at most; divide them among several "
            "queries"
        )
    for name in queues:
        if not found and len(name.encode()) > 255:
            raise OperatorError("option queue is longer than the 255 bytes a name may have")
    return queues


def matching(pattern: str, names: list[str]) -> tuple[str, ...]:
    """Those that `pattern` matches as a whole, in order."""
    return tuple(sorted(name for name in names if re.fullmatch(pattern, name)))


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise OperatorError(
            f"option queuePattern is {pattern!r}, which is no regular expression: {error}"
        ) from error
