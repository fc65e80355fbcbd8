"""Alarm episodes from outside, in smoke mode: they happen, and the innocents are not stopped."""

import json
from pathlib import Path

import pytest

from bench.outside.alarm_episodes import parse_arguments
from tests.bench.programs import output_of, refuses


def test_a_call_that_makes_no_sense_ends_with_2() -> None:
    refuses(parse_arguments, "--lowest 101", "--held -1", "--culprit-bytes 0", "--mode some")


@pytest.mark.slow
def test_innocents_are_not_stopped_by_alarms_of_others(tmp_path: Path) -> None:
    """On a busy machine their rate is that of the machine; whether they were stopped is not."""
    out = tmp_path / "figures.json"
    output_of("outside/alarm_episodes.py", "--smoke", "--lowest", "50", "--out", str(out))
    figures = json.loads(out.read_text())
    assert figures["episodes"] == 2 and figures["stops"] >= 2, "or nothing was tried"
    assert figures["told"] == 0
    assert figures["drained"] > 0
