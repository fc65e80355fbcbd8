"""The simulator's laws are worth what they find: every planted bug must be found within ten seeds.

The same seeds pass without the bug, or the find would prove nothing.
"""

import re
from collections.abc import Callable
from functools import partial

import pytest

from penstock.simulation.faults import SimulationFailed
from penstock.simulation.scenarios import simulate, small_setting
from penstock.simulation.world import Setting
from tests.simulation import planted

SEEDS = range(1, 11)
PENSTOCK, RABBITMQ = "penstock", "rabbitmq-4"
Plant = Callable[[Setting], Setting]

# name: (scenario, profile, how it is planted, words of the laws that may find it)
BUGS: dict[str, tuple[str, str, Plant, str]] = {
    "grants twice": (
        "chain",
        PENSTOCK,
        partial(planted.StrategyBug, kind=planted.GrantsTwice),
        "messages on the books",
    ),
    "forgets to repay": (
        "chain",
        PENSTOCK,
        partial(planted.StrategyBug, kind=planted.ForgetsToRepay),
        "are in flight, but",
    ),
    "loses deferred grants": (
        "slow_consumer",
        RABBITMQ,
        partial(planted.StrategyBug, kind=planted.LosesDeferredGrants),
        "are kept by nobody",
    ),
    "does not defer": (
        "slow_consumer",
        RABBITMQ,
        partial(planted.StrategyBug, kind=planted.DoesNotDefer),
        "the window is",
    ),
    "charges somebody else": (
        "chain",
        PENSTOCK,
        partial(planted.StrategyBug, kind=planted.ChargesSomebodyElse),
        "owes|repaid more than was charged",
    ),
    "charges no bytes": (
        "chain",
        PENSTOCK,
        partial(planted.StrategyBug, kind=planted.ChargesNoBytes),
        "bytes are in flight",
    ),
    "blocks late": (
        "chain",
        RABBITMQ,
        partial(planted.StrategyBug, kind=planted.BlocksLate),
        "closed False, spent True",
    ),
    "never blocks": (
        "chain",
        RABBITMQ,
        partial(planted.StrategyBug, kind=planted.NeverBlocks),
        "the window is|closed False, spent True",
    ),
    "forgets the debt of the dead": (
        "vanishing_queue",
        PENSTOCK,
        partial(planted.StrategyBug, kind=planted.ForgetsTheDebtOfTheDead),
        "owes|debt is left behind",
    ),
    "loses a confirm": (
        "many_publishers",
        PENSTOCK,
        partial(planted.OutputBug, kind=planted.LosesAConfirm),
        "somebody waits",
    ),
    "repeats a confirm": (
        "many_publishers",
        PENSTOCK,
        partial(planted.OutputBug, kind=planted.RepeatsAConfirm),
        "confirms nothing",
    ),
    "loses a delivery": (
        "chain",
        PENSTOCK,
        partial(planted.OutputBug, kind=planted.LosesADelivery),
        "somebody waits|is lost|before it did not",
    ),
    "swaps two messages": (
        "chain",
        PENSTOCK,
        partial(planted.OutputBug, kind=planted.SwapsTwoContents),
        "came after",
    ),
    "never reads again": (
        "chain",
        RABBITMQ,
        partial(planted.ShellBug, kind=planted.DeafShell),
        "somebody waits",
    ),
    "forgets the dead": (
        "kill_storm",
        PENSTOCK,
        partial(planted.ShellBug, kind=planted.CarelessShell),
        "somebody waits|left behind",
    ),
    "starves a queue": ("chain", PENSTOCK, planted.PickerBug, "sleeps on"),
    "forgets who an alarm holds": ("alarm_storm", PENSTOCK, planted.BrokerBug, "somebody waits"),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    scenario, profile, plant, words = BUGS[name]
    for seed in SEEDS:
        try:
            simulate(scenario, seed, profile, setting=plant(small_setting(profile, seed, 1)))
        except SimulationFailed as failure:
            assert re.search(words, failure.fault), failure.fault
            assert f"run {scenario} --seed {seed} --profile {profile}" in str(failure)
            simulate(scenario, seed, profile)
            return
    pytest.fail(f"'{name}' was not found in seeds {SEEDS}")
