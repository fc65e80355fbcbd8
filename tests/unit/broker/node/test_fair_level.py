"""How a budget of memory is shared by queues: water in vessels."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.node.paging_manager import NO_LEVEL, fair_level


def test_everybody_keeps_what_he_has_while_there_is_room() -> None:
    assert fair_level([10, 20, 30], 60) == NO_LEVEL
    assert fair_level([], 0) == NO_LEVEL


def test_what_small_ones_leave_is_shared_by_large_ones() -> None:
    assert fair_level([10, 100, 100], 110) == 50
    assert fair_level([10, 60, 500], 110) == 50
    assert fair_level([10, 40, 500], 110) == 60


def test_without_a_budget_nobody_keeps_anything() -> None:
    assert fair_level([10, 20], 0) == 0


@given(st.lists(st.integers(0, 1000), max_size=20), st.integers(0, 5000))
def test_together_they_keep_to_the_budget_and_use_it(held: list[int], budget: int) -> None:
    level = fair_level(held, budget)
    kept = sum(min(one, level) for one in held)
    assert kept <= budget
    if level != NO_LEVEL:
        assert kept > budget - len(held)
