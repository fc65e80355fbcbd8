"""The culprits in virtual time: each answer is right in every respect, on any machine."""

import pytest

from bench.culprits_virtual import PACE, WITHOUT, pairs_of, run
from bench.outside.culprit_kinds import GLOBAL, KINDS

PAIRS = [
    ("rate_queue", "forwarded"),
    ("two_limits", "forwarded_to_a_limit"),
    ("paused_by_operator", "rate_connection"),
    ("rejected", "memory_alarm"),
    ("single_active", "rate_user_bytes"),
]


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_two_culprits_are_told_with_share_duration_and_what_helps(pair: tuple[str, str]) -> None:
    seed = 7 + PAIRS.index(pair)
    scores = run(range(seed, seed + 1), [pair], "penstock", PACE, None)
    assert [score.kind for score in scores] == list(pair)
    for score in scores:
        assert score.is_right() and not score.hurts and not score.is_disturbed, score
    assert any(score.share > 0.1 for score in scores), "somebody was held"


def test_seeds_choose_all_kinds_that_need_no_disk() -> None:
    pairs = pairs_of(range(300), "")
    assert {kind for pair in pairs for kind in pair} == set(KINDS) - WITHOUT
    assert not any(first in GLOBAL and second in GLOBAL for first, second in pairs)
    assert all(first == "slow" for first, _ in pairs_of(range(5), "slow"))
