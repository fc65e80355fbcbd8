"""The table of channel.flow: every pair of state and input, and what must hold for all of them."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.flow.channel_flow import (
    ALARM,
    HOLD,
    NOTES_SILENCE,
    OUTSTANDING,
    SENDS_GO,
    SENDS_STOP,
    TRANSITIONS,
    BlockedNotice,
    ClientFlow,
    FlowAction,
    FlowInput,
    Told,
)

PAIRS = list(itertools.product(Told, FlowInput))


@pytest.mark.parametrize(("state", "given"), PAIRS, ids=str)
def test_every_pair_is_in_the_table_or_impossible(state: Told, given: FlowInput) -> None:
    """Only silence without a question cannot happen."""
    flow = ClientFlow()
    flow.told = state
    if given is FlowInput.OVERDUE and state not in OUTSTANDING:
        with pytest.raises(AssertionError, match="nothing was outstanding"):
            flow.take(given, 0)
        assert flow.told is state
        return
    action = flow.take(given, 7)
    assert (flow.told, action) == TRANSITIONS[(state, given)]


@pytest.mark.parametrize(("state", "given"), TRANSITIONS, ids=str)
def test_at_most_one_frame_is_outstanding(state: Told, given: FlowInput) -> None:
    """A frame is sent only where none waits for its reply any more (scenario 53)."""
    after, action = TRANSITIONS[(state, given)]
    sends = action in SENDS_STOP or action in SENDS_GO
    is_answered = given in (FlowInput.REPLY, FlowInput.OVERDUE)
    assert not sends or is_answered or state not in OUTSTANDING
    assert not sends or after in OUTSTANDING
    if sends:
        assert OUTSTANDING[after] is (action in SENDS_GO)
    assert (given is FlowInput.OVERDUE) == (action in NOTES_SILENCE)


@pytest.mark.parametrize("state", Told, ids=str)
@pytest.mark.parametrize("wish", [FlowInput.STOP, FlowInput.SEND], ids=str)
def test_a_client_that_answers_ends_where_it_is_wished(state: Told, wish: FlowInput) -> None:
    flow = ClientFlow()
    flow.told = state
    flow.take(wish, 0)
    for _ in range(3):
        if flow.is_outstanding():
            flow.take(FlowInput.REPLY, 0)
    ends = (Told.STOPPED, Told.IGNORED) if wish is FlowInput.STOP else (Told.FREE,)
    assert flow.told in ends


@pytest.mark.parametrize("state", Told, ids=str)
@pytest.mark.parametrize("wish", [FlowInput.STOP, FlowInput.SEND], ids=str)
def test_a_wish_twice_is_a_wish_once(state: Told, wish: FlowInput) -> None:
    flow = ClientFlow()
    flow.told = state
    flow.take(wish, 0)
    after = flow.told
    assert flow.take(wish, 0) is FlowAction.NOTHING
    assert flow.told is after


def test_only_a_client_that_has_answered_can_break_its_word() -> None:
    broken = [
        state
        for state in Told
        if TRANSITIONS[(state, FlowInput.PUBLISH)][1] is not FlowAction.NOTHING
    ]
    assert broken == [Told.STOPPED]


def test_a_reply_is_known_by_its_polarity() -> None:
    flow = ClientFlow()
    assert not flow.is_reply(False)
    assert not flow.is_reply(True)
    assert flow.take(FlowInput.STOP, 5) is FlowAction.SEND_STOP
    assert flow.since_ns == 5
    assert flow.is_reply(False)
    assert not flow.is_reply(True)
    flow.take(FlowInput.REPLY, 6)
    assert flow.take(FlowInput.SEND, 7) is FlowAction.SEND_GO
    assert flow.is_reply(True)
    assert not flow.is_reply(False)


DEEDS = st.lists(st.tuples(st.booleans(), st.sampled_from((ALARM, HOLD))), max_size=60)


@given(DEEDS)
def test_what_is_sent_alternates_and_says_whether_there_is_a_cause(
    deeds: list[tuple[bool, str]],
) -> None:
    notice = BlockedNotice()
    causes: set[str] = set()
    is_told = False
    for is_added, cause in deeds:
        if is_added:
            causes.add(cause)
            sends = notice.add(cause)
        else:
            causes.discard(cause)
            sends = notice.remove(cause)
        assert sends == (is_told != bool(causes))
        is_told = bool(causes)
    assert set(notice.causes) == causes
