"""Rules by which a field of several workers' answers becomes one, and their answers one answer."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Row = dict[str, Any]
Rule = Callable[[Sequence[Any]], Any]
"""Values of those workers that have the field, at least one, in the order of their numbers."""
CLOSED: Final = "connections closed: "


def merged(rows: Sequence[Row], rules: Mapping[str, Rule], other: "Rule | None" = None) -> Row:
    """One row from at least one. other: the rule of fields that have none, the first one's value
    without."""
    names = dict.fromkeys(name for row in rows for name in row)
    found: Row = {}
    for name in names:
        values = [row[name] for row in rows if name in row]
        found[name] = rules.get(name, other or first)(values)
    return found


def first(values: Sequence[Any]) -> Any:
    return values[0]


def most(values: Sequence[Any]) -> Any:
    return max(values)


def least(values: Sequence[Any]) -> Any:
    return min(values)


def soonest(values: Sequence[Any]) -> Any:
    """The smallest of those that are known, None if none is."""
    return min((one for one in values if one is not None), default=None)


def latest(values: Sequence[Any]) -> Any:
    """The largest of those that are known, None if none is."""
    return max((one for one in values if one is not None), default=None)


def every(values: Sequence[Any]) -> Any:
    return all(values)


def some(values: Sequence[Any]) -> Any:
    return any(values)


def said(values: Sequence[Any]) -> Any:
    """The first text that is not empty."""
    return next((one for one in values if one), values[0])


def joined(values: Sequence[Any]) -> Any:
    """Lists, one behind the other."""
    return [one for value in values for one in value]


def united(values: Sequence[Any]) -> Any:
    """Lists, each of their elements once, in order."""
    return sorted({one for value in values for one in value})


def either(values: Sequence[Any]) -> Any:
    """Objects; of a key the first one's value."""
    found: Row = {}
    for value in values:
        found |= {key: one for key, one in value.items() if key not in found}
    return found


def added(values: Sequence[Any]) -> Any:
    """Numbers are added, objects field by field, lists of numbers place by place, and of other
    lists the rows that have the same words."""
    if isinstance(values[0], dict):
        return merged(values, {}, added)
    if isinstance(values[0], list):
        if any(isinstance(row, dict) for rows in values for row in rows):
            return _rows_added(values)
        return [added(each) for each in zip(*values, strict=True)]
    if isinstance(values[0], int | float) and not isinstance(values[0], bool):
        return sum(values)
    return values[0]


def _rows_added(lists: Sequence[list[Row]]) -> list[Row]:
    by_words: dict[tuple[Any, ...], list[Row]] = {}
    for rows in lists:
        for row in rows:
            words = tuple(value for value in row.values() if isinstance(value, str))
            by_words.setdefault(words, []).append(row)
    groups = by_words if len(lists) == 1 else sorted(by_words)
    return [merged(by_words[words], {}, added) for words in groups]


def by_fields(rules: Mapping[str, Rule]) -> Rule:
    """Objects, each of their fields by its rule."""

    def rule(values: Sequence[Any]) -> Any:
        return merged(values, rules)

    return rule


def closed(values: Sequence[Any]) -> Any:
    """Texts that end with how many connections were closed, which are added."""
    text, mark, count = str(values[0]).rpartition(CLOSED)
    counts = [str(one).rpartition(CLOSED)[2] for one in values]
    if not mark or not all(one.isdecimal() for one in (count, *counts)):
        return values[0]
    return f"{text}{CLOSED}{sum(int(one) for one in counts)}"
