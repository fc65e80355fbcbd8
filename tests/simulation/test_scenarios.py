"""Every scenario under every profile for a few seeds, and all runs that ever failed."""

import pytest

from penstock.simulation.scenario.scenarios import PROFILES, SCENARIOS, simulate
from tests.simulation.failed_seeds import FAILED_SEEDS


@pytest.mark.parametrize("seed", [11])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(scenario: str, profile: str, seed: int) -> None:
    report = simulate(scenario, seed, profile, check_every=2)
    assert report.delivered > 0


@pytest.mark.parametrize(("scenario", "profile", "seed"), FAILED_SEEDS)
def test_what_once_failed(scenario: str, profile: str, seed: int) -> None:
    simulate(scenario, seed, profile)


@pytest.mark.parametrize("scenario", ["kill_storm", "shared_connection"])
def test_a_seed_replays_exactly(scenario: str) -> None:
    """Also when the laws are checked less often: checking changes nothing."""
    first = simulate(scenario, 5, "penstock")
    assert simulate(scenario, 5, "penstock") == first
    assert simulate(scenario, 5, "penstock", check_every=9) == first
