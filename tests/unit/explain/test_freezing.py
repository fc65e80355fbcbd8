"""When a copy is kept without being asked for."""

from collections.abc import Iterable

from penstock.explain.freezing import Freezer
from penstock.telemetry.snapshots import ActorSnapshot, BlockedTotals
from tests.unit.explain.scene import S


def play(
    freezer: Freezer, seconds: Iterable[int], held: int, publishers: int, alarm: str = ""
) -> dict[int, str]:
    """A round a second, in which `held` of `publishers` are held all the time; the answers."""
    answers = {}
    for second in seconds:
        for number in range(publishers):
            blocked_ns = second * S if number < held else 0
            freezer.take(
                ActorSnapshot(
                    f"conn:{number}",
                    "conn",
                    taken_ns=second * S,
                    blocked=BlockedTotals(blocked_ns),
                    numbers={"published": float(second)},
                )
            )
        if alarm:
            freezer.take(ActorSnapshot(alarm, "alarm"))
        why = freezer.end(second * S)
        if why:
            answers[second] = why
    return answers


def test_an_alarm_is_copied_when_it_rings() -> None:
    freezer = Freezer()
    assert play(freezer, range(1, 5), 0, 2) == {}
    assert play(freezer, range(5, 90), 0, 2, "alarm:memory") == {5: "memory alarm"}
    assert play(freezer, range(90, 95), 0, 2) == {}
    assert play(freezer, range(95, 99), 0, 2, "alarm:disk") == {95: "disk alarm"}


def test_many_throttled_for_ten_seconds_are_copied_once() -> None:
    freezer = Freezer()
    answers = play(freezer, range(1, 100), 4, 10)
    assert answers == {12: "4 of 10 publishers throttled for 10 s"}
    assert play(freezer, range(100, 105), 0, 10) == {}
    assert list(play(freezer, range(105, 130), 4, 10)) == [115]


def test_three_of_ten_are_not_many() -> None:
    assert play(Freezer(), range(1, 40), 3, 10) == {}


def test_it_must_last() -> None:
    freezer = Freezer()
    for begin in range(1, 100, 10):
        assert play(freezer, range(begin, begin + 9), 9, 10) == {}
        assert play(freezer, range(begin + 9, begin + 10), 0, 10) == {}


def test_two_copies_are_a_minute_apart() -> None:
    freezer = Freezer()
    assert play(freezer, range(1, 3), 0, 1, "alarm:memory") == {1: "memory alarm"}
    assert play(freezer, range(3, 10), 0, 1) == {}
    assert play(freezer, range(10, 60), 0, 1, "alarm:memory") == {}


def test_idle_connections_are_no_publishers() -> None:
    freezer = Freezer()
    for second in range(1, 30):
        for number in range(10):
            freezer.take(ActorSnapshot(f"conn:{number}", "conn", taken_ns=second * S))
        assert freezer.end(second * S) == ""
