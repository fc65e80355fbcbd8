"""Rows among queues: in proportion, nobody left out, nothing lost."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.connector.common.planner import share

BACKLOGS = st.lists(st.integers(0, 10**6), min_size=1, max_size=12)


@given(BACKLOGS, st.integers(0, 10**7))
def test_all_of_it_is_given_out_and_no_more(backlogs: list[int], total: int) -> None:
    parts = share(total, backlogs)
    assert sum(parts) == min(total, sum(backlogs))
    assert all(0 <= part <= backlog for part, backlog in zip(parts, backlogs, strict=True))
    filled = sum(backlog > 0 for backlog in backlogs)
    if total >= filled:
        assert all(part > 0 for part, backlog in zip(parts, backlogs, strict=True) if backlog)


@given(BACKLOGS, st.integers(1000, 10**6))
def test_parts_are_in_proportion(backlogs: list[int], total: int) -> None:
    everything = sum(backlogs)
    if everything > total:
        for part, backlog in zip(share(total, backlogs), backlogs, strict=True):
            assert abs(part - total * backlog / everything) <= len(backlogs) + 1


def test_where_there_are_fewer_rows_than_queues_the_longest_come_first() -> None:
    assert share(2, [5, 100, 0, 50]) == [0, 1, 0, 1]
