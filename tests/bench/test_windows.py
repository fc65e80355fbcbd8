"""The comparison of adaptive and fixed windows: its table, and the program in smoke mode."""

import pytest

from bench.outside.windows import WORKLOADS, Run, median_of, parse_arguments, shown
from tests.bench.programs import output_of, refuses


def test_what_is_best_is_the_best_of_the_fixed_windows() -> None:
    runs = [
        Run("adaptive", 900.0, 10.0, 30.0, 1.0, 20.0),
        Run("static-50", 500.0, 5.0, 10.0, 1.0, 30.0),
        Run("static-400", 1000.0, 20.0, 60.0, 0.5, 20.0),
        Run("static-800", 990.0, 20.0, 50.0, 0.5, 20.0),
    ]
    rows = {line.split()[0]: line.split() for line in shown("slow-disk", runs)}
    # static-50 has the shortest p99, but half of the rate.
    assert rows["adaptive"][1:] == ["900", "0.90", "10.0", "30.0", "0.60", "100%", "20.0"]
    assert rows["static-400"][1:] == ["1000", "1.00", "20.0", "60.0", "1.20", "50%", "20.0"]


def test_of_repeats_the_median_counts() -> None:
    runs = [Run("penstock", rate, 1.0, rate / 10, 1.0, rate) for rate in (10.0, 1000.0, 30.0)]
    assert median_of(runs) == Run("penstock", 30.0, 1.0, 3.0, 1.0, 30.0)


def test_a_call_that_makes_no_sense_ends_with_2() -> None:
    refuses(parse_arguments, "--only nonsense", "--repeats 0", "--seconds 0", "--settle -1")


@pytest.mark.slow
def test_every_workload_runs_to_its_end() -> None:
    output = output_of("outside/windows.py", "--smoke", "--profiles", "adaptive")
    rows = [line.split() for line in output.splitlines() if line.startswith("adaptive")]
    assert len(rows) == len(WORKLOADS)
    assert all(float(row[1]) > 0 and float(row[4]) > 0 for row in rows)
