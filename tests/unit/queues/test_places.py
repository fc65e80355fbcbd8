"""Positions with gaps, against a plain list."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.queues.places import Places

GAPS = st.sampled_from((1, 1, 1, 2, 3, 100, 127, 128, 129, 20_000, 1 << 40))
STEPS = st.lists(st.tuples(st.sampled_from(("append", "append", "prepend", "take")), GAPS))
START = 1 << 50


@given(STEPS)
def test_as_a_list(steps: list[tuple[str, int]]) -> None:
    places = Places(START)
    twin = [START]
    for step, gap in steps:
        if step == "append":
            twin.append(twin[-1] + gap)
            places.append(twin[-1])
        elif step == "prepend":
            twin.insert(0, twin[0] - gap)
            places.prepend(twin[0])
        elif len(twin) > 1:
            twin.pop(0)
            places.take()
        assert (places.first, places.last) == (twin[0], twin[-1])
        assert places.next_ones(len(twin)) == twin
        assert places.next_ones(3) == twin[:3]
        runs = places.runs(len(twin))
        assert [one for first, last in runs for one in range(first, last + 1)] == twin
        assert all(last + 1 < after[0] for (_, last), after in pairwise(runs))


def test_what_is_in_a_row_takes_no_bytes_and_what_alternates_two() -> None:
    places = Places(1)
    for position in range(2, 1000):
        places.append(position)
    assert len(places.data) == 0
    for position in range(1001, 3001, 2):
        places.append(position)
    assert len(places.data) == 2 * 999
