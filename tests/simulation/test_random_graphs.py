"""Random graphs with deaths: a sample of what `make sim` runs by the thousand, and their shrinking.

Invariants C1 to C9 are asserted after every third turn, see penstock.simulation.laws.checks.
"""

import pytest

from penstock.simulation.machine.faults import SimulationFailed
from penstock.simulation.scenario.plan import EVENT_KINDS, drawn, smallest
from penstock.simulation.scenario.random_graph import ON_BROKERS, ON_CLIENTS
from penstock.simulation.scenario.scenarios import PROFILES, simulate, small_setting
from tests.simulation.injected_faults import ChangesAWindowOnly
from tests.simulation.planted import plant

SEEDS_EACH = 7


@pytest.mark.parametrize("profile", PROFILES)
def test_random_graphs(profile: str) -> None:
    delivered = 0
    for seed in range(1, SEEDS_EACH + 1):
        delivered += simulate("random_graph", seed, profile, check_every=3).delivered
    assert delivered > 0


def test_every_kind_of_event_is_drawn_and_done() -> None:
    kinds = {event.kind for seed in range(200) for event in drawn(seed).events}
    assert kinds == set(EVENT_KINDS) == set(ON_CLIENTS) | set(ON_BROKERS)


def test_leaving_parts_out_changes_nothing_about_the_others() -> None:
    plan = drawn(3)
    numbers = plan.numbers()
    without = plan.without(frozenset(numbers[::2]))
    assert without.numbers() == [one for one in numbers[1::2] if one in without.numbers()]
    lines = plan.text().splitlines()
    assert [line for line in without.text().splitlines() if line not in lines] == []


def test_a_failing_world_is_made_smaller_and_replays() -> None:
    """A bug is planted; what is left of its world holds the change of a window and a publisher."""
    profile = "penstock"

    def fails(seed: int, without: frozenset[int]) -> SimulationFailed | None:
        setting = plant(small_setting(profile, seed, 1), ChangesAWindowOnly)
        try:
            simulate("random_graph", seed, profile, 1, setting, without)
        except SimulationFailed as failure:
            return failure
        return None

    for seed in range(1, 60):
        failure = fails(seed, frozenset())
        if failure is not None:
            break
    else:
        pytest.fail("the bug was not found")
    numbers = drawn(seed).numbers()
    out, smaller = smallest(numbers, failure, lambda without: fails(seed, without), 80)
    left = drawn(seed).without(out)
    assert len(left.numbers()) <= 6 < len(numbers)
    assert {event.kind for event in left.events} >= {"setting"}
    command = f"--without {','.join(str(number) for number in sorted(out))}"
    assert str(smaller).endswith(command)
    again = fails(seed, out)
    assert again is not None
    # Below its first line pytest may have written where in memory things are.
    assert again.fault.splitlines()[0] == smaller.fault.splitlines()[0]
