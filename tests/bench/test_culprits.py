"""The bench of culprits: what counts as true, how it scores, and a few pairs on a live broker."""

from collections import deque
from dataclasses import replace
from random import Random

from bench.outside.culprit_kinds import GLOBAL, KINDS
from bench.outside.culprits import COMMAND, SMOKE, Score, chosen, run, table
from bench.outside.truth import BEHIND_S, Truth, Victim
from bench.outside.wire import Loop

RIGHT = Score(
    seed=1,
    kind="slow",
    beside="gone",
    share=0.5,
    said=0.52,
    root="consumers:/q",
    is_root=True,
    is_share=True,
    is_duration=True,
    is_advice=True,
    is_disturbed=False,
    before_s=10.0,
)


def test_there_are_thirty_kinds_and_no_two_global_ones_meet() -> None:
    assert len(KINDS) >= 30
    assert set(KINDS) >= GLOBAL
    rng = Random(7)
    pairs = [chosen(rng, list(KINDS)) for _ in range(500)]
    assert not any(first in GLOBAL and second in GLOBAL for first, second in pairs)
    assert {kind for pair in pairs for kind in pair} == set(KINDS)


def test_commands_are_found_in_advice() -> None:
    found = COMMAND.findall(
        "raise the limit (limit 300/s): penstock flow set rate.user.messages:u1=600/s"
    )
    assert found == ["flow set rate.user.messages:u1=600/s"]
    assert COMMAND.findall("let them go on: penstock queues resume /q") == ["queues resume /q"]


def test_what_is_disturbed_is_not_counted() -> None:
    wrong = replace(RIGHT, is_share=False)
    text = table([RIGHT, wrong, replace(wrong, is_disturbed=True)])
    assert not wrong.is_right()
    assert text.splitlines()[1].split() == ["slow", "2", "2", "1", "2", "2", "2", "0", "1"]
    assert text.endswith("1 of 3 answers were disturbed and are not counted")


def test_held_is_whose_oldest_publish_waits() -> None:
    loop = Loop()
    truth = Truth(loop, 1)
    victim = Victim.__new__(Victim)
    victim.sent_at = deque()
    truth.watch(victim)

    def look(at: float, *sent: float) -> None:
        victim.sent_at = deque(sent)
        truth.look(at)

    look(1.0)
    look(1.1, 1.1 - 0.9 * BEHIND_S)
    assert truth.held_s(victim, 0.0, 9.0) == 0.0
    look(2.0, 1.5, 1.9)
    look(2.01, 1.5, 1.9)  # too soon to look again
    look(3.0, 1.9)
    look(3.1)
    look(5.0, 4.0)
    assert truth.held_s(victim, 0.0, 9.0) == 2.5
    assert truth.held_s(victim, 2.0, 4.5) == 1.5
    assert truth.longest_gap(1.0, 5.0) == 5.0 - 3.1
    loop.close()


def test_the_smoke_pairs_are_told_right() -> None:
    scores = run(range(len(SMOKE)), list(SMOKE), "penstock", None)
    assert len(scores) == 2 * len(SMOKE)
    # Where others need the processor too, what share of a window it was is a matter of chance.
    for score in scores:
        assert score.is_root and not score.hurts, score
        assert score.is_right() or score.is_disturbed, score
