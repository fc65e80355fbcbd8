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
    one.rest(REST)
    one.start_bytes = LIMIT
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


def test_what_was_passed_before_it_was_seen_is_not_put_down_to_those_who_go_on() -> None:
    one = MemoryShares()
    one.rest(REST)
    one.look(holders(a=1000, b=50), {}, 1150, LIMIT, CLEAR)
    assert one.level() == 750 and one.above(frozenset()) == {"a"}
    one.look(holders(a=900, b=50), {}, 1050, LIMIT, CLEAR)
    one.look(holders(a=900, b=100), {}, 1100, LIMIT, CLEAR)
    assert one.level() == 500, "it falls for what comes on top of the lowest since"
    late = MemoryShares()
    late.rest(REST)
    late.look(holders(a=1500, b=50), {}, 1650, LIMIT, CLEAR)
    assert late.stage(True, LIMIT, NOBODY) == ALL, "so much is too late for a choice"


def test_small_messages_count_with_what_they_cost() -> None:
    """90 bytes held, and ten times as much used beside the rest."""
    one = shares(1000, a=80, b=10)
    assert one.weights == {"a": 800, "b": 100}
    assert one.room_bytes == CLEAR - REST and one.above(frozenset()) == {"a"}
    assert one.stage(True, LIMIT, NOBODY) == SOME


def test_use_that_messages_cannot_explain_stops_all() -> None:
    """At most EXPANSION bytes of memory are put down to a byte of a message."""
    one = shares(1001, a=1)
    assert one.weights == {"a": EXPANSION} and one.room_bytes < 0
    assert one.stage(True, LIMIT, NOBODY) == ALL
    one = shares(950, a=1)
    assert one.room_bytes < 0
    assert one.stage(True, LIMIT, ALL) == ALL, "a choice would not help"
    assert one.stage(True, LIMIT, SOME) == SOME, "nor is there a new one"


def test_all_are_stopped_only_where_there_is_no_room_and_until_there_is_some() -> None:
    assert shares(1199, a=1099).stage(True, LIMIT, SOME) == SOME
    assert shares(1200, a=1100).stage(True, LIMIT, SOME) == ALL
    assert shares(1190, a=1090).stage(True, LIMIT, ALL) == ALL
    assert shares(1170, a=1070).stage(True, LIMIT, ALL) == SOME
    assert shares(1001, a=901).stage(False, LIMIT, SOME) == ALL, "the mode says so"
    assert shares(1, a=1).stage(True, 0, SOME) == ALL, "a mark of 0"


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


def test_memory_that_messages_have_left_is_used_again_first() -> None:
    """A backlog of 900 is drained to 10, and the system has got 40 back: nothing is to be feared of
    what is free; what use rises above that is counted in full."""
    one = shares(1040, a=900, b=10)
    assert one.above(frozenset()) == {"a"}
    one.look(holders(a=10, b=0), {}, 1000, LIMIT, CLEAR)
    assert one.used_bytes < 200 and one.stage(True, LIMIT, SOME) == SOME
    one.look(holders(a=0, b=0), {}, 1040, LIMIT, CLEAR)
    assert one.stage(True, LIMIT, SOME) == SOME and one.above(frozenset("a")) == frozenset()
    one.look(holders(a=0, b=0), {}, 2100, LIMIT, CLEAR)
    assert one.stage(True, LIMIT, SOME) == ALL
    one.rest(1000)
    one.look(holders(a=1, b=0), {}, 1001, LIMIT, CLEAR)
    assert one.stage(True, LIMIT, NOBODY) == ALL, "of another alarm nothing is known"


def test_what_another_process_uses_is_one_vessel_beside_the_connections_here() -> None:
    one = MemoryShares()
    one.rest(REST)
    one.look(holders(a=30, b=20), {}, 1001, LIMIT, CLEAR, [851])
    assert one.stage(True, LIMIT, NOBODY) == SOME and one.above(frozenset()) == frozenset()
    one.look(holders(a=500, b=20), {}, 1001, LIMIT, CLEAR, [381])
    assert one.above(frozenset()) == {"a"}, "it holds most of all"
