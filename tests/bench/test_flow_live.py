"""The live flow rows in smoke mode: each runs to its end, and what must hold at any speed holds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.flow_live import figure, parse_arguments

PROGRAM = Path(__file__).resolve().parents[2] / "bench" / "flow_live.py"


def test_a_floor_is_held_against_the_median_and_a_ceiling_against_the_worst() -> None:
    assert figure("row", "name", [80, 95, 99], "%", 90, 0).is_met is True
    assert figure("row", "name", [80, 85, 99], "%", 90, 0).is_met is False
    assert figure("row", "name", [1, 2, 101], "ms", 0, 100).is_met is False
    assert figure("row", "name", [1, 2, 3], "ms", 0, 0).is_met is None


@pytest.mark.parametrize("words", [["--only", "nonsense"], ["--repeats", "-1"]])
def test_a_call_that_makes_no_sense_ends_with_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments(words)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


@pytest.mark.slow
def test_every_row_runs_to_its_end(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), "--smoke", "--out", str(out)],
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    figures = {one["name"]: one for one in json.loads(out.read_text())["figures"]}
    assert figures["publishes held meanwhile"]["is_met"], "or the row measures nothing"
    assert figures["alarms"]["value"] == 0
    assert figures["10 publishers, growth"]["is_met"]
    assert figures["times a hop closed and opened"]["is_met"]
