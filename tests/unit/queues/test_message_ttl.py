"""Marks of when paged messages came."""

from penstock.queues.message_ttl import MARKS_MAX, Arrivals
from penstock.queues.rules import NEVER

TTL_NS = 1_000_000


def noted(*came: int) -> Arrivals:
    found = Arrivals(MARKS_MAX)
    for position, came_ns in enumerate(came):
        found.note(position, came_ns, TTL_NS)
    return found


def test_what_comes_in_one_turn_has_one_mark() -> None:
    found = noted(5, 5, 5, 8, 8)
    assert len(found.marks) == 2
    assert [int(found.at(position).came_ns) for position in range(5)] == [5, 5, 5, 8, 8]
    assert len(found.marks) == 1, "what is taken is forgotten"


def test_what_leaves_memory_again_stands_before_the_others() -> None:
    found = noted(5, 8)
    found.at(1)
    found.note_first(0, 5, TTL_NS)
    found.note_first(-1, 5, TTL_NS)
    assert len(found.marks) == 2
    assert [int(found.at(position).came_ns) for position in (-1, 0, 1)] == [5, 5, 8]


def test_at_the_bound_a_message_dies_late_and_never_early() -> None:
    count = 3 * MARKS_MAX
    found = noted(*range(0, 10 * count, 10))
    assert len(found.marks) <= MARKS_MAX
    # Twice the time of all, shared by the marks.
    most = 2 * 10 * count // MARKS_MAX + 1
    for position in range(count):
        mark = found.at(position)
        assert 0 <= mark.came_ns - 10 * position <= most
        assert mark.ttl_ns == TTL_NS


def test_a_first_lifetime_is_for_those_without_one() -> None:
    found = Arrivals(MARKS_MAX)
    found.note(0, 5, NEVER)
    found.note(1, 6, TTL_NS)
    found.give(2 * TTL_NS, 7)
    found.note(2, 7, 2 * TTL_NS)
    marks = [found.at(position) for position in range(3)]
    assert [int(mark.ttl_ns) for mark in marks] == [2 * TTL_NS, TTL_NS, 2 * TTL_NS]
    assert [int(mark.since_ns) for mark in marks] == [7, 6, 7]
    assert [mark.is_given_later for mark in marks] == [True, False, False]


def test_nothing_is_made_up_for_what_only_the_disk_knows() -> None:
    found = Arrivals(MARKS_MAX)
    found.note_unknown(0, NEVER, -5)
    for position in range(1, 3 * MARKS_MAX):
        found.note(position, position, TTL_NS + position % 2)
    assert len(found.marks) <= MARKS_MAX + 1
    assert not found.at(0).is_known and found.at(0).ttl_ns == NEVER
    assert found.at(3 * MARKS_MAX - 1).is_known
