"""The simulator's laws are worth what they find: each planted bug is found within forty seeds.

The same seeds pass without the bug, or the find would prove nothing.
"""

import re

import pytest

from penstock.simulation.machine.faults import SimulationFailed
from penstock.simulation.scenario.scenarios import simulate, small_setting
from tests.simulation import injected_faults as faults
from tests.simulation import planted

SEEDS = range(1, 41)
PENSTOCK, RABBITMQ = "penstock", "rabbitmq-4"
GRAPH = "random_graph"

# (what is planted, scenario, profile, words of the laws that may find it)
BUGS: list[tuple[type[object], str, str, str]] = [
    (planted.GrantsTwice, "chain", PENSTOCK, "messages on the books"),
    (planted.ForgetsToRepay, "chain", PENSTOCK, "are in flight, but"),
    (planted.LosesDeferredGrants, "slow_consumer", RABBITMQ, "are kept by nobody"),
    (planted.DoesNotDefer, "slow_consumer", RABBITMQ, "the window is|C3"),
    (planted.ChargesSomebodyElse, "chain", PENSTOCK, "owes|repaid more than was charged"),
    (planted.ChargesNoBytes, "chain", PENSTOCK, "bytes are in flight"),
    (planted.BlocksLate, "chain", RABBITMQ, "closed False, spent True"),
    (planted.NeverBlocks, "chain", RABBITMQ, "the window is|closed False, spent True"),
    (planted.ForgetsTheDebtOfTheDead, "vanishing_queue", PENSTOCK, "owes|debt is left behind"),
    (planted.LosesAConfirm, "many_publishers", PENSTOCK, "somebody waits"),
    (planted.RepeatsAConfirm, "many_publishers", PENSTOCK, "confirms nothing"),
    (planted.LosesADelivery, "chain", PENSTOCK, "somebody waits|is lost|before it did not"),
    (planted.SwapsTwoContents, "chain", PENSTOCK, "came after"),
    (planted.DeafShell, "chain", RABBITMQ, "somebody waits"),
    (planted.CarelessShell, "kill_storm", PENSTOCK, "somebody waits|left behind"),
    (planted.UnfairPicker, "chain", PENSTOCK, "sleeps on"),
    (planted.ForgetfulBroker, "alarm_storm", PENSTOCK, "somebody waits|C9"),
    (planted.RepaysTheDeadTwice, "vanishing_queue", PENSTOCK, "repaid more than was charged|owes"),
    (planted.HastyBroker, "alarm_storm", PENSTOCK, "C9: .* ring, the broker knows"),
    (planted.SilentBroker, GRAPH, PENSTOCK, "C9: .* knows"),
    (planted.RepeatsBlocked, "alarm_storm", PENSTOCK, "told twice"),
    (planted.ForgetsUnblocked, "alarm_storm", PENSTOCK, "told twice|never told"),
    (planted.ConfirmsBeforeReturns, GRAPH, PENSTOCK, "confirmed before it comes back"),
    (faults.LosesAGrantOnRelease, GRAPH, RABBITMQ, "on the books"),
    (faults.GrantsBehindAClosedGate, GRAPH, RABBITMQ, "C3|the window is"),
    (faults.ChangesAWindowOnly, GRAPH, PENSTOCK, "on the books"),
    (
        faults.KeepsAGrantForTheDead,
        "short_lives",
        PENSTOCK,
        "somebody who is gone|grants of the dead",
    ),
    (faults.ForgetsWhatIsUnderWay, "many_senders", PENSTOCK, "bytes above its mark"),
    (faults.LendsWhatIsLent, "many_senders", PENSTOCK, "bytes are lent"),
    (faults.ForgetsWhoAsked, "many_senders", PENSTOCK, "not in line|somebody waits"),
    (faults.IsHeldByTheDead, GRAPH, RABBITMQ, "C4: .* which is gone"),
    (faults.TakesTheSecondFirst, GRAPH, RABBITMQ, "C5|came after"),
    (faults.DropsTheParked, GRAPH, PENSTOCK, "is lost|did not|somebody waits"),
    (faults.OvertakesTheParked, "chain", PENSTOCK, "came after|did not"),
    (faults.EscapesWithoutCount, "own_backlog", PENSTOCK, "the window is|C9|above its mark"),
    (
        faults.ForgetsWhoIsParked,
        GRAPH,
        PENSTOCK,
        "somebody waits|keeps what is parked|more than a minute|sleeps on work",
    ),
    (faults.RepaysThePageOnly, GRAPH, PENSTOCK, "believes"),
    (faults.KeepsWhatWasPurged, GRAPH, PENSTOCK, "stored"),
    (faults.KeepsTheDebtOfASocket, GRAPH, PENSTOCK, "owes"),
    (faults.LeaksPrefetchOnRequeue, GRAPH, PENSTOCK, "its window holds"),
    (faults.ForgetsAReadyConsumer, GRAPH, PENSTOCK, "sleeps with a ready"),
    (faults.HidesMessages, GRAPH, PENSTOCK, "C7"),
    (faults.NeverWakes, "rate_limits", PENSTOCK, "somebody waits|more than a minute"),
]


@pytest.mark.parametrize(
    ("kind", "scenario", "profile", "words"), BUGS, ids=[kind.__name__ for kind, *_ in BUGS]
)
def test_a_planted_bug_is_found(
    kind: type[object], scenario: str, profile: str, words: str
) -> None:
    for seed in SEEDS:
        setting = planted.plant(small_setting(profile, seed, 1), kind)
        try:
            simulate(scenario, seed, profile, setting=setting)
        except SimulationFailed as failure:
            assert re.search(words, failure.fault), failure.fault
            assert f"run {scenario} --seed {seed} --profile {profile}" in str(failure)
            simulate(scenario, seed, profile)
            return
    pytest.fail(f"{kind.__name__} was not found in seeds {SEEDS}")
