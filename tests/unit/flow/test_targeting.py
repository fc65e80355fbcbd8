"""Whom a memory alarm stops, and when it stops everybody."""

from penstock.flow.targeting import (
    ALL,
    NOBODY,
    SOME,
    STALLED_NS,
    Escalation,
    Holder,
    above_fair_share,
    can_explain,
    fair_share_bytes,
)


def holders(**held: int) -> list[Holder]:
    return [Holder(name, "user", bytes_) for name, bytes_ in held.items()]


def test_the_big_one_is_stopped_and_the_small_ones_are_not() -> None:
    chosen = above_fair_share(holders(a=900, b=10, c=20, d=0), {}, frozenset())
    assert chosen == {"a"}
    assert fair_share_bytes(holders(a=900, b=10, c=20, d=0), {}) == 310


def test_equals_are_all_stopped_and_a_lonely_one_too() -> None:
    assert above_fair_share(holders(a=5, b=5, c=5), {}, frozenset()) == {"a", "b", "c"}
    assert above_fair_share(holders(a=5, b=0), {}, frozenset()) == {"a"}


def test_whoever_holds_nothing_is_never_stopped_and_lowers_nobodys_share() -> None:
    assert above_fair_share(holders(a=0, b=0), {}, frozenset()) == frozenset()
    crowd = {f"idle{number}": 0 for number in range(1000)}
    assert above_fair_share(holders(a=100, b=99, **crowd), {}, frozenset()) == {"a"}


def test_whoever_is_stopped_stays_so_down_to_nine_tenths_of_the_share() -> None:
    at = holders(a=90, b=110)
    assert above_fair_share(at, {}, frozenset()) == {"b"}
    assert above_fair_share(at, {}, frozenset({"a"})) == {"a", "b"}
    assert above_fair_share(holders(a=89, b=111), {}, frozenset({"a"})) == {"b"}


def test_what_ended_connections_left_counts_for_those_the_user_has_open() -> None:
    """Publishing by short connections is no way around the alarm."""
    at = [Holder("short1", "php", 1), Holder("short2", "php", 1), Holder("b", "web", 200)]
    assert above_fair_share(at, {}, frozenset()) == {"b"}
    assert above_fair_share(at, {"php": 1000}, frozenset()) == {"short1", "short2"}


def test_they_explain_what_has_to_go_or_they_do_not() -> None:
    assert can_explain(holders(a=60, b=40), {}, 100)
    assert not can_explain(holders(a=60, b=40), {}, 101)
    assert not can_explain(holders(a=0), {}, -5)


def look(one: Escalation, used: int, now_ns: int = 0, explained: bool = True) -> str:
    return one.look(True, True, explained, used, 1000, now_ns)


def test_some_first_then_all_at_the_second_mark_and_back_at_the_first() -> None:
    one = Escalation()
    assert look(one, 1001) == SOME
    assert look(one, 1050) == SOME
    assert look(one, 1051) == ALL
    assert look(one, 1049) == ALL
    assert look(one, 1001) == ALL
    assert look(one, 1000) == SOME
    assert one.look(False, True, True, 899, 1000, 0) == NOBODY


def test_all_are_stopped_when_it_does_not_fall() -> None:
    one = Escalation()
    assert look(one, 1020, 0) == SOME
    assert look(one, 1015, STALLED_NS - 1) == SOME
    assert look(one, 1015, STALLED_NS) == ALL


def test_a_new_low_buys_time() -> None:
    one = Escalation()
    look(one, 1040, 0)
    assert look(one, 1020, STALLED_NS - 1) == SOME
    assert look(one, 1020, 2 * STALLED_NS - 2) == SOME
    assert look(one, 1020, 2 * STALLED_NS - 1) == ALL


def test_time_below_the_first_mark_does_not_count() -> None:
    one = Escalation()
    look(one, 1001, 0)
    assert look(one, 950, 100 * STALLED_NS) == SOME
    assert look(one, 1001, 101 * STALLED_NS - 1) == SOME


def test_nobody_is_chosen_where_a_choice_would_not_help() -> None:
    one = Escalation()
    assert look(one, 1001, explained=False) == ALL
    assert look(one, 950, explained=False) == ALL
    assert look(one, 950, explained=True) == SOME
    assert look(one, 950, explained=False) == SOME


def test_all_at_once_without_targets_and_at_a_mark_of_zero() -> None:
    one = Escalation()
    assert one.look(True, False, True, 1001, 1000, 0) == ALL
    assert Escalation().look(True, True, True, 0, 0, 0) == ALL
