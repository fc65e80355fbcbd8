"""Queues by name, and the news of their coming and going."""

import pytest

from penstock.routing.destination import Destination
from penstock.routing.directory import QueueDirectory, QueueLookup
from penstock.routing.router import Router


def test_every_change_moves_the_epoch() -> None:
    directory, queue = QueueDirectory(), Destination("q")
    router = Router(directory)
    before = router.epoch
    directory.add(queue)
    between = router.epoch
    directory.remove(queue)
    assert before < between < router.epoch


def test_names_are_taken_once() -> None:
    directory, queue = QueueDirectory(), Destination("q")
    directory.add(queue)
    assert directory.find_queue("q") is queue
    assert directory.queues() == (queue,)
    with pytest.raises(AssertionError):
        directory.add(Destination("q"))
    with pytest.raises(AssertionError):
        directory.remove(Destination("q"))
    directory.remove(queue)
    assert directory.find_queue("q") is None


def test_a_lookup_of_ones_own() -> None:
    class Everything(QueueLookup):
        __slots__ = ()

        def find_queue(self, name: str) -> Destination | None:
            return Destination(name)

    lookup = Everything()
    lookup.announce()
    router = Router(lookup)
    default = router.find("")
    assert default is not None
    assert [queue.name for queue in router.route(default, ("any",), None)] == ["any"]
    before = router.epoch
    lookup.announce()
    assert router.epoch > before
    with pytest.raises(AssertionError):
        QueueLookup().find_queue("q")
