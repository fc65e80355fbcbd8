"""The cost of a feature: paired repeats, what makes no sense, and each feature once."""

import shutil
from pathlib import Path

import pytest

from bench.brokers import Target
from bench.feature_costs import PLAIN, cost_of, parsed, targets_of
from tests.bench.programs import output_of, refuses


def test_a_cost_is_paired_by_repeat_so_that_a_slow_minute_is_none() -> None:
    without = [1.0, 2.0, 4.0, 1.0, 1.5, 3.0]
    cost = cost_of([1.1 * value for value in without], without)
    assert cost.share == pytest.approx(0.1) and cost.low == pytest.approx(0.1)
    noisy = cost_of([1.0, 2.4, 3.8, 1.2, 1.3, 3.1], without)
    assert noisy.low < 0.0 < noisy.high


def test_each_feature_has_a_broker_that_differs_in_it_alone(tmp_path: Path) -> None:
    plain = Target("penstock", "penstock")
    found = targets_of(plain, tmp_path, {PLAIN, "no-parking", "management"})
    assert found[PLAIN].arguments == ("--no-management",)
    assert found["no-parking"].arguments[:1] == ("--no-management",)
    settings = Path(found["no-parking"].arguments[-1]).read_text(encoding="utf-8")
    assert settings == "parked_bytes = 0\n"
    assert "--management" in found["management"].arguments
    assert "--no-management" not in found["management"].arguments


def test_options_that_make_no_sense_are_refused() -> None:
    refuses(parsed, "--only nonsense", "--features gold", "--repeats 1", "--seconds 0")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the load generator needs gcc")
def test_messages_arrive_with_every_setting() -> None:
    """Costs about ten seconds: four brokers, one of them with a user who may not do all."""
    output = output_of("feature_costs.py", "--smoke", "--features", "recorder,parking,permissions")
    assert "a16: arrived through no-parking, no-recorder, permissions, plain" in output
