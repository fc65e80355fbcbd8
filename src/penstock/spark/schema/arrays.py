"""Small operations on arrays of whole numbers that the tasks of the pipeline are made of."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

NONE: Final[I64] = np.zeros(0, np.int64)
_FITS: Final = 1 << 62
_DENSE: Final = 4
"""Values there might be for each row there is, up to which a table of them is made."""


def together(*columns: I64) -> I64:
    """A number for each row, the same where all columns are; none of them below 0."""
    key, bound = columns[0], _bound(columns[0])
    for column in columns[1:]:
        more = _bound(column)
        if bound * more > _FITS:
            values, key = np.unique(key, return_inverse=True)
            bound = len(values)
        key, bound = key * more + column, bound * more
    return key


def _bound(column: I64) -> int:
    return int(column.max()) + 1 if len(column) else 1


def sums(keys: Sequence[I64], *values: I64) -> tuple[list[I64], list[I64]]:
    """The rows of `keys` that differ, and the sums of `values` over each."""
    first, row = distinct(together(*keys))
    totals = []
    for value in values:
        total = np.zeros(len(first), np.int64)
        np.add.at(total, row, value)
        totals.append(total)
    return [key[first] for key in keys], totals


def distinct(key: I64) -> tuple[I64, I64]:
    """A row of each value, in order of values, and for each row which of those it has."""
    low = int(key.min(initial=_FITS))
    spread_out = int(key.max(initial=0)) - low + 1
    if not len(key) or spread_out > _DENSE * len(key):
        _, first, row = np.unique(key, return_index=True, return_inverse=True)
        return first, row
    # So few values that looking them up is quicker than sorting.
    one = np.full(spread_out, -1, np.int64)
    one[key - low] = np.arange(len(key), dtype=np.int64)
    there = np.flatnonzero(one >= 0)
    first = one[there]
    one[there] = np.arange(len(there), dtype=np.int64)
    return first, one[key - low]


def compact(key: I64) -> I64:
    return np.unique(key, return_inverse=True)[1]


def spread(counts: I64) -> tuple[I64, I64]:
    """For counts [2, 0, 1]: whose each is [0, 0, 2], and its place there [0, 1, 0]."""
    owner = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    first = np.cumsum(counts) - counts
    return owner, np.arange(len(owner), dtype=np.int64) - first[owner]


def united(link: I64, start: I64, end: I64, width: int) -> tuple[I64, I64, I64]:
    """The same time as intervals of which no two of one link overlap, in order."""
    order = np.argsort(link * width + start, kind="stable")
    link, start, end = link[order], start[order], end[order]
    is_same = link[1:] == link[:-1]
    if not np.any(is_same & (start[1:] < end[:-1])):
        return link, start, end
    reached = np.maximum.accumulate(link * width + end)
    is_first = np.concatenate([[True], link[1:] * width + start[1:] > reached[:-1]])
    is_first[1:] |= ~is_same
    last = np.concatenate([np.flatnonzero(is_first)[1:] - 1, [len(link) - 1]])
    return link[is_first], start[is_first], reached[last] - link[is_first] * width
