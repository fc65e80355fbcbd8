"""Tables for people: aligned columns that fit a terminal, and lose nothing when piped elsewhere.

On a terminal columns that matter least are left out first, long names are cut with an ellipsis, and
prose is wrapped. Into a file or a pipe everything is written in full, without colour, one row a
line, however long. A table library takes half the time in which a command may start, so these few
lines are written here.
"""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, TextIO
from unicodedata import combining, east_asian_width

from penstock.base.printable import printable

RED: Final = "bold red"
GREEN: Final = "green"
YELLOW: Final = "yellow"
FAINT: Final = "dim"
BOLD: Final = "bold"
CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
"""Words of styles, as a terminal is told them."""
GAP: Final = 2
NAME_LEAST: Final = 22
"""Of a cut name that are shown before a column is left out for it."""
NARROWEST: Final = 6
PROSE_LEAST: Final = 16


@dataclass(frozen=True, slots=True)
class Column:
    """title; is_number: aligned right; is_name: may be cut on a terminal; is_prose: is wrapped;
    rank: 0 for a column that is always there, else the lowest is left out first."""

    title: str
    is_number: bool = False
    is_name: bool = False
    is_prose: bool = False
    rank: int = 0


def columns(text: str) -> tuple[Column, ...]:
    """`QUEUE:name READY:number IN_FLIGHT:number:2 STATE RULES:prose:1`: a title, what it is, or
    nothing, and a rank; an underscore stands for a blank."""
    made = []
    for word in text.split():
        title, _, rest = word.partition(":")
        kind, _, rank = rest.partition(":")
        title = title.replace("_", " ")
        flags = (kind == "number", kind == "name", kind == "prose")
        made.append(Column(title, *flags, int(rank or 0)))
    return tuple(made)


@dataclass(frozen=True, slots=True)
class Cell:
    """text, and the style it has on a terminal."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Screen:
    """Where text goes. width: columns, None where lines may have any length; has_colour: styles are
    shown."""

    stream: TextIO
    width: int | None
    has_colour: bool

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at it, and lines should fit."""
        return self.width is not None

    def write(self, line: str = "") -> None:
        """One line."""
        self.stream.write(line + "\n")


def console(stream: TextIO | None = None, width: int | None = None) -> Screen:
    """A screen on standard output, or on `stream`. width: of one that counts as a terminal."""
    where = sys.stdout if stream is None else stream
    is_terminal = width is not None or where.isatty()
    if not is_terminal:
        return Screen(where, None, False)
    if width is None:
        width = shutil.get_terminal_size().columns
    has_colour = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return Screen(where, width, has_colour and where.isatty())


def styled(text: str, style: str) -> str:
    """`text` with the codes of `style`."""
    codes = ";".join(CODES[word] for word in style.split() if word in CODES)
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and text else text


