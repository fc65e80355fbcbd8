"""A run of positions and its bits behave as a set of numbers, in whatever order it is asked."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.layout.segment import GAP_MAX, Run, Segment, Table

STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "clear", "has", "next", "split"]), st.integers(0, 400)),
    max_size=80,
)


def whole(run: Run) -> set[int]:
    """All that counts in it."""
    found = set()
    position = run.next_live(run.first)
    while position >= 0:
        found.add(int(position))
        position = run.next_live(position + 1)
    return found


@given(st.integers(1, 50), STEPS)
def test_a_run_is_a_set_of_positions(first: int, steps: list[tuple[str, int]]) -> None:
    run = Run(Table(Segment(1, bytes(8)), 1), first, first, bytearray())
    run.add(first)
    model = {first}
    for kind, number in steps:
        at = first + number % (int(run.last) - first + 1)
        if kind == "add":
            assert number < GAP_MAX
            model.add(int(run.last) + 1 + number % 20)
            run.add(max(model))
        elif kind == "clear":
            if run.first <= at:
                assert run.clear(at) == (at in model)
                model.discard(at)
        elif kind == "has":
            assert run.has(at) == (at in model)
        elif kind == "next":
            assert run.next_live(at) == min((one for one in model if one >= at), default=-1)
        elif at > run.first:
            part = run.split(at)
            assert whole(part) == {one for one in model if one >= at}
            assert whole(run) == {one for one in model if one < at}
            # Going on with what is behind, whose bits begin elsewhere.
            run, first = part, at
            model = {one for one in model if one >= at}
        assert run.live == len(model)
    assert whole(run) == model
