"""Open publishes: the bound, and answers to what is not open."""

import pytest

from penstock.client.channel_state import Unconfirmed


def test_the_bound_is_asked_for_and_kept() -> None:
    books = Unconfirmed(2)
    assert [books.add(0), books.add(0)] == [1, 2]
    assert books.is_full()
    with pytest.raises(AssertionError):
        books.add(0)
    books.settle(1, False)
    assert not books.is_full() and books.add(9) == 3


def test_tag_zero_with_multiple_means_everything() -> None:
    books = Unconfirmed(10)
    for mark in (5, 6, 7):
        books.add(mark)
    assert books.settle(0, True) == ([1, 2, 3], [5, 6, 7])
    assert len(books) == 0


@pytest.mark.parametrize(("tag", "multiple"), [(9, False), (1, False), (1, True)])
def test_an_answer_to_what_is_not_open_changes_nothing(tag: int, multiple: bool) -> None:
    books = Unconfirmed(10)
    books.add(5)
    books.add(6)
    books.settle(1, False)
    assert books.settle(tag, multiple) == ([], [])
    assert len(books) == 1