def cells_of(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def cut(text: str, width: int) -> str:
    """`text` in `width` columns, with an ellipsis in its middle where it is longer: what tells
    names apart is often their end, as a port or the number of a channel."""
    if cells_of(text) <= width:
        return text
    kept = width - 1
    head, tail = text[: kept - kept // 2], text[len(text) - kept // 2 :]
    while head and cells_of(head + tail) > kept:
        head = head[:-1]
        tail = tail[1:] if cells_of(head + tail) > kept else tail
    return f"{head}…{tail}"


def wrapped(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns, parted at blanks where there are any."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if cells_of(longer) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        while cells_of(word) > width:
            count = width
            while cells_of(word[:count]) > width:
                count -= 1
            lines.append(word[: max(count, 1)])
            word = word[max(count, 1) :]
        line = word
    return [*lines, line] if line or not lines else lines


class Table:
    """Columns, rows of cells, and a title."""

    def __init__(
        self, columns: Sequence[Column], rows: Iterable[Sequence[Cell | str]], title: str
    ) -> None:
        self.columns = list(columns)
        self.title = title
        self.rows = [[_cell(one) for one in row] for row in rows]
        for row in self.rows:
            assert len(row) == len(self.columns), "a row has a cell for each column"

    def lines(self, width: int | None, has_colour: bool) -> Iterator[str]:
        """The lines of the table. width: that they fit into, None for any."""
        if self.title:
            yield self._shown(printable(self.title), BOLD, has_colour)
        at, widths = self._fitted(width)
        titles = [cut(self.columns[i].title, w) for i, w in zip(at, widths, strict=True)]
        heads = [self._padded(one, i, w) for one, i, w in zip(titles, at, widths, strict=True)]
        yield self._shown((" " * GAP).join(heads).rstrip(), BOLD, has_colour)
        yield "─" * (sum(widths) + GAP * (len(widths) - 1))
        for row in self.rows:
            yield from self._row([row[i] for i in at], at, widths, width is None, has_colour)

    def left_out(self, width: int | None) -> list[str]:
        """Titles of columns there is no room for."""
        at, _ = self._fitted(width)
        return [one.title for i, one in enumerate(self.columns) if i not in at]

    def _row(
        self,
        row: list[Cell],
        at: list[int],
        widths: list[int],
        is_whole: bool,
        has_colour: bool,
    ) -> Iterator[str]:
        texts: list[list[str]] = []
        for cell, i, width in zip(row, at, widths, strict=True):
            if is_whole:
                texts.append([cell.text])
            elif self.columns[i].is_prose:
                texts.append(wrapped(cell.text, width))
            else:
                texts.append([cut(cell.text, width)])
        for parts in zip_longest(*texts, fillvalue=""):
            line = ""
            for part, cell, i, width in zip(parts, row, at, widths, strict=True):
                padded = self._padded(part, i, width)
                line += self._shown(padded, cell.style, has_colour) + " " * GAP
            yield line.rstrip()

    def _padded(self, text: str, i: int, width: int) -> str:
        blanks = " " * max(0, width - cells_of(text))
        return blanks + text if self.columns[i].is_number else text + blanks

    def _shown(self, text: str, style: str, has_colour: bool) -> str:
        return styled(text, style) if has_colour and style else text

    def _fitted(self, width: int | None) -> tuple[list[int], list[int]]:
        """Which columns are shown, and how wide."""
        natural = [
            max([cells_of(column.title), *(cells_of(row[i].text) for row in self.rows)])
            for i, column in enumerate(self.columns)
        ]
        at = list(range(len(natural)))
        if width is None:
            return at, natural
        least = [self._least(i, natural[i]) for i in at]

        def is_too_wide() -> bool:
            return sum(least[i] for i in at) + GAP * (len(at) - 1) > width

        while is_too_wide():
            ranked = [i for i in at if self.columns[i].rank > 0]
            if not ranked:
                break
            at.remove(min(ranked, key=lambda i: (self.columns[i].rank, -i)))
        flexible = [i for i in at if self.columns[i].is_name or self.columns[i].is_prose]
        while is_too_wide() and any(least[i] > NARROWEST for i in flexible):
            widest = max(flexible, key=lambda i: least[i])
            least[widest] -= 1
        room = width - sum(least[i] for i in at) - GAP * (len(at) - 1)
        for some in (
            [i for i in flexible if self.columns[i].is_name],
            [i for i in flexible if self.columns[i].is_prose],
        ):
            while room > 0 and any(least[i] < natural[i] for i in some):
                narrowest = min((i for i in some if least[i] < natural[i]), key=lambda i: least[i])
                least[narrowest] += 1
                room -= 1
        return at, [least[i] for i in at]

    def _least(self, i: int, natural: int) -> int:
        column = self.columns[i]
        if column.is_name:
            return min(natural, max(NAME_LEAST, len(column.title)))
        if column.is_prose:
            return min(natural, max(PROSE_LEAST, len(column.title)))
        return natural


def _cell(given: Cell | str) -> Cell:
    """Nothing in it is markup, and nothing moves the cursor."""
    if isinstance(given, str):
        return Cell(printable(given))
    return Cell(printable(given.text), given.style)


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell | str]], title: str = ""
) -> Table:
    """A table of text."""
    return Table(columns, rows, title)


def show(screen: Screen, what: Table) -> None:
    """Print a table, and what there was no room for."""
    for line in what.lines(screen.width, screen.has_colour):
        screen.write(line)
    gone = what.left_out(screen.width)
    if gone:
        said = f"no room for {', '.join(gone)}; --format csv or a wider terminal has them"
        for line in wrapped(said, screen.width or len(said)):
            say(screen, line, FAINT)


def say(screen: Screen, line: str, style: str = "") -> None:
    """One line of text, not wrapped."""
    text = printable(line)
    screen.write(styled(text, style) if screen.has_colour else text)


def more(count: int, what: str) -> str:
    """What stands below a table that is cut: `… 312 more findings`."""
    return f"… {count} more {what}; --limit shows more" if count > 0 else ""


def say_more(screen: Screen, shown: int, total: int, what: str) -> None:
    """Below the table of a listing that goes on: how much of it there is, and how to see it."""
    if total > shown:
        line = f"… {total - shown} more of {total} {what}; --limit shows more, --format json all"
        say(screen, line, FAINT)
