"""The benchmark of what explaining costs: its arithmetic, and that it runs."""

import shutil
from pathlib import Path

import pytest

from bench.flow_cost import compare, line, parsed, targets_of, verdict
from tests.bench.programs import output_of, refuses

# The same for the broker with and without; it changes only when a row or its count is changed.
COUNTS_HASH = "5a119ec095419816"


def test_the_cost_is_that_of_the_pairs() -> None:
    """The machine was twice as fast in the second repeat, and 4 % were lost in each."""
    found = compare([96.0, 192.0, 96.0], [100.0, 200.0, 100.0])
    assert found["cost"] == pytest.approx(0.04)
    assert (found["on"], found["on_max"], found["off_min"]) == (96.0, 192.0, 100.0)
    shown = line("a16", found, compare([90.0], [100.0]))
    assert "cost   4.0 % (middle half 4.0 to 4.0), within 5 %" in shown
    assert shown.endswith("cost 10.0 %")


@pytest.mark.parametrize(
    ("costs", "said"),
    [
        ([1, 2, 3, 4, 30], "within"),
        ([6, 7, 8, 9, -30], "ABOVE"),
        ([1, 2, 4, 7, 9], "undecided, within"),
        ([1, 2, 6, 7, 9], "undecided, above"),
    ],
)
def test_a_noisy_machine_decides_nothing(costs: list[int], said: str) -> None:
    assert verdict(compare([100.0 - cost for cost in costs], [100.0] * len(costs))) == said


def test_one_is_switched_off_and_the_other_is_as_it_comes(tmp_path: Path) -> None:
    on, off = targets_of("", tmp_path)
    assert on.arguments == ()
    settings = Path(off.arguments[1]).read_text(encoding="utf-8")
    assert "recorder_events = 0" in settings and "time_accounting = false" in settings


def test_a_call_that_makes_no_sense_ends_with_2() -> None:
    refuses(parsed, "--only nonsense", "--repeats 0", "--rounds -1")


def test_a_round_is_measured() -> None:
    assert output_of("flow_cost.py", "--rounds", "20").startswith("21 connections, ")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the load generator needs gcc")
def test_both_deliver_every_message() -> None:
    assert f"counts {COUNTS_HASH}" in output_of("flow_cost.py", "--smoke")
