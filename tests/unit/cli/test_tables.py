"""Tables: whole names into a pipe, one row a line on a terminal, nothing that moves the cursor."""

import io

from rich.console import Console

from penstock.cli.flow_top import bar
from penstock.cli.tables import Cell, Column, console, more, show, table

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
    screen = Console(file=stream, width=60, force_terminal=True, color_system=None)
    show(screen, table(COLUMNS, [[LONG, "1"]]))
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
