"""Laws of rate limits, whatever is published when."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.flow.rate import Bucket

S = 1_000_000_000

rates = st.integers(1, 10**12)
bursts = st.integers(1, 10**9)
pauses = st.lists(st.integers(0, 3 * S), min_size=1, max_size=60)


@given(rates, bursts, pauses, st.integers(0, 10**15))
def test_messages_in_any_interval_are_at_most_the_burst_and_the_rate_times_its_length(
    rate: int, burst: int, waits_ns: list[int], start_ns: int
) -> None:
    """A sender that takes whatever it may, as soon as it may or later."""
    bucket = Bucket(rate, burst, start_ns)
    now_ns = start_ns
    passed_ns: list[int] = []
    for wait_ns in waits_ns:
        now_ns = max(now_ns + wait_ns, bucket.due_ns(1, now_ns))
        assert bucket.has_token(now_ns)
        bucket.take(1, now_ns)
        passed_ns.append(now_ns)
    for first in range(len(passed_ns)):
        for last in range(first, len(passed_ns)):
            count = last - first + 1
            length_ns = passed_ns[last] - passed_ns[first]
            assert (count - burst) * S <= rate * length_ns


@given(rates, bursts, st.lists(st.tuples(st.integers(0, S), st.integers(0, 10**9)), min_size=1))
def test_bytes_in_any_interval_are_at_most_that_and_the_last_message(
    rate: int, burst: int, steps: list[tuple[int, int]]
) -> None:
    bucket = Bucket(rate, burst, 0)
    now_ns = 0
    passed: list[tuple[int, int]] = []
    for wait_ns, size in steps:
        now_ns = max(now_ns + wait_ns, bucket.due_ns(1, now_ns))
        bucket.take(size, now_ns)
        passed.append((now_ns, size))
    for first in range(len(passed)):
        for last in range(first, len(passed)):
            size = sum(size for _, size in passed[first:last])
            length_ns = passed[last][0] - passed[first][0]
            assert (size - burst) * S <= rate * length_ns


@given(rates, bursts, st.integers(0, 10**12), st.integers(0, S))
def test_the_token_is_there_when_it_is_said_to_be_and_not_a_nanosecond_before(
    rate: int, burst: int, debt: int, now_ns: int
) -> None:
    bucket = Bucket(rate, burst, 0)
    bucket.take(debt, now_ns)
    due_ns = bucket.due_ns(1, now_ns)
    if due_ns > now_ns:
        early = Bucket(rate, burst, 0)
        early.take(debt, now_ns)
        assert not early.has_token(due_ns - 1)
    assert bucket.has_token(due_ns)
