"""A message's place: queues join, get a position, and leave, in any order."""

from penstock.storage.layout.stored import Stored


def test_one_queue() -> None:
    stored = Stored()
    stored.join(7)
    assert stored.awaits(7)
    stored.placed(7, 12)
    assert not stored.awaits(7)
    assert stored.leave(7) == 12
    assert stored.leave(7) == 0
    assert not stored.awaits(7)


def test_several_queues() -> None:
    stored = Stored()
    for queue_id in (7, 8, 9):
        stored.join(queue_id)
    stored.placed(8, 5)
    stored.placed(7, 4)
    assert stored.leave(7) == 4
    assert stored.leave(9) == 0
    assert not stored.awaits(9)
    assert stored.leave(8) == 5
    stored.join(10)
    stored.placed(10, 1)
    assert stored.leave(10) == 1
