"""The simulator's laws are worth what they find: each planted bug is found within forty seeds.

The same seeds pass without the bug, or the find would prove nothing.
"""

import re
from collections.abc import Callable
from functools import partial

import pytest

from penstock.simulation.machine.faults import SimulationFailed
from penstock.simulation.scenario.scenarios import simulate, small_setting
from penstock.simulation.world.world import WorldSetting
from tests.simulation import gremlins, planted

SEEDS = range(1, 41)
PENSTOCK, RABBITMQ = "penstock", "rabbitmq-4"
GRAPH = "random_graph"
Plant = Callable[[WorldSetting], WorldSetting]

# name: (scenario, profile, what plays it, words of the laws that may find it)
GREMLINS: dict[str, tuple[str, str, type[gremlins.Gremlin], str]] = {
    "loses a grant on release": (GRAPH, RABBITMQ, gremlins.LosesAGrantOnRelease, "on the books"),
    "grants behind a closed gate": (
        GRAPH,
        RABBITMQ,
        gremlins.GrantsBehindAClosedGate,
        "C3|the window is",
    ),
    "changes a window without the balance": (
        GRAPH,
        PENSTOCK,
        gremlins.ChangesAWindowOnly,
        "on the books",
    ),
    "keeps a grant for the dead": (
        "short_lives",
        PENSTOCK,
        gremlins.KeepsAGrantForTheDead,
        "somebody who is gone|grants of the dead",
    ),
    "is held by the dead": (GRAPH, RABBITMQ, gremlins.IsHeldByTheDead, "C4: .* which is gone"),
    "takes the second first": (GRAPH, RABBITMQ, gremlins.TakesTheSecondFirst, "C5|came after"),
    "drops the parked": (
        GRAPH,
        PENSTOCK,
        gremlins.DropsTheParked,
        "is lost|did not|somebody waits",
    ),
    "overtakes the parked": ("chain", PENSTOCK, gremlins.OvertakesTheParked, "came after|did not"),
    "escapes without count": (
        "own_backlog",
        PENSTOCK,
        gremlins.EscapesWithoutCount,
        "the window is|C9",
    ),
    "forgets who is parked": (
        GRAPH,
        PENSTOCK,
        gremlins.ForgetsWhoIsParked,
        "somebody waits|although every hop is open|more than a minute",
    ),
    "repays the page only": (GRAPH, PENSTOCK, gremlins.RepaysThePageOnly, "believes"),
    "keeps what was purged": (GRAPH, PENSTOCK, gremlins.KeepsWhatWasPurged, "stored"),
    "keeps the debt of a socket": (
        GRAPH,
        PENSTOCK,
        gremlins.KeepsTheDebtOfASocket,
        "owes",
    ),
    "leaks prefetch on requeue": (
        GRAPH,
        PENSTOCK,
        gremlins.LeaksPrefetchOnRequeue,
        "its window holds",
    ),
    "forgets a ready consumer": (
        GRAPH,
        PENSTOCK,
        gremlins.ForgetsAReadyConsumer,
        "sleeps with a ready",
    ),
    "hides messages": (GRAPH, PENSTOCK, gremlins.HidesMessages, "C7"),
    "never wakes who waits for a rate": (
        "rate_limits",
        PENSTOCK,
        gremlins.NeverWakes,
        "somebody waits|more than a minute",
    ),
}

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
        "the window is|C3",
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
    "forgets who an alarm holds": (
        "alarm_storm",
        PENSTOCK,
        partial(planted.BrokerBug, kind=planted.ForgetfulBroker),
        "somebody waits|C9",
    ),
    "repays the dead twice": (
        "vanishing_queue",
        PENSTOCK,
        partial(planted.StrategyBug, kind=planted.RepaysTheDeadTwice),
        "repaid more than was charged|owes",
    ),
    "clears all alarms with the first": (
        "alarm_storm",
        PENSTOCK,
        partial(planted.BrokerBug, kind=planted.HastyBroker),
        "C9: .* ring, the broker knows",
    ),
    "does not tell a newcomer of an alarm": (
        "random_graph",
        PENSTOCK,
        partial(planted.BrokerBug, kind=planted.SilentBroker),
        "C9: .* knows",
    ),
    "sends blocked twice": (
        "alarm_storm",
        PENSTOCK,
        partial(planted.OutputBug, kind=planted.RepeatsBlocked),
        "told twice",
    ),
    "forgets to send unblocked": (
        "alarm_storm",
        PENSTOCK,
        partial(planted.OutputBug, kind=planted.ForgetsUnblocked),
        "told twice|never told",
    ),
    "confirms before it returns": (
        "random_graph",
        PENSTOCK,
        partial(planted.OutputBug, kind=planted.ConfirmsBeforeReturns),
        "confirmed before it comes back",
    ),
    **{
        name: (scenario, profile, partial(gremlins.GremlinBug, kind=kind), words)
        for name, (scenario, profile, kind, words) in GREMLINS.items()
    },
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
