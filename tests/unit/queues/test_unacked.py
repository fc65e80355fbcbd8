"""Unanswered deliveries by tag. The laws are in property/test_unacked_model."""

from penstock.protocol.content import Message
from penstock.queues.consumers import ConsumerQueue
from penstock.queues.unacked import SPARSE_PLACES, Stamp, UnackedTable

MESSAGE = Message(b"", 0)
QUEUE = ConsumerQueue()


def table_of(count: int) -> UnackedTable:
    table = UnackedTable(Stamp(0))
    for _ in range(count):
        table.add(MESSAGE, QUEUE, None, 0)
    return table


def test_tags_count_from_one_and_are_taken_once() -> None:
    table = table_of(3)
    taken = table.take(2)
    assert taken is not None and taken.tag == 2
    assert table.take(2) is None and table.take(0) is None and table.take(4) is None
    assert table.take(-1) is None
    assert [one.tag for one in table.take_up_to(0)] == [1, 3]
    assert table.count == 0


def test_deliveries_that_need_no_answer_use_up_tags() -> None:
    table = UnackedTable(Stamp(0))
    assert table.skip() == 1
    assert table.add(MESSAGE, QUEUE, None, 0) == 2
    assert table.skip() == 3
    assert not table.is_known(1) and table.is_known(2) and not table.is_known(3)
    assert [one.tag for one in table.take_up_to(3)] == [2]


def test_an_old_delivery_survives_the_thinning_of_the_list() -> None:
    table = table_of(2)
    for _ in range(3 * SPARSE_PLACES):
        table.skip()
    assert table.is_known(1) and table.is_known(2)
    assert len(table.entries) <= 2 * SPARSE_PLACES
    tag = table.add(MESSAGE, QUEUE, None, 0)
    assert [one.tag for one in table.take_up_to(1)] == [1]
    assert [one.tag for one in table.take_up_to(0)] == [2, tag]
    assert table.count == 0 and table.old == {}
