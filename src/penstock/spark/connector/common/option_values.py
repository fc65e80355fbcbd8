"""Options as text taken apart: numbers, sizes, times, yes and no; strictly, each fault named.

Spark hands options over as text, with their names in lower case. Unknown names are refused with
the list of good ones, because a misspelt `maxOffsetPerTrigger` would silently switch a bound off.
Values of secret options never appear in an error.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.base.errors import OperatorError

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_UNITS_BYTES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_TIME: Final = re.compile(r"(\d{1,9}) ?(ms|s|m|h)")
_SIZE: Final = re.compile(r"(\d{1,12}) ?([kmg]?)b?")
_FLAGS: Final = {"true": True, "false": False}
TRIGGER_DELAY_MS_MAX: Final = 86_400_000
SIZE_BYTES_MAX: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Option:
    """One option as the reference shows it. `default`: in words, "" where there is none."""

    name: str
    meaning: str
    default: str = ""
    aliases: tuple[str, ...] = ()


class Values:
    """The options somebody gave, by name in lower case; every reader names the option at fault."""

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
