"""A queue of which part is on the disk. The laws are in property/test_paging, RabbitMQ's
numbers in spec/test_paging_scenarios."""

import pytest

from penstock.flow.account import Account
from penstock.queues.delta import PAYERS_MAX, PIECE_BYTES, Delta
from penstock.queues.line import MessageLine
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, FoundRange
from penstock.storage.layout.index import QueueIndex
from tests.property.paging_rig import PagedRig

ALL = 1 << 40
SIZE = 8 + 14 + 8 + 26 + MESSAGE_OVERHEAD_BYTES
"""In memory, of a message as the rig makes it."""


def filled(count: int, *, is_durable: bool = True, is_persistent: bool = True) -> PagedRig:
    rig = PagedRig(is_durable)
    for _ in range(count):
        rig.publish(20, is_persistent)
    return rig


def on_disk(count: int) -> PagedRig:
    """All but the first of so many messages are in delta."""
    rig = filled(count)
    rig.append()
    rig.flush()
    rig.paged.page_bytes(SIZE, 0, ALL)
    rig.paged.page_bytes(SIZE + PIECE_BYTES, 0, ALL)
    return rig


def test_what_has_its_place_in_the_log_costs_nothing() -> None:
    rig = filled(10)
    rig.append()
    assert rig.paged.page_bytes(4 * SIZE, 0, ALL) == []
    assert (rig.paged.at_hand(), rig.paged.behind.delta.count) == (2, 8)
    assert [int(piece.count) for piece in rig.paged.behind.delta.pieces] == [8]
    assert rig.paged.bytes_ready == 2 * SIZE + PIECE_BYTES
    assert (rig.paged.paged_count(), rig.paged.ready_count()) == (8, 10)
    assert rig.paged.paged_bytes() == 8 * (14 + 26)


def test_what_is_on_its_way_there_is_a_stub_until_it_has_it() -> None:
    rig = filled(10)
    rig.paged.page_bytes(4 * SIZE, 0, ALL)
    behind = rig.paged.behind
    assert (rig.paged.at_hand(), behind.stub_count, behind.delta.count) == (
        4,
        6,
        0,
    )
    assert rig.paged.bytes_ready == 4 * SIZE + 6 * MESSAGE_OVERHEAD_BYTES
    rig.append()
    rig.paged.page_bytes(4 * SIZE + PIECE_BYTES, 0, ALL)
    behind = rig.paged.behind
    assert (rig.paged.at_hand(), behind.stub_count, behind.delta.count) == (
        4,
        0,
        6,
    )


def test_what_nobody_keeps_is_saved_in_the_order_of_delivery() -> None:
    rig = filled(10, is_durable=False)
    saves = rig.paged.page_bytes(5 * SIZE, ALL, ALL)
    assert [int(one.body()[:6]) for one in saves] == list(range(10 - len(saves), 10))
    rig.save(saves)
    rig.append()
    rig.paged.page_bytes(5 * SIZE, ALL, ALL)
    assert len(rig.paged.behind.delta.pieces) == 1
    rig.check()


def test_a_pass_saves_one_message_at_least_and_no_more_than_it_may() -> None:
    rig = filled(10, is_durable=False)
    assert len(rig.paged.page_bytes(0, 1, ALL)) == 1
    assert len(rig.paged.page_bytes(0, 3 * (SIZE - MESSAGE_OVERHEAD_BYTES), ALL)) == 3
    assert len(rig.paged.page_bytes(0, ALL, 2)) == 2


@pytest.mark.parametrize(("pass_bytes", "pass_count"), [(0, 5), (ALL, 0)])
def test_without_credit_nothing_is_saved(pass_bytes: int, pass_count: int) -> None:
    rig = filled(10, is_durable=False)
    assert rig.paged.page_bytes(0, pass_bytes, pass_count) == []
    assert rig.paged.paged_count() == 0 and not rig.paged.behind.is_split
    rig.check()


def test_the_first_message_stays_unless_it_alone_is_too_much() -> None:
    rig = filled(3)
    rig.append()
    rig.paged.page_bytes(SIZE, 0, ALL)
    assert rig.paged.at_hand() == 1
    rig.paged.page_bytes(SIZE - 1, 0, ALL)
    assert rig.paged.at_hand() == 0


