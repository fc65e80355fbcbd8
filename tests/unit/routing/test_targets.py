"""Counted destinations: each given once, gone with its last binding."""

from penstock.routing.destination import Destination, Targets


def given(targets: Targets) -> list[Destination]:
    found: list[Destination] = []
    targets.give(found)
    return found


def test_given_once_in_order_until_the_last_binding_goes() -> None:
    targets, first, second = Targets(), Destination("1"), Destination("2")
    assert given(targets) == []
    targets.hold(first)
    assert given(targets) == [first]
    targets.hold(second)
    targets.hold(first)
    assert given(targets) == [first, second]
    assert not targets.release(first)
    assert given(targets) == [first, second]
    assert not targets.release(first)
    assert given(targets) == [second]
    assert targets.release(second)
    assert given(targets) == []


def test_what_is_given_belongs_to_the_caller() -> None:
    targets, queue = Targets(), Destination("q")
    targets.hold(queue)
    given(targets).clear()
    assert given(targets) == [queue]
