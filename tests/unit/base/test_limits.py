"""The table of bounds: sound numbers, one name each, and what happens at the bound."""

import pytest

from penstock.base import limits
from penstock.base.limits import LIMITS, Limit


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_a_limit_is_sound(limit: Limit) -> None:
    assert 0 <= limit.lowest <= limit.default <= limit.highest
    assert limit.unit and limit.at_bound and "/" in limit.owner


def test_the_table_is_whole_and_names_are_unique() -> None:
    defined = [one for one in vars(limits).values() if isinstance(one, Limit)]
    assert len(LIMITS) == len(defined) == len({one.name for one in LIMITS})
