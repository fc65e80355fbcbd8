"""Tables for people: aligned columns that fit a terminal, and lose nothing when piped elsewhere.

On a terminal long names are cut with an ellipsis so that a row stays a row. Into a file or a pipe
everything is written in full, without colour, one row a line, however long.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.base.printable import printable

PIPED_COLUMNS: Final = 100_000
"""Wider than any row."""
RED: Final = "bold red"
FAINT: Final = "dim"


@dataclass(frozen=True, slots=True)
class Column:
    """title; is_number: aligned right; is_name: may be cut on a terminal; is_prose: is wrapped."""

    title: str
    is_number: bool = False
    is_name: bool = False
    is_prose: bool = False


def columns(text: str) -> tuple[Column, ...]:
    """`QUEUE:name READY:number IN_FLIGHT:number STATE RULES:prose`: a title and what it is, or
    nothing; an underscore stands for a blank."""
    made = []
    for word in text.split():
        title, _, kind = word.partition(":")
        title = title.replace("_", " ")
        made.append(Column(title, kind == "number", kind == "name", kind == "prose"))
    return tuple(made)


@dataclass(frozen=True, slots=True)
class Cell:
    """text, and the style it has on a terminal."""

    text: str
    style: str = ""


def console(stream: TextIO | None = None) -> Console:
    """A console on standard output, or on `stream`."""
    made = Console(file=stream, highlight=False, emoji=False, markup=False)
    if not made.is_terminal:
        made = Console(
            file=stream,
            highlight=False,
            emoji=False,
            markup=False,
            width=PIPED_COLUMNS,
            color_system=None,
        )
    return made


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[Cell | str]], title: str = ""
) -> Table:
    """A table of text; nothing in it is markup, and nothing moves the cursor."""
    made = Table(
        box=SIMPLE_HEAD,
        title=title or None,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        show_edge=False,
        pad_edge=False,
    )
    for column in columns:
        made.add_column(
            Text(column.title),
            justify="right" if column.is_number else "left",
            # Columns that may be wrapped are the ones that give way where there is too little room.
            no_wrap=not (column.is_prose or column.is_name),
            overflow="ellipsis",
            min_width=8 if column.is_name or column.is_prose else len(column.title),
        )
    for row in rows:
        cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
        made.add_row(*(_text(cell, column) for cell, column in zip(cells, columns, strict=True)))
    return made


def _text(cell: Cell, column: Column) -> Text:
    text = Text(printable(cell.text), cell.style, overflow="ellipsis")
    text.no_wrap = not column.is_prose
    return text


def show(screen: Console, what: RenderableType) -> None:
    """Print a table, or several parts; away from a terminal without blanks at the ends of lines."""
    if screen.is_terminal:
        screen.print(what)
        return
    with screen.capture() as captured:
        screen.print(what)
    for line in captured.get().splitlines():
        screen.print(Text(line.rstrip()), soft_wrap=True)


def say(screen: Console, line: str, style: str = "") -> None:
    """One line of text, not wrapped."""
    screen.print(Text(printable(line), style), soft_wrap=True)


def more(count: int, what: str) -> str:
    """What stands below a table that is cut: `… 312 more edges`."""
    return f"… {count} more {what}; --limit shows more" if count > 0 else ""


def say_more(screen: Console, count: int, what: str) -> None:
    """The same on a line of its own; nothing for a table that is whole."""
    if count > 0:
        say(screen, more(count, what), FAINT)
