"""Listings with pages: those of all workers, merged in their order and cut where a page ends.

Every worker says with its page the place of each row in the order (`keys`). A page of all goes as
far as every worker's own page goes: what lies behind the first of their ends is not known yet. Its
`next` is as a worker's, [order, place, rows shown of that place], with a number for each worker, so
it is small and nothing is kept between two pages; see broker/admin/paging.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Any, Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.broker.actors.cooperative import Steps
from penstock.server.control.control_socket import in_slices
from penstock.server.workers.gather_sums import Rule, added
from penstock.server.workers.gather_ways import Answer, Everybody, Fields, Row, Way, with_missing

Key = list[Any]
Rows = dict[str, list[Any]]
Fold = Callable[[Sequence[Row]], Row]
"""Makes one row of those that several workers have under one key."""
STEP_ROWS: Final = 64
NO_PLACE: Final = "`after` is not what a listing called `next`; begin anew without it"
PLACE: Final = itemgetter(0, 1)
PLACES: Final = ("keys", "order", "shared")
"""What a worker says of its rows, and not of what is in them."""


class Cursor:
    """Where a page begins: behind `key`, None for the first, and `shown` rows of it by worker."""

    def __init__(self, order: str = "", key: Key | None = None, shown: Sequence[int] = ()) -> None:
        self.order = order
        self.key = key
        self.shown = list(shown)

    @staticmethod
    def read(text: str, count: int) -> "Cursor | None":
        """None for what no listing of so many workers has called `next`."""
        try:
            order, key, shown = msgspec.json.decode(text, type=tuple[str, Key, list[int] | int])
        except (msgspec.DecodeError, UnicodeEncodeError):
            return None
        shown = [shown] if isinstance(shown, int) else shown
        return Cursor(order, key, shown) if len(shown) == count else None

    def write(self) -> str:
        shown: object = self.shown[0] if len(self.shown) == 1 else self.shown
        return msgspec.json.encode([self.order, self.key, shown]).decode()

    def of(self, worker: int) -> str:
        """The same for one worker."""
        return msgspec.json.encode([self.order, self.key, self.shown[worker]]).decode()


class Page:
    """One page of all. answers: by worker; names: the fields that hold rows, in their order; limit:
    rows at most; after: where it begins, None for the first; fold: see Fold.

    rows: by field; taken: by worker, how many of its rows went by; next: of the page that follows,
    "" for none; total: rows there are; count: rows of this page."""

    def __init__(
        self,
        answers: Mapping[int, Row],
        names: Sequence[str],
        limit: int,
        after: Cursor,
        fold: Fold | None,
    ) -> None:
        self.names = names
        self.limit = limit
        self.after = after
        self.fold = fold
        self.rows: Rows = {name: [] for name in names}
        self.taken = dict.fromkeys(answers, 0)
        self.count = 0
        self.next = ""
        self._answers = answers
        self._ends = {
            worker: msgspec.json.decode(answer["next"])
            for worker, answer in answers.items()
            if answer["next"]
        }
        self.total = sum(answer["total"] for answer in answers.values())
        if fold is not None:
            shared = [answer["shared"] for answer in answers.values()]
            self.total -= sum(shared) - max(shared)

    def steps(self) -> Steps[None]:
        """Pick the rows."""
        end = min((one[1] for one in self._ends.values()), default=None)
        last: Key | None = None
        group: list[tuple[str, Any]] = []
        for key, worker, name, row in merge(*map(self._of, self._answers), key=PLACE):
            if group and not (self.fold is not None and key == last):
                self._put(group)
                group = []
            if not group and (self.count >= self.limit or (end is not None and key > end)):
                break
            group.append((name, row))
            self.taken[worker] += 1
            last = key
            if self.taken[worker] % STEP_ROWS == 0:
                yield 0.0
        if group:
            self._put(group)
        has_more = any(
            self.taken[worker] < len(answer["keys"]) for worker, answer in self._answers.items()
        )
        if self._ends or has_more:
            self.next = self._cursor(end if last is None else last).write()

    def _of(self, worker: int) -> Iterator[tuple[Key, int, str, Any]]:
        """The rows of one worker, each with its place, in its order."""
        answer = self._answers[worker]
        rows = [(name, row) for name in self.names for row in answer[name]]
        for key, (name, row) in zip(answer["keys"], rows, strict=True):
            yield key, worker, name, row

    def _put(self, group: list[tuple[str, Any]]) -> None:
        name, row = group[0]
        if self.fold is not None and len(group) > 1:
            row = self.fold([msgspec.json.decode(one) for _, one in group])
        self.rows[name].append(row)
        self.count += 1

    def _cursor(self, last: Key | None) -> Cursor:
        """Behind the rows with the place `last`, as far as they were shown."""
        order = next(answer["order"] for answer in self._answers.values())
        shown: list[int] = []
        for worker in range(len(self.after.shown)):
            before = self.after.shown[worker] if last == self.after.key else 0
            answer = self._answers.get(worker)
            keys = [] if answer is None else answer["keys"][: self.taken[worker]]
            equal = 0
            while equal < len(keys) and keys[-1 - equal] == last:
                equal += 1
            end = self._ends.get(worker)
            if self.count == 0 and end is not None and end[1] == last:
                # Rows of this place have gone while they were read.
                before, equal = 0, end[2]
            shown.append(before + equal)
        return Cursor(order, last, shown)


class Listing(Way):
    """names: fields that hold rows, in their order. sums: other fields that are added besides
    `total`; fold: of rows that all workers have alike; rules: of more fields. One virtual host is
    asked of its worker."""

    def __init__(
        self,
        *names: str,
        sums: Sequence[str] = (),
        fold: Fold | None = None,
        rules: Mapping[str, Rule] | None = None,
    ) -> None:
        self.names = names
        self.sums = sums
        self.fold = fold
        self.rules = rules or {}

    async def answer(self, everybody: Everybody, fields: Fields) -> Answer:
        vhost = str(fields.get("vhost", ""))
        if vhost != "":
            return await everybody.at_home(vhost, fields)
        after = str(fields.get("after", ""))
        cursor = Cursor("", None, [0] * everybody.count)
        if after != "":
            found = Cursor.read(after, everybody.count)
            if found is None:
                raise OperatorError(NO_PLACE)
            cursor = found
        asked = [
            {**fields, "with_keys": True} | ({} if after == "" else {"after": cursor.of(worker)})
            for worker in range(everybody.count)
        ]
        answers, missing = await everybody.there(asked, everybody.workers.ask_rows)
        await in_slices(self.prepare(answers))
        page = Page(answers, self.names, fields.get("limit", 50), cursor, self.fold)
        await in_slices(page.steps())
        return with_missing(await in_slices(self.shown(page, answers)), missing)

    def prepare(self, answers: Mapping[int, Row]) -> Steps[None]:
        """Before rows are picked."""
        yield 0.0

    def shown(self, page: Page, answers: Mapping[int, Row]) -> Steps[Row]:
        """The answer with this page, in the order of a worker's own fields."""
        values = list(answers.values())
        found: Row = {}
        for key in values[0]:
            if key in page.rows:
                found[key] = page.rows[key]
            elif key == "next":
                found[key] = page.next
            elif key == "total" and key not in self.sums:
                found[key] = page.total
            elif key in self.sums:
                found[key] = sum(one[key] for one in values)
            elif key in self.rules:
                found[key] = self.rules[key]([one[key] for one in values])
            elif key not in PLACES:
                found[key] = values[0][key]
        yield 0.0
        return found


def sums_of(*names: str) -> Fold:
    """Rows that are the first one's, with the sum of these fields."""

    def fold(rows: Sequence[Row]) -> Row:
        return rows[0] | {name: added([row[name] for row in rows]) for name in names}

    return fold
