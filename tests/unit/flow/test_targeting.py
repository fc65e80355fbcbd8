"""Whom a memory alarm stops, when it stops everybody, and who is let on first."""

from penstock.flow.targeting import (
    ALL,
    EXPANSION,
    FALL,
    NOBODY,
    SHARE_BYTES,
    SOME,
    STEPS,
    Holder,
    MemoryShares,
    above_level,
    fair_level,
)

LIMIT, CLEAR = 1000, 900
REST = 100
"""What the broker uses beside what connections hold."""


def holders(**held: int) -> list[Holder]:
    return [Holder(name, "user", bytes_) for name, bytes_ in held.items()]


def shares(used: int, **held: int) -> MemoryShares:
    """After a look at `used` bytes."""
    one = MemoryShares()
    one.rest(REST, 0)
    one.look(holders(**held), {}, used, LIMIT, CLEAR)
    return one


def test_what_the_small_ones_leave_is_shared_by_the_large_ones() -> None:
    assert fair_level([10, 20, 900], 100) == 70
    assert fair_level([50, 50, 50], 90) == 30
    assert fair_level([10, 20], 100) == 20, "all of it has room"
    assert fair_level([10, 20], 0) == fair_level([10, 20], -5) == 0
    assert fair_level([], 100) == 0


def test_those_above_the_level_are_stopped_until_they_are_clearly_below_it() -> None:
    weights = {"a": 95, "b": 101, "c": 100, "d": 90}
    assert above_level(weights, 100, frozenset()) == {"b"}
    assert above_level(weights, 100, frozenset(weights)) == {"a", "b", "c"}


def test_the_big_one_is_stopped_and_the_small_ones_are_not() -> None:
    one = shares(1001, a=860, b=20, c=21, d=0)
    assert one.above(frozenset()) == {"a"}
    assert one.level() == one.room_bytes - 41 == 900 - 100 - FALL - 41


def test_of_equals_all_are_stopped() -> None:
    assert shares(1003, a=301, b=301, c=301).above(frozenset()) == {"a", "b", "c"}


def test_idle_connections_do_not_lower_the_level() -> None:
    crowd = {f"idle{number}": 0 for number in range(1000)}
    one = shares(1001, a=601, b=300, **crowd)
    assert one.above(frozenset()) == {"a"} and one.level() > 390


def test_the_level_falls_faster_than_use_rises_above_the_mark() -> None:
    levels = [shares(1000 + over, a=900 + over).level() for over in (0, 50, 100, 199, 200)]
    assert levels == [800, 600, 400, 4, 0]


def test_small_messages_count_with_what_they_cost() -> None:
    """90 bytes held, and ten times as much used beside the rest."""
    one = shares(1000, a=80, b=10)
    assert one.weights == {"a": 800, "b": 100}
    assert one.room_bytes == CLEAR - REST and one.above(frozenset()) == {"a"}
    assert one.stage(True, 1000, LIMIT, NOBODY) == SOME


def test_use_that_messages_cannot_explain_stops_all() -> None:
    """At most EXPANSION bytes of memory are put down to a byte of a message."""
    one = shares(1001, a=1)
    assert one.weights == {"a": EXPANSION} and one.room_bytes < 0
    assert one.stage(True, 1001, LIMIT, NOBODY) == ALL
    assert one.stage(True, 950, LIMIT, ALL) == ALL, "a choice would not help"
    assert one.stage(True, 950, LIMIT, SOME) == SOME, "nor is there a new one"


def test_all_are_stopped_only_where_there_is_no_room_and_until_there_is_some() -> None:
    assert shares(1199, a=1099).stage(True, 1199, LIMIT, SOME) == SOME
    assert shares(1200, a=1100).stage(True, 1200, LIMIT, SOME) == ALL
    assert shares(1190, a=1090).stage(True, 1190, LIMIT, ALL) == ALL
    assert shares(1170, a=1070).stage(True, 1170, LIMIT, ALL) == SOME
    assert shares(1001, a=901).stage(False, 1001, LIMIT, SOME) == ALL, "the mode says so"
    assert shares(1, a=1).stage(True, 1, 0, SOME) == ALL, "a mark of 0"


def test_what_ended_connections_left_counts_for_the_open_ones_of_the_user() -> None:
    """Publishing by short connections, as PHP does, is no way around the alarm."""
    one = MemoryShares()
    at = [Holder("short1", "php", 1), Holder("short2", "php", 1), Holder("b", "app", 100)]
    one.look(at, {}, 1010, LIMIT, CLEAR)
    one.look(at, {"php": 700}, 1010, LIMIT, CLEAR)
    assert one.weights["short1"] == one.weights["short2"] > one.weights["b"]
    assert one.above(frozenset()) == {"short1", "short2"}


def test_the_ramp_lets_on_as_many_as_there_is_room_for_the_smallest_first() -> None:
    one = shares(880, a=300, b=100, c=200, d=180)
    waiting = frozenset("abcd")
    assert one.next_on(waiting, 0, 4) == {"b"}
    assert one.next_on(waiting, 3 * SHARE_BYTES, 4) == {"b", "c", "d"}
    assert len(one.next_on(waiting, 0, 4 * STEPS)) == 4, "it has an end, however many wait"


def test_the_ramp_keeps_nobody_below_one_that_goes_on() -> None:
    one = shares(880, a=300, b=100, c=280)
    assert one.not_below(frozenset("ab")) == {"a"}
    assert one.not_below(frozenset("abc")) == {"a", "b", "c"}, "none of those goes on"
