"""The timetable: exact over any time, and nothing that was missed is forgiven."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.perf.producer import ANY, Timetable

START_NS = 5_000
SECOND_NS = 1_000_000_000
RATES = st.floats(0.001, 1e6) | st.sampled_from([1.0, 3.0, 7.0, 1000.0, 333.3])


@given(RATES, st.integers(0, 200))
def test_the_next_message_is_due_at_its_moment_and_not_before(rate: float, taken: int) -> None:
    pace = Timetable(rate, START_NS)
    for _ in range(taken):
        pace.take(pace.next_ns())
    moment = pace.next_ns()
    assert pace.due(moment) >= 1
    assert moment == START_NS or pace.due(moment - 1) == 0


@given(RATES, st.integers(0, 10 * SECOND_NS))
def test_a_held_publisher_finds_everything_due_it_missed(rate: float, held_ns: int) -> None:
    pace = Timetable(rate, START_NS)
    due = pace.due(START_NS + held_ns)
    assert abs(due - (held_ns * rate / SECOND_NS + 1)) <= 1 + held_ns / SECOND_NS / 1e6
    moments = [pace.take(START_NS + held_ns) for _ in range(min(due, 50))]
    assert moments == sorted(moments)
    assert moments[0] == START_NS, "the first was meant for the start, however late it leaves"


def test_without_a_rate_everything_is_due_and_meant_for_now() -> None:
    pace = Timetable(0.0, START_NS)
    assert pace.due(START_NS) == ANY
    assert pace.take(START_NS + 7) == START_NS + 7
    assert pace.next_ns() == START_NS
