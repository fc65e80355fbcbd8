"""Counting confirms. The laws are in property/test_confirms_model."""

from penstock.broker.actors.confirms import SEQUENCE_MASK, Confirms


def begun(*queues: int) -> Confirms:
    confirms = Confirms()
    for count in queues:
        confirms.expect(confirms.begin(), count)
    return confirms


def test_what_is_done_in_order_goes_out_as_one() -> None:
    confirms = begun(1, 2, 0, 1)
    for sequence in (1, 2, 2):
        confirms.accept(sequence)
    assert confirms.is_dirty
    assert confirms.collect_multiple() == 3 and confirms.collect_singles() == []
    assert confirms.collect_multiple() == 0
    assert confirms.span() == 1


def test_numbers_of_which_a_message_keeps_the_lower_bits_go_on() -> None:
    confirms = Confirms()
    confirms.base = confirms.next_sequence = SEQUENCE_MASK - 1
    tickets = [int(confirms.begin()) for _ in range(4)]
    assert tickets == [SEQUENCE_MASK - 1, SEQUENCE_MASK, 0, 1]
    for ticket in tickets[:3]:
        confirms.accept(ticket)
    assert confirms.collect_multiple() == SEQUENCE_MASK + 1
    confirms.refuse(tickets[3])
    assert confirms.collect_nacks() == [SEQUENCE_MASK + 2]
    # What was answered already is not meant again.
    confirms.accept(tickets[0])
    assert confirms.span() == 1


def test_what_is_done_out_of_order_goes_out_alone() -> None:
    confirms = begun(1, 1, 1)
    confirms.accept(3)
    assert confirms.collect_multiple() == 0 and confirms.collect_singles() == [3]
    confirms.accept(1)
    assert confirms.collect_multiple() == 1
    confirms.accept(2)
    assert confirms.collect_multiple() == 2 and confirms.collect_singles() == []


def test_one_refusal_is_a_nack_whatever_other_queues_say() -> None:
    confirms = begun(2, 1)
    confirms.refuse(1)
    confirms.refuse(1)
    assert confirms.collect_nacks() == [1] and confirms.collect_nacks() == []
    confirms.accept(2)
    assert confirms.collect_multiple() == 2
    confirms.accept(1)
    confirms.refuse(1)
    assert confirms.collect_nacks() == [] and confirms.collect_singles() == []


def test_an_answer_to_one_publish_is_not_multiple() -> None:
    """Clients that count confirms count one for it."""
    confirms = begun(1, 1, 1, 1, 1)
    confirms.accept(1)
    assert confirms.collect_multiple() == 1 and not confirms.is_multiple
    confirms.accept(3)
    assert confirms.collect_multiple() == 0 and confirms.collect_singles() == [3]
    # The third is answered already, so this is the second's alone.
    confirms.accept(2)
    assert confirms.collect_multiple() == 2 and not confirms.is_multiple
    confirms.refuse(4)
    confirms.accept(5)
    assert confirms.collect_nacks() == [4]
    assert confirms.collect_multiple() == 5 and not confirms.is_multiple
    assert confirms.collect_singles() == []


def test_an_answer_to_several_publishes_is_multiple() -> None:
    confirms = begun(1, 1, 1)
    confirms.accept(2)
    confirms.accept(1)
    assert confirms.collect_multiple() == 2 and confirms.is_multiple
