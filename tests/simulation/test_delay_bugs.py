"""The laws of delayed messages are worth what they find: each planted bug, within forty seeds."""

import re

import pytest

from penstock.simulation.machine.faults import SimulationFailed
from penstock.simulation.scenario.scenarios import simulate, small_setting
from tests.simulation.planted_delays import plant_delay_bug

# name of the bug: words of the laws that may find it
FOUND_BY = {
    "early": "ns early",
    "turned": "came after",
    "sleeping": "somebody waits|not over after|more than a minute",
    "purged": "stored",
    "charged": "stored",
    "lost": "is lost|before it did not|somebody waits",
    "twice": "for the second time|was acknowledged and came again|more left than was stored",
    "boundless": "the limit is",
}


@pytest.mark.parametrize("name", FOUND_BY)
def test_a_planted_bug_is_found(name: str) -> None:
    for seed in range(1, 41):
        setting = plant_delay_bug(small_setting("penstock", seed, 3), name)
        try:
            simulate("delays", seed, "penstock", setting=setting)
        except SimulationFailed as failure:
            assert re.search(FOUND_BY[name], failure.fault), failure.fault
            simulate("delays", seed, "penstock", check_every=7)
            return
    pytest.fail(f"'{name}' was not found")
