"""A round of many actors ends in short steps: how much each does, what is answered meanwhile."""

from penstock.telemetry.snapshots import ActorSnapshot, Times
from penstock.telemetry.window import STEP_CHANGES, WindowHistory

S = 1_000_000_000
MANY = 5 * STEP_CHANGES


def snapshot(number: int, second: int) -> ActorSnapshot:
    return ActorSnapshot(
        f"conn:{number}", "conn", times=Times(busy_ns=second * S), taken_ns=second * S
    )


def take(history: WindowHistory, second: int, actors: int) -> None:
    """A round up to its end, in which the first so many are there and have worked."""
    history.begin(second * S)
    for number in range(actors):
        history.take(snapshot(number, second))


def sizes(history: WindowHistory) -> tuple[int, int, int]:
    """Actors kept, their changes, and those known to be gone."""
    trails = [trail for _, trail in history.trails()]
    gone = sum(trail.gone_ns is not None for trail in trails)
    return len(trails), sum(len(trail) for trail in trails), gone


def steps(history: WindowHistory, rounds: int) -> int:
    """End the round and count; no step may do more than its share and one actor's history."""
    count = 0
    before = sizes(history)
    ending = history.ending()
    while True:
        is_over = next(ending, "over") == "over"
        now = sizes(history)
        assert before[0] - now[0] <= STEP_CHANGES
        assert before[1] - now[1] <= STEP_CHANGES + rounds
        assert now[2] - before[2] <= STEP_CHANGES
        before = now
        if is_over:
            return count
        count += 1


def test_who_has_gone_is_found_in_steps_and_forgotten_in_steps() -> None:
    history = WindowHistory(4)
    for second in range(1, 4):
        take(history, second, MANY)
        history.end()
    take(history, 4, 1)
    assert steps(history, 4) >= MANY // STEP_CHANGES - 1
    assert sizes(history)[0] == MANY, "a window may still look back at them"
    assert set(history.over(10.0)) == {"conn:0"}
    for second in range(5, 7):
        take(history, second, 1)
        history.end()
    take(history, 7, 1)
    # Three changes of each go at once.
    assert steps(history, 4) >= 3 * MANY // STEP_CHANGES - 4
    assert sizes(history)[0] == 1


def test_a_history_that_is_too_large_shrinks_in_steps() -> None:
    history = WindowHistory(60, changes_max=8 * MANY)
    for second in range(1, 9):
        take(history, second, MANY)
        history.end()
    assert len(history.rounds()) == 8
    take(history, 9, MANY)
    assert steps(history, 9) >= MANY // STEP_CHANGES - 1
    assert len(history.rounds()) == 7
    assert sizes(history)[1] == 7 * MANY


def test_answers_between_two_steps_are_those_of_before_or_after() -> None:
    history = WindowHistory(60, changes_max=4 * MANY)
    for second in range(1, 5):
        take(history, second, MANY)
        history.end()
    take(history, 5, MANY // 2)
    before = history.over(2.0)
    answers = [history.over(2.0) for _ in history.ending()]
    after = history.over(2.0)
    assert len(before) == MANY and len(after) == MANY // 2
    assert before in answers and after in answers
    assert all(answer in (before, after) for answer in answers)


def test_a_copy_taken_while_a_round_ends_knows_nothing_of_that_round() -> None:
    history = WindowHistory(60)
    take(history, 1, MANY)
    history.end()
    take(history, 2, 1)
    ending = history.ending()
    next(ending)
    copy = history.copy()
    assert copy.rounds() == [1 * S]
    assert len(copy.over(10.0)) == MANY
    assert sizes(copy)[2] == 0
