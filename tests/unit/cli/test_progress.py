"""Progress of long commands: a bar on a terminal, few lines elsewhere."""

import sys
from pathlib import Path

import pytest

from penstock.cli.progress import Bar, time_text
from tests.terminal import on_terminal


def test_without_a_terminal_there_are_few_lines_and_the_last_one_stays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Bar("points", "starting") as bar:
        for done in range(1001):
            bar.show(done / 1000, done, f"{done:,}/1,000")
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and len(lines) == 2
    assert lines[0] == "  0% · 0/1,000 points"
    assert lines[1].startswith("100% · 1,000/1,000 points · ") and lines[1].endswith("/s")


def test_what_was_never_begun_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), Bar("points", "starting"):
        raise ZeroDivisionError
    assert capsys.readouterr().err == ""


def test_the_time_left_is_said_as_people_say_it() -> None:
    assert [time_text(one) for one in (3.4, 200, 7500)] == ["3 s", "3:20 min", "2:05 h"]


def test_on_a_terminal_a_sweep_draws_a_bar(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("pyarrow")
    arguments = (
        "--no-spark", "--engine", "fluid", "--workloads", "chain-consumer", "--connections", "4",
        "--seconds", "0.2", "--seeds", "1-8", "--no-plots", "--out", str(tmp_path),
    )  # fmt: skip
    status, _, shown = on_terminal(sys.executable, "-m", "penstock.cli.main", "sweep", *arguments)
    assert status == 0, shown
    assert "━" in shown and " left" in shown
    assert "100% · 8/8 points" in shown.splitlines()[-1]
