"""The live flow rows in smoke mode: each runs to its end, and what must hold at any speed holds."""

import json
from pathlib import Path

import pytest

from bench.flow_live import figure, parse_arguments
from tests.bench.programs import output_of, refuses


def test_a_floor_is_held_against_the_median_and_a_ceiling_against_the_worst() -> None:
    assert figure("row", "name", [80, 95, 99], "%", 90, 0).is_met is True
    assert figure("row", "name", [80, 85, 99], "%", 90, 0).is_met is False
    assert figure("row", "name", [1, 2, 101], "ms", 0, 100).is_met is False
    assert figure("row", "name", [1, 2, 3], "ms", 0, 0).is_met is None


def test_a_call_that_makes_no_sense_ends_with_2() -> None:
    refuses(parse_arguments, "--only nonsense", "--repeats -1")


@pytest.mark.slow
def test_every_row_runs_to_its_end(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    output_of("flow_live.py", "--smoke", "--out", str(out))
    figures = {one["name"]: one for one in json.loads(out.read_text())["figures"]}
    assert figures["publishes held meanwhile"]["is_met"], "or the row measures nothing"
    assert figures["alarms"]["value"] == 0
    assert figures["10 publishers, growth"]["is_met"]
    assert figures["times a hop closed and opened"]["is_met"]
