"""Which consumers of a queue are served."""

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
