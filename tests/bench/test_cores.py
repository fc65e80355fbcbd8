"""One broker process against several: what is divided, and that all arrives."""

import shutil

import pytest

from bench.cores import Run, line_of, main, parsed
from tests.bench.programs import refuses


def test_ratios_are_taken_repeat_by_repeat() -> None:
    single = [Run(100.0, 2.0, 2.0), Run(200.0, 4.0, 4.0), Run(100.0, 2.0, 2.0)]
    several = [Run(150.0, 3.0, 1.0), Run(300.0, 4.0, 2.0), Run(200.0, 2.0, 1.0)]
    line = line_of("two", "a16", {1: single, 2: several})
    assert "rate x 1.50 (1.50-2.00)" in line
    assert "cost x 1.00 (1.00-1.50)" in line
    assert "of the busiest x 2.00 (2.00-2.00)" in line


def test_options_that_make_no_sense_are_refused() -> None:
    refuses(parsed, "--only nonsense", "--kinds three", "--seconds 0", "--repeats 0")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the load generator needs gcc")
def test_messages_of_both_virtual_hosts_arrive(capsys: pytest.CaptureFixture[str]) -> None:
    """Costs about ten seconds: four brokers, with and without TLS."""
    assert main(["--smoke", "--only", "a16"]) == 0
    said = capsys.readouterr().out
    assert "two a16: arrived" in said and "tls a16: arrived" in said
