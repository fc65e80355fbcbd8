"""Pages of a listing: together they are the listing, and nothing that stays is missed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import OperatorError
from penstock.broker.admin.paging import AFTER_CHARACTERS_MAX, Key, Pager

KEYS = st.tuples(st.sampled_from([-1.5, -1, 0, 2]), st.sampled_from(["", "a", "b", "ü", '"', "z"]))


def page(rows: list[tuple[Key, int]], limit: int, after: str) -> Pager[int]:
    pager: Pager[int] = Pager(limit, after, "name")
    for key, row in rows:
        pager.offer(key, row)
    return pager


def pages(rows: list[tuple[Key, int]], limit: int) -> list[list[int]]:
    found = []
    after = ""
    while True:
        pager = page(rows, limit, after)
        assert pager.total == len(rows)
        found.append(pager.rows())
        after = pager.next()
        if after == "":
            return found


@given(st.lists(KEYS, max_size=30), st.integers(1, 12))
def test_all_pages_together_are_the_listing(keys: list[Key], limit: int) -> None:
    """Also where several rows have one place: then they come in the order they were offered in."""
    rows = [(key, number) for number, key in enumerate(keys)]
    found = pages(rows, limit)
    order = sorted(range(len(keys)), key=lambda number: (keys[number], number))
    assert [row for one in found for row in one] == order
    assert all(len(one) == limit for one in found[:-1]) and len(found[-1]) <= limit


TEXTS = st.text(max_size=4)


@given(st.sets(TEXTS, max_size=20), st.lists(TEXTS, max_size=9), st.data())
def test_what_stays_is_on_one_page_whatever_comes_and_goes(
    stays: set[str], others: list[str], data: st.DataObject
) -> None:
    there = set(others) - stays
    limit = data.draw(st.integers(1, 5))
    seen: list[str] = []
    after = ""
    names: list[str] = sorted(stays | there)
    while True:
        pager: Pager[str] = Pager(limit, after, "name")
        for name in data.draw(st.permutations(names)):
            pager.offer((name,), name)
        seen += pager.rows()
        after = pager.next()
        if after == "":
            break
        for name in data.draw(st.lists(st.sampled_from(others), max_size=2)) if others else []:
            there ^= {name} - stays
        names = sorted(stays | there)
    assert [name for name in seen if name in stays] == sorted(stays)
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ("x", "is not what a listing called"),
        ("{}", "is not what a listing called"),
        ('["name", [null], 1]', "is not what a listing called"),
        ('["name", [[]], 1]', "is not what a listing called"),
        ("\ud800", "is not what a listing called"),
        ("[" * (AFTER_CHARACTERS_MAX + 1), "is not what a listing called"),
        (json.dumps(["name", ["a" * AFTER_CHARACTERS_MAX], 1]), "is not what a listing called"),
        ('["ready", ["a"], 1]', "is from a listing by 'ready', not by 'name'"),
        ('["name", [1, "a"], 1]', "is not from this listing"),
    ],
)
def test_what_is_no_place_is_refused_in_words(after: str, words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        page([(("a", 1), 1)], 1, after)


def test_a_row_costs_a_comparison_or_a_place_among_so_many() -> None:
    pager: Pager[int] = Pager(10)
    for number in range(50_000):
        pager.offer((number * 7919 % 50_000,), number)
        assert len(pager._kept) <= 11
    assert len(pager.rows()) == 10 and pager.total == 50_000
