"""connection.blocked and unblocked alternate, whoever asks and however often (property 8)."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.flow.channel_flow import ALARM, HOLD, BlockedNotice

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