def test_nothing_can_be_taken_from_the_disk() -> None:
    rig = on_disk(3)
    rig.take()
    assert (rig.paged.at_hand(), rig.paged.ready_count()) == (0, 2)
    with pytest.raises(IndexError):
        rig.queue.take()
    assert rig.read(ALL // 1024) == 2
    assert rig.paged.at_hand() == 2


def test_no_read_is_wanted_while_the_front_has_as_much() -> None:
    rig = on_disk(9)
    assert rig.paged.next_read(SIZE, True) is None
    wanted = rig.paged.next_read(2 * SIZE, True)
    assert wanted is not None and wanted.index is rig.index
    assert rig.paged.behind.delta.first_position() == wanted.first == 2


def test_no_read_is_wanted_of_what_has_no_place_yet() -> None:
    rig = filled(4)
    rig.paged.page_bytes(0, 0, ALL)
    assert rig.paged.at_hand() == 0 and rig.paged.next_read(ALL, True) is None
    rig.append()
    assert rig.paged.next_read(ALL // 1024, True) is not None


def test_nothing_is_put_behind_one_that_is_missing() -> None:
    rig = on_disk(5)
    begun = rig.begin_read(10_000)
    assert begun is not None
    wanted, job = begun
    assert rig.paged.arrived(wanted, job.found[1:]) == 0
    assert rig.paged.arrived(wanted, [job.found[0], *job.found[2:]]) == 1


def test_a_stub_that_came_back_is_read_before_what_never_left() -> None:
    rig = filled(6)
    rig.append()
    for _ in range(4):
        rig.take()
    for position in (1, 2):
        rig.page_out(position)
    for position in (0, 1, 2, 3):
        rig.requeue(position)
    assert rig.paged.at_hand() == 1, "the first one is whole"
    assert rig.paged.first_bytes() == 26
    rig.take()
    assert rig.paged.at_hand() == 0
    wanted = rig.paged.next_read(10_000, True)
    assert wanted is not None and wanted.has_entries
    assert (wanted.first, wanted.count) == (2, 2)
    rig.flush()
    assert rig.read(10_000) == 2
    assert rig.paged.at_hand() == 5
    for _ in range(3):
        rig.take()
        assert rig.queue.redelivered
    rig.take()
    assert not rig.queue.redelivered


def restored(count: int, redelivered: int) -> PagedRig:
    """What a start finds: so many messages in the log, and nothing read."""
    rig = filled(count)
    rig.append()
    rig.flush()
    rig.queue.purge()
    rig.queue = MessageLine()
    rig.payers = dict.fromkeys(rig.payers, rig.origins[2])
    found = FoundRange(rig.index, 1, count, count, count * 90, rig.origins[2])
    found.redelivered_count = redelivered
    rig.paged.restore_delta(found)
    return rig


def test_a_start_brings_back_places_only() -> None:
    rig = restored(20, 5)
    assert (rig.paged.ready_count(), rig.paged.at_hand()) == (20, 0)
    assert rig.paged.bytes_ready == PIECE_BYTES
    assert rig.paged.first_bytes() == 90
    rig.publish(origin=2)
    flags = []
    while rig.expected:
        if rig.paged.at_hand() == 0:
            rig.flush()
            assert rig.read(500) > 0
        rig.take()
        flags.append(rig.queue.redelivered)
        rig.ack(int(rig.queue.position))
    assert flags == [True] * 5 + [False] * 16
    assert rig.paged.paged_bytes() == 0


def test_what_is_read_is_charged_to_whom_it_was_restored_for() -> None:
    rig = restored(4, 0)
    rig.read(1)
    assert rig.origins[2].stored_messages == rig.paged.at_hand() == 1
    assert rig.origins[2].stored_bytes == SIZE + PIECE_BYTES


def test_one_that_is_lost_takes_its_mark_with_it() -> None:
    """Of four messages the first two may have been delivered, and the first cannot be read."""
    rig = restored(4, 2)
    begun = rig.begin_read(10_000)
    assert begun is not None
    rig.lose(begun[0], begun[1].found[0])
    assert rig.paged.ready_count() == 3
    rig.read(10_000)
    flags = []
    for _ in range(3):
        rig.take()
        flags.append(rig.queue.redelivered)
    assert flags == [True, False, False]


class TestDelta:
    """Positions need a log only where they have gaps."""

    def test_neighbours_are_one_piece(self) -> None:
        delta, index, payer = Delta(False), QueueIndex(1), Account("a", None, None, 0)
        for position in (5, 6, 7):
            delta.append(index, position, 10, payer)
        delta.prepend(index, 4, 10, payer)
        delta.append(QueueIndex(2), 1, 10, payer)
        assert [(int(one.first), int(one.last)) for one in delta.pieces] == [(4, 7), (1, 1)]
        assert (delta.count, delta.bytes) == (5, 50)
        assert payer.stored_bytes == 2 * PIECE_BYTES

    def test_each_pays_for_his_own(self) -> None:
        delta, index = Delta(False), QueueIndex(1)
        first, second = Account("a", None, None, 0), Account("b", None, None, 0)
        for position, payer in ((1, first), (2, first), (3, second), (4, first)):
            delta.append(index, position, 10, payer)
        found = [delta.take_first(position, 10).name for position in (1, 2, 3, 4)]
        assert found == ["a", "a", "b", "a"]
        assert first.stored_bytes == delta.ram_bytes == delta.bytes == 0

    def test_with_too_many_payers_the_first_pays_for_the_second(self) -> None:
        delta, index = Delta(False), QueueIndex(1)
        payers = [Account("a", None, None, 0), Account("b", None, None, 0)]
        count = PAYERS_MAX + 10
        for position in range(1, count + 1):
            delta.append(index, position, 10, payers[position % 2])
        piece = delta.pieces[0]
        assert len(piece.payers) == PAYERS_MAX
        assert sum(int(one.count) for one in piece.payers) == count
        assert piece.payers[0].count == 11
