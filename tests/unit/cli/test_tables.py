"""Tables: whole names into a pipe, one row a line on a terminal, nothing that moves the cursor."""

import importlib
import io
import pkgutil

import pytest

from penstock import cli
from penstock.cli.flow_top import bar
from penstock.cli.tables import Cell, Column, cells_of, columns, console, more, show, table, wrapped

COLUMNS = (Column("NAME", is_name=True), Column("COUNT", is_number=True))
LONG = "queue:/" + "x" * 300


def test_a_pipe_gets_everything_in_full_and_no_colour() -> None:
    stream = io.StringIO()
    show(console(stream), table(COLUMNS, [[Cell(LONG, "red"), "1"], ["short", "22"]]))
    lines = stream.getvalue().splitlines()
    assert lines[2].split() == [LONG, "1"] and lines[3].split() == ["short", "22"]
    assert "\x1b" not in stream.getvalue()
    assert all(line == line.rstrip() for line in lines)


def test_a_terminal_gets_one_line_a_row_with_long_names_cut() -> None:
    stream = io.StringIO()
    show(console(stream, 60), table(COLUMNS, [[LONG, "1"]]))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3 and "…" in lines[2] and lines[2].rstrip().endswith("1")


def test_names_are_text_and_neither_markup_nor_control_characters() -> None:
    stream = io.StringIO()
    show(console(stream), table(COLUMNS, [["[red]a[/red]\x1b[2J", "1"]]))
    assert "[red]a[/red]\\x1b[2J" in stream.getvalue()


def test_what_is_left_out_is_counted() -> None:
    assert more(0, "hops") == "" and more(312, "hops").startswith("… 312 more hops")


def test_a_bar_is_empty_for_nothing_and_never_for_something() -> None:
    assert (bar(0.0), bar(0.02), bar(0.61), bar(1.0)) == ("", "▇░░░░░░░", "▇▇▇▇▇░░░", "▇" * 8)


EDGES = columns("SENDER:name RECEIVER:name STATE LEFT:number:2 HELD:number:1 BECAUSE:name")
PROSE = "max-length 10, overflow drop-head"
EDGE = ["web-7" + "x" * 40, "queue:/orders", "blocked 3.1 s", "400/400", "94 ms", "depth /orders"]


@pytest.mark.parametrize(
    ("width", "gone"),
    [(140, set()), (80, {"HELD"}), (70, {"HELD", "LEFT"}), (60, {"HELD", "LEFT"})],
)
def test_the_columns_that_matter_least_go_first(width: int, gone: set[str]) -> None:
    stream = io.StringIO()
    show(console(stream, width), table(EDGES, [EDGE]))
    lines = stream.getvalue().splitlines()
    heads = set(lines[0].split())
    assert {one.title for one in EDGES} - heads == gone
    said = " ".join(lines[3:])
    assert all(one in said for one in gone) and bool(said) is bool(gone)
    assert all(cells_of(line) <= width for line in lines)


SAMPLES = {True: "123,456", False: "running"}
"""Of a number, and of a word such as a state, as commands write them."""


def all_columns() -> list[tuple[str, tuple[Column, ...]]]:
    """Every table that a module of the commands declares."""
    found = []
    for module in pkgutil.iter_modules(cli.__path__):
        made = importlib.import_module(f"penstock.cli.{module.name}")
        for name, value in vars(made).items():
            if isinstance(value, tuple) and value and all(isinstance(one, Column) for one in value):
                found.append((f"{module.name}.{name}", value))
    return found


def test_every_table_fits_fifty_columns() -> None:
    tables = all_columns()
    assert len(tables) > 20
    wide = {}
    for name, which in tables:
        row = ["n" * 60 if one.is_name or one.is_prose else SAMPLES[one.is_number] for one in which]
        widest = max(cells_of(line) for line in table(which, [row]).lines(50, False))
        if widest > 50:
            wide[name] = widest
    assert not wide


def test_prose_is_wrapped_and_wide_characters_take_two_columns() -> None:
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("abcdefgh", 3) == ["abc", "def", "gh"]
    assert cells_of("日本") == 4 and cells_of("e\u0301") == 1
    stream = io.StringIO()
    show(
        console(stream, 30),
        table(columns("A RULES:prose"), [["x", PROSE]]),
    )
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4 and "".join(lines[2:]).split() == [
        *("x", "max-length", "10,", "overflow", "drop-head")
    ]
