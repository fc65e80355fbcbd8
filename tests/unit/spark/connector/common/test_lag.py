"""How far a query is behind: against a naive account of every row's time of arrival."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.connector.common.lag import (
    APART_NS,
    RATE_NS,
    SAMPLES_MAX,
    LagWatch,
    Look,
    Progress,
    Told,
)

S = 1_000_000_000


def watched(*looks: tuple[float, int, int]) -> LagWatch:
    watch = LagWatch()
    for seconds, tail, end in looks:
        watch.look(Look(round(seconds * S), tail, end))
    return watch


def test_a_row_waits_since_it_came_between_two_looks() -> None:
    assert watched().seconds() == 0.0
    assert watched((0, 5, 5)).seconds() == 0.0
    assert watched((0, 5, 5), (1, 7, 5), (4, 9, 5)).seconds() == 3.5
    assert watched((0, 5, 5), (1, 7, 5), (4, 9, 8)).seconds() == 0.0, "it came just now, or before"
    assert watched((0, 5, 5), (1, 7, 5), (4, 9, 7), (6, 9, 7)).seconds() == 3.5
    assert watched((10, 500, 0), (12, 500, 100)).seconds() == 2.0, "a backlog from before it"


def test_rates_are_those_of_the_last_seconds() -> None:
    assert watched((0, 0, 0)).rates() == (0.0, 0.0)
    assert watched((0, 0, 0), (2, 100, 40)).rates() == (50.0, 20.0)
    old = RATE_NS / S
    assert watched((0, 0, 0), (1, 900, 0), (1 + old, 1000, 100)).rates() == (10.0, 10.0)
    assert watched((0, 900, 0), (2, 100, 40)).rates() == (0.0, 20.0), "others took some"


@given(st.lists(st.tuples(st.integers(1, S), st.integers(0, 5), st.integers(0, 5)), min_size=1,
                max_size=120))  # fmt: skip
def test_seconds_are_right_to_the_distance_of_two_looks(steps: list[tuple[int, int, int]]) -> None:
    watch = LagWatch()
    now_ns = tail = end = 0
    came: list[int] = []
    for pause_ns, more, planned in steps:
        now_ns += pause_ns
        tail += more
        came += [now_ns] * more
        end = min(tail, end + planned)
        watch.look(Look(now_ns, tail, end))
    if tail == end:
        assert watch.seconds() == 0.0
        return
    # Rows come with a look here, and may have come at any time since the one before that is kept.
    latest = (now_ns - came[end]) / S
    apart = APART_NS / S
    assert latest - apart <= watch.seconds() <= latest + 1.0 + apart


def test_looks_have_a_bound_and_idle_ones_do_not_count() -> None:
    idle, busy = LagWatch(), LagWatch()
    for number in range(100_000):
        idle.look(Look(number * 10_000_000, 5, 5))
        busy.look(Look(number * APART_NS, number + 1, 0))
    assert len(idle._looks) <= SAMPLES_MAX and len(busy._looks) <= SAMPLES_MAX
    assert busy.seconds() == 99_999 * APART_NS / S, "the first stays"


def test_what_is_shown() -> None:
    progress = Progress(2)
    told = [Told(10.0, 7 * S), Told(0.0)]
    first = progress.report(0, [100, 5], [60, 5], told)
    assert first == {
        "lag_rows": 40, "lag_bytes": 400, "lag_seconds": 0.0, "rows_in_per_second": 0.0,
        "rows_out_per_second": 0.0, "publishers_held_seconds": 0.0,
    }  # fmt: skip
    second = progress.report(2 * S, [160, 6], [100, 5], [Told(10.0, 9 * S), Told(0.0)])
    # Of the second queue row 5 has come just now; of the first row 100 with the first of 60.
    assert (second["lag_rows"], second["lag_seconds"]) == (61, 1.967)
    assert (second["rows_in_per_second"], second["rows_out_per_second"]) == (30.5, 20.0)
    assert "lag_bytes" not in second, "nobody knows how large the sixth row is"
    assert second["publishers_held_seconds"] == 2.0, "not what was before the query"
    third = progress.report(3 * S, [160, 6], [160, 6], [Told(10.0, S), Told(0.0)])
    assert third["publishers_held_seconds"] == 2.0, "the broker was started anew"
    fourth = progress.report(4 * S, [160, 6], [160, 6], [Told(10.0, 3 * S), Told(0.0)])
    assert (fourth["publishers_held_seconds"], fourth["lag_rows"]) == (4.0, 0)
