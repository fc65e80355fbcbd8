"""The last ten minutes as moments: each ten seconds, with the highest share that was seen in it."""

from itertools import pairwise

from penstock.management.pages.drawing import MOMENT_S, SPAN_MOMENTS, moments

NOW = 1_700_000_005.0


def test_a_moment_has_the_highest_share_seen_in_it() -> None:
    points = [(31.0, {"held": 0.1}), (28.0, {"held": 0.7}), (1.0, {"held": 0.2}), (0.0, {})]
    drawn = moments(points, NOW)
    assert len(drawn) == SPAN_MOMENTS
    assert [one.held for one in drawn[-4:]] == [0.7, None, None, 0.2]
    assert all(one.held is None for one in drawn[:-4])


def test_moments_end_at_round_seconds_and_the_last_one_now() -> None:
    drawn = moments([], NOW)
    assert drawn[-1].at == 1_700_000_005 and drawn[-2].at == 1_700_000_000
    assert [two.at - one.at for one, two in pairwise(drawn[:-1])] == [MOMENT_S] * (SPAN_MOMENTS - 2)
    assert all(one.x < two.x for one, two in pairwise(drawn))


def test_what_is_older_than_all_moments_is_left_out() -> None:
    assert all(one.held is None for one in moments([(700.0, {"held": 1.0})], NOW))
