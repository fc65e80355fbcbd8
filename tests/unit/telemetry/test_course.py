"""When a number was passed, and how fast it grows, by the rounds of a history."""

from penstock.telemetry.course import Course, Reached
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.snapshots import ActorSnapshot
from tests.unit.explain.scene import S


def history(values: dict[int, float], started_s: int = -100) -> FlightHistory:
    """By seconds; the actor is not there in those that are left out."""
    made = FlightHistory(61)
    for second in range(1, max(values) + 1):
        here = {}
        if second in values:
            numbers = {"published": values[second]}
            here = {"q": ActorSnapshot("q", "queue", started_ns=started_s * S, numbers=numbers)}
        made.push(second * S, here)
    return made


def test_a_number_is_passed_evenly_between_two_rounds() -> None:
    course = history({1: 0.0, 2: 0.0, 3: 0.0, 4: 100.0, 5: 100.0}).course("q", "published")
    assert course.passed(50) == Reached(round(3.5 * S), False)
    assert course.passed(0) == Reached(3 * S, False)
    assert course.passed(100) is None, "nobody has seen it"
    assert course.per_second(S) == 25.0
    assert course.per_second(5 * S) == 0.0


def test_what_was_there_before_anything_is_known_is_said_to_be_older() -> None:
    course = history({1: 70.0, 2: 80.0}).course("q", "published")
    assert course.passed(60) == Reached(S, True)
    assert course.passed(-5) == Reached(S, True), "it was there before the broker was"


def test_a_queue_that_began_later_began_empty() -> None:
    made = history({4: 10.0, 5: 10.0}, started_s=3)
    course = made.course("q", "published")
    assert course.passed(0) == Reached(3 * S, False)
    assert course.passed(5) == Reached(round(3.5 * S), False)
    assert made.course("r", "published") == Course([])


def test_an_earlier_life_of_the_name_does_not_count() -> None:
    made = history({1: 1000.0, 2: 1000.0})
    fresh = ActorSnapshot("q", "queue", started_ns=3 * S, numbers={"published": 6.0})
    made.push(4 * S, {"q": fresh})
    assert made.course("q", "published").points == [(3 * S, 0.0), (4 * S, 6.0)]


def test_longer_ago_than_a_minute_every_tenth_second_is_known() -> None:
    course = history({second: second * 10.0 for second in range(1, 301)}).course("q", "published")
    assert course.passed(2955) == Reached(round(295.5 * S), False)
    assert course.passed(1003) == Reached(round(100.3 * S), False)
