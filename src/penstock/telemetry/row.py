"""Numbers by name, of which thousands have the same names: each keeps its values alone.

A snapshot of a connection has two dozen numbers, nearly all of them those of every other idle
connection. A Row is what is left when names are kept once for all, and so are values that the last
row with these names had. Where a name has the address of its connection in it, the row says whose
it is and the names have MARK there:

    row[name] = values[place of name.replace(about, MARK)]
"""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Final, TypeVar, overload

T = TypeVar("T")

MARK: Final = "\0"
COLUMNS_MAX: Final = 1024
"""Sets of names that are known at once; with another one they are all forgotten, and rows that have
them keep them."""


class Columns:
    """One set of names, in their order. places: of each; last: the values of the last row; row:
    that row, if nothing but its values tells it from others."""

    __slots__ = ("last", "places", "row")

    def __init__(self, names: list[str]) -> None:
        self.places = {name: place for place, name in enumerate(names)}
        self.last: tuple[float, ...] = (0.0,) * len(names)
        self.row: Row | None = None

    def row_with(self, values: tuple[float, ...], about: str) -> "Row":
        """Those of `values` that are as in the last row are the same objects."""
        last = self.last
        if values != last:
            pairs = zip(values, last, strict=True)
            self.last = last = tuple([old if new == old else new for new, old in pairs])
            self.row = None
        if about != "":
            return Row(self, last, about)
        if self.row is None:
            self.row = Row(self, last, "")
        return self.row


_KNOWN: dict[str, Columns] = {}
"""By the names with a line for each. Bound: COLUMNS_MAX."""


class Row(Mapping[str, float]):
    """Numbers by name, for reading. Made by `row_of`; equal to any mapping with the same items."""

    __slots__ = ("_about", "_columns", "_values")

    def __init__(self, columns: Columns, values: tuple[float, ...], about: str) -> None:
        self._columns = columns
        self._values = values
        self._about = about

    def __getitem__(self, name: str) -> float:
        return self._values[self._columns.places[self._kept_as(name)]]

    @overload
    def get(self, name: str, /) -> float | None: ...

    @overload
    def get(self, name: str, /, default: float | T) -> float | T: ...

    def get(self, name: str, /, default: object = None) -> object:
        place = self._columns.places.get(self._kept_as(name))
        return default if place is None else self._values[place]

    def _kept_as(self, name: str) -> str:
        """What the columns have in the place of `name`; "\\n", which is in none, for no name."""
        if self._about == "":
            return name
        return "\n" if MARK in name else name.replace(self._about, MARK)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        if self._about == "":
            return iter(self._columns.places)
        return (name.replace(MARK, self._about) for name in self._columns.places)

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> KeysView[str]:
        return self.as_dict().keys()

    def values(self) -> ValuesView[float]:
        return self.as_dict().values()

    def items(self) -> ItemsView[str, float]:
        return self.as_dict().items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Row) and other._columns is self._columns:
            return self._values == other._values and self._about == other._about
        return isinstance(other, Mapping) and self.as_dict() == dict(other)

    def __hash__(self) -> int:
        return hash(self._values)

    def __repr__(self) -> str:
        return repr(self.as_dict())

    def as_dict(self) -> dict[str, float]:
        """The same as a dict of the reader's own."""
        return dict(zip(self, self._values, strict=True))


def as_dict(numbers: Mapping[str, float]) -> dict[str, float]:
    """`numbers` as a dict, which may be themselves."""
    if isinstance(numbers, dict):
        return numbers
    return numbers.as_dict() if isinstance(numbers, Row) else dict(numbers)


def row_of(numbers: dict[str, float], about: str = "") -> Mapping[str, float]:
    """`numbers` in little room, for reading; about: what is in the names of some and makes them
    different from those of others. Where names are still nobody else's, a dict is smaller."""
    names = "\n".join(numbers)
    if names.count("\n") != len(numbers) - 1 or MARK in names or "\n" in about:
        return numbers
    if about != "":
        marked = names.replace(about, MARK)
        if marked == names:
            about = ""
        names = marked
    columns = _KNOWN.get(names)
    if columns is None:
        if len(_KNOWN) >= COLUMNS_MAX:
            _KNOWN.clear()
        columns = _KNOWN[names] = Columns(names.split("\n"))
    return columns.row_with(tuple(numbers.values()), about)
