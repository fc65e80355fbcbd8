"""One page of a listing, and where the next one begins.

A listing with more rows than `limit` says in `next` where it goes on; the same question with that
as `after` has the next page, and the last page has "". Nothing is kept between two pages: `after`
holds the place in the order of the rows, so what comes and goes meanwhile moves no other row. In an
order by name a row that is there from the first page to the last is in exactly one; in another
order it is as long as what it is ordered by stays as it is.
"""

from bisect import insort
from typing import Final, Generic, TypeVar

import msgspec

from penstock.base.errors import OperatorError

Key = tuple[str | int | float, ...]
T = TypeVar("T")
PAGE_ROWS_MAX: Final = 10_000
AFTER_CHARACTERS_MAX: Final = 8192


class Pager(Generic[T]):
    """Picks a page from rows that come in any order, each with its place in the order wanted; of
    rows with one place the order in which they come counts. total: rows that came."""

    def __init__(self, limit: int, after: str = "", order: str = "") -> None:
        """order: what the rows are ordered by, which `after` must have come from. Raises:
        OperatorError."""
        self.limit = limit
        self.order = order
        self.total = 0
        self._after: Key | None = None
        self._skip = 0
        self._equal = 0
        self._kept: list[tuple[Key, int, T]] = []
        if after != "":
            self._after, self._skip = self._place(after)

    def offer(self, key: Key, row: T) -> None:
        """One row. It costs a comparison, or a place among `limit` others."""
        self.total += 1
        after = self._after
        if after is not None:
            try:
                if key < after:
                    return
            except TypeError as error:
                raise OperatorError("`after` is not from this listing; begin anew") from error
            if key == after:
                self._equal += 1
                if self._equal <= self._skip:
                    return
        kept = self._kept
        entry = (key, self.total, row)
        # One more than wanted says that there is a next page.
        if len(kept) > self.limit:
            if entry >= kept[-1]:
                return
            kept.pop()
        insort(kept, entry)

    def rows(self) -> list[T]:
        """The page."""
        return [row for _, _, row in self._kept[: self.limit]]

    def keys(self) -> list[Key]:
        """The places of the rows of the page."""
        return [key for key, _, _ in self._kept[: self.limit]]

    def placed(self) -> list[tuple[Key, T]]:
        """The page, each row with its place."""
        return [(key, row) for key, _, row in self._kept[: self.limit]]

    def next(self) -> str:
        """`after` of the next page, "" for none."""
        if len(self._kept) <= self.limit:
            return ""
        page = self._kept[: self.limit]
        last = page[-1][0]
        equal = sum(1 for key, _, _ in page if key == last)
        if last == self._after:
            equal += self._skip
        return msgspec.json.encode([self.order, last, equal]).decode()

    def _place(self, after: str) -> tuple[Key, int]:
        kind = tuple[str, list[str | int | float], int]
        try:
            if len(after) > AFTER_CHARACTERS_MAX:
                raise msgspec.ValidationError
            order, key, skip = msgspec.json.decode(after, type=kind)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            raise OperatorError(
                "`after` is not what a listing called `next`; begin anew without it"
            ) from error
        if order != self.order:
            raise OperatorError(
                f"`after` is from a listing by '{order}', not by '{self.order}'; begin anew"
            )
        return tuple(key), skip
