"""Which consumers of a queue are served."""

import random
from collections.abc import Iterator

from penstock.queues.consumer_selection import ConsumerSelection
from penstock.queues.consumers import Consumer, ConsumerQueue, DeliverySink, Unsent


def consumer(tag: str, priority: int = 0) -> Consumer:
    made = Consumer(tag, ConsumerQueue(), DeliverySink(), Unsent(10), False, False, 0, {})
    made.priority = priority
    return made


def test_the_single_active_consumer_is_the_first_and_then_the_next() -> None:
    choice = ConsumerSelection(True)
    first, second, third = consumer("1"), consumer("2"), consumer("3", 5)
    for one in (first, second, third):
        choice.joined(one)
    assert [choice.admits(one) for one in (first, second, third)] == [True, False, False]
    assert choice.left(second, [first, third]) is None
    assert choice.left(first, [third]) is third
    assert choice.left(third, []) is None
    assert choice.active is None


def test_a_higher_priority_takes_over_as_the_single_active_consumer() -> None:
    choice = ConsumerSelection(True)
    one, low, high = consumer("1"), consumer("2"), consumer("3", 5)
    for each in (one, low, high):
        choice.joined(each)
    assert choice.left(one, [low, high]) is high


class Looked(dict[Consumer, None]):
    """Counts how many are looked at one by one."""

    looks = 0

    def __iter__(self) -> Iterator[Consumer]:
        for one in super().__iter__():
            self.looks += 1
            yield one


def test_very_many_single_active_consumers_that_end_are_looked_at_once() -> None:
    choice, others = ConsumerSelection(True), Looked()
    for number in range(1000):
        one = consumer(str(number), number % 3)
        others[one] = None
        choice.joined(one)
    while choice.active is not None:
        one = choice.active
        del others[one]
        assert (choice.left(one, others) is None) == (not others)
    assert others.looks <= 2000


def test_the_next_active_one_is_the_first_of_the_highest_priority_whoever_came_and_went() -> None:
    chance = random.Random(5)
    choice = ConsumerSelection(True)
    there: dict[Consumer, None] = {}
    for number in range(2000):
        if there and chance.random() < 0.55:
            gone = choice.active if chance.random() < 0.5 else chance.choice(list(there))
            assert gone is not None
            was_active = choice.active is gone
            del there[gone]
            # The first of equal ones, because max keeps it.
            heir = max(there, key=lambda one: int(one.priority), default=None)
            assert choice.left(gone, there) is (heir if was_active else None)
            assert len(choice.heirs or []) <= 2 * len(there)
        else:
            one = consumer(str(number), chance.randrange(3))
            there[one] = None
            choice.joined(one)


def ready(tag: str, priority: int = 0) -> Consumer:
    """One with room."""
    made = consumer(tag, priority)
    made.is_ready = True
    return made


def test_who_stands_by_comes_back_as_a_whole_and_in_its_turn() -> None:
    choice = ConsumerSelection(False)
    ring = [ready("a"), ready("b"), ready("c")]
    choice.step_back(ring, 1)
    late = ready("late")
    choice.stand_by(late)
    assert all(choice.stands_by(one) for one in ring) and late in ring
    back = choice.next_up()
    assert back is not None
    assert back.consumers is ring and [one.tag for one in ring] == ["a", "b", "c", "late"]
    assert back.cursor == 1 and choice.next_up() is None and not choice.stands_by(late)


def test_the_next_ones_are_those_of_the_highest_priority() -> None:
    choice = ConsumerSelection(False)
    others = [ready("1", 1), ready("5", 5), ready("-1", -1), ready("5b", 5)]
    for one in others:
        choice.stand_by(one)
    assert choice.priorities == [-1, 1, 5]
    first = choice.next_up()
    assert first is not None and first.consumers == [others[1], others[3]]
    others[0].is_ready = False
    choice.forget(others[0])
    last = choice.next_up()
    assert last is not None and last.consumers == [others[2]]
    assert choice.next_up() is None and not choice.standing


def test_those_that_end_while_they_stand_by_are_forgotten_and_the_turn_is_kept() -> None:
    chance = random.Random(7)
    for _ in range(200):
        choice = ConsumerSelection(False)
        ring = [ready(str(number), 3) for number in range(chance.randrange(1, 12))]
        cursor = chance.randrange(len(ring))
        left = list(ring)
        choice.step_back(list(ring), cursor)
        for gone in chance.sample(ring, chance.randrange(len(ring) + 1)):
            gone.is_ready = False
            choice.forget(gone)
            left.remove(gone)
            kept = sum(len(one.consumers) for one in choice.standing.values())
            assert kept <= 2 * len(left)
        back = choice.next_up()
        assert (back is None) == (not left) and not choice.priorities and not choice.standing
        if back is not None:
            assert back.consumers == left
            assert int(back.cursor) == sum(one.is_ready for one in ring[:cursor])
