"""Sessions end in time, are bounded, and know their own forms."""

from penstock.base.limits import MANAGEMENT_SESSIONS
from penstock.management.pages.sessions import FLASHES_MAX, IDLE_S, SESSION_S, Sessions


class Clock:
    """Seconds, as the test says."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_a_session_ends_when_it_is_not_used_and_at_last_anyway() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    idle, used = sessions.open("a", "pw"), sessions.open("b", "pw")
    clock.now += IDLE_S - 1
    assert sessions.find(used) is not None
    clock.now += 1
    assert sessions.find(idle) is None
    while clock.now < 1_000.0 + SESSION_S - 1:
        assert sessions.find(used) is not None
        clock.now = min(clock.now + IDLE_S / 2, 1_000.0 + SESSION_S - 1)
    clock.now = 1_000.0 + SESSION_S
    assert sessions.find(used) is None
    assert len(sessions) == 0


def test_at_the_bound_the_one_longest_without_a_request_is_logged_out() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    tokens = []
    for index in range(MANAGEMENT_SESSIONS.default):
        clock.now += 0.001
        tokens.append(sessions.open(f"u{index}", "pw"))
    clock.now += 1
    assert sessions.find(tokens[0]) is not None
    sessions.open("one more", "pw")
    assert len(sessions) == MANAGEMENT_SESSIONS.default
    assert sessions.find(tokens[0]) is not None
    assert sessions.find(tokens[1]) is None


def test_tokens_and_forms_are_of_one_session() -> None:
    sessions = Sessions()
    one, other = sessions.open("a", "pw"), sessions.open("a", "pw")
    assert one != other
    first, second = sessions.find(one), sessions.find(other)
    assert first is not None and second is not None
    assert first.is_own(first.csrf)
    for wrong in (second.csrf, "", first.csrf[:-1], "\udce4"):
        assert not first.is_own(wrong)
    assert sessions.find("\udce4") is None
    sessions.close(one)
    assert sessions.find(one) is None
    assert sessions.find(other) is not None
    assert "pw" not in repr(second) and second.csrf not in repr(second)


def test_what_was_done_is_told_once() -> None:
    sessions = Sessions()
    session = sessions.find(sessions.open("a", "pw"))
    assert session is not None
    for index in range(FLASHES_MAX + 3):
        session.tell(f"done {index}", is_error=index == 5)
    flashes = session.take_flashes()
    assert [one.text for one in flashes] == [f"done {index}" for index in range(3, FLASHES_MAX + 3)]
    assert [one.is_error for one in flashes].count(True) == 1
    assert session.take_flashes() == []
