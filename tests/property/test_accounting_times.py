"""TimeAccount: at every instant the four states sum to the time that has passed."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.time_account import BLOCKED, BUSY, IDLE, WAITING, TimeAccount

STATES = st.sampled_from([IDLE, BUSY, BLOCKED, WAITING])
STEPS_NS = st.one_of(st.integers(0, 3), st.integers(0, 10**18))
STARTS_NS = st.integers(0, 2**62)


@given(STARTS_NS, st.lists(st.tuples(STATES, STEPS_NS, st.booleans()), max_size=40))
def test_the_states_sum_to_the_time_and_agree_with_a_list_of_intervals(
    start_ns: int, moves: list[tuple[int, int, bool]]
) -> None:
    account = TimeAccount(start_ns)
    expected = [0, 0, 0, 0]
    now_ns, state = start_ns, IDLE
    for next_state, step_ns, is_read in moves:
        now_ns += step_ns
        expected[state] += step_ns
        if is_read:
            # Reading the books in between must not change what they will say later.
            assert account.totals(now_ns) == tuple(expected)
        if next_state == BUSY and not is_read:
            # A turn, noted when it is over.
            account.worked(now_ns - step_ns, now_ns, WAITING)
            expected[state] -= step_ns
            expected[BUSY] += step_ns
            state = WAITING
            continue
        account.enter(next_state, now_ns)
        state = next_state
        assert account.state == state
    totals = account.totals(now_ns + 7)
    expected[state] += 7
    assert totals == tuple(expected)
    assert account.start_ns == start_ns
    assert sum(totals) == now_ns + 7 - start_ns
