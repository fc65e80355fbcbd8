"""Every nanosecond of a publisher belongs to exactly one reason."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.perf.producer import HeldTime, Reason
from penstock.perf.report import shares_of

STEPS = st.lists(st.tuples(st.sampled_from(list(Reason)), st.integers(0, 10**9)), max_size=30)


@given(STEPS)
def test_the_parts_add_up_to_the_time_that_passed(steps: list[tuple[Reason, int]]) -> None:
    now_ns = 77
    held = HeldTime(now_ns)
    expected = dict.fromkeys(Reason, 0)
    current = Reason.BUSY
    for reason, passed_ns in steps:
        held.enter(reason, now_ns)
        current = reason
        now_ns += passed_ns
        expected[current] += passed_ns
    held.settle(now_ns)
    assert held.snapshot() == tuple(expected.values())
    shares = shares_of(held.snapshot())
    total = shares.busy + shares.idle + shares.socket + shares.alarm + shares.confirms
    assert abs(total - 1.0) < 1e-9


def test_blocked_is_socket_and_alarm_only() -> None:
    held = HeldTime(0)
    for moment, reason in enumerate(Reason):
        held.enter(reason, moment * 10)
    held.settle(50)
    assert shares_of(held.snapshot()).blocked == 0.4


def test_no_time_is_no_blocking() -> None:
    assert shares_of(()).blocked == 0.0
