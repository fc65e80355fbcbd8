"""What is printed where no terminal is: a line now and then, and one mean for each phase."""

import io

from rich.console import Console

from penstock.demo.screen import Screen, StatusLine, line_of, sparkline


def reading(seconds: float, phase: str, share: float = 0.0) -> StatusLine:
    return StatusLine(seconds, phase, 100.0, 90.0, 5_000_000, 7, share, "disk" if share else "")


def test_shares_become_bars() -> None:
    assert sparkline([0.0, 0.5, 1.0, 2.0, -1.0]) == "▁▅██▁"


def test_a_line_says_everything() -> None:
    text = line_of(reading(65.0, "burst", 0.5), "tail")
    for part in ("t=01:05", "burst", "100/s", "90/s", "5 ms", "50%", "cause: disk"):
        assert part in text


def test_every_phase_ends_with_its_mean() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=200))
    screen.open()
    for second in range(8):
        screen.show(reading(float(second), "steady" if second < 5 else "burst", 0.25))
    screen.close()
    lines = out.getvalue().splitlines()
    means = [line for line in lines if "mean" in line]
    assert ["steady" in means[0], "burst" in means[1]] == [True, True]
    assert len(lines) == 4


def test_brackets_are_text_and_no_markup() -> None:
    out = io.StringIO()
    Screen(Console(file=out, width=200)).say("[bold]as it is[/bold]")
    assert out.getvalue() == "[bold]as it is[/bold]\n"
