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
    assert [choice.admits(one, []) for one in (first, second, third)] == [True, False, False]
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


def test_lower_priorities_stand_by_while_a_higher_one_has_room() -> None:
    choice = ConsumerSelection(False)
    low, other, high = consumer("l"), consumer("o"), consumer("h", 5)
    ring: list[Consumer] = []
    for one in (low, other, high):
        if choice.admits(one, ring):
            one.is_ready = True
            ring.append(one)
    assert ring == [high]
    assert not low.is_ready and list(choice.standby) == [low, other]
    assert not choice.admits(low, ring) and list(choice.standby) == [low, other]
    assert choice.next_up() == [low, other] and not choice.standby


def test_the_next_ones_are_those_of_the_highest_priority() -> None:
    choice = ConsumerSelection(False)
    ring = [consumer("9", 9)]
    others = [consumer("1", 1), consumer("5", 5), consumer("-1", -1), consumer("5b", 5)]
    assert not any(choice.admits(one, ring) for one in others)
    assert choice.next_up() == [others[1], others[3]]
    assert choice.left(others[0], []) is None
    assert choice.next_up() == [others[2]]
    assert choice.next_up() == []
