"""Numbers by name whose names are kept once: they read like the dict they were made of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry import row
from penstock.telemetry.row import COLUMNS_MAX, Row, as_dict, row_of

NAMES = st.text(alphabet="ab:\0\n", max_size=6)
NUMBERS = st.dictionaries(NAMES, st.sampled_from((0.0, 1.0, 2.5)), max_size=5)


@given(NUMBERS, NUMBERS, st.text(alphabet="ab\n", max_size=2))
def test_it_reads_like_the_dict_it_was_made_of(
    numbers: dict[str, float], others: dict[str, float], about: str
) -> None:
    made = row_of(numbers, about)
    assert made == numbers and numbers == made and len(made) == len(numbers)
    assert list(made) == list(numbers) and dict(made) == numbers == as_dict(made)
    assert list(made.keys()) == list(numbers.keys())
    assert list(made.values()) == list(numbers.values())
    assert list(made.items()) == list(numbers.items())
    for name in (*numbers, *others, about, ""):
        assert (name in made) == (name in numbers)
        assert made.get(name) == numbers.get(name)
        assert made.get(name, 7.0) == numbers.get(name, 7.0)
        if name in numbers:
            assert made[name] == numbers[name]
        else:
            with pytest.raises(KeyError):
                made[name]
    assert (row_of(others, about) == made) == (others == numbers)
    assert repr(made) == repr(numbers)


def test_rows_of_different_actors_share_their_names() -> None:
    one = row_of({"credit:chan:1.2.3.4:5/1": 4.0, "published": 0.0}, "1.2.3.4:5")
    other = row_of({"credit:chan:9.9.9.9:9/1": 4.0, "published": 0.0}, "9.9.9.9:9")
    assert isinstance(one, Row) and isinstance(other, Row)
    assert one._columns is other._columns and one._values is other._values
    assert one != other and one["credit:chan:1.2.3.4:5/1"] == 4.0
    assert "credit:chan:9.9.9.9:9/1" not in one and "credit:chan:\0/1" not in other


def test_equal_rows_are_one_object_and_so_are_equal_values() -> None:
    one = row_of({"a": 1000.5, "b": 0.0})
    assert row_of({"a": 1000.5, "b": 0.0}) is one
    third = row_of({"a": 1000.5, "b": 3.0})
    assert third is not one and third["a"] is one["a"] and one["b"] == 0.0


def test_sets_of_names_are_bounded_and_rows_keep_theirs() -> None:
    first = row_of({"queue of its own": 1.0})
    for number in range(COLUMNS_MAX + 1):
        row_of({f"queue {number}": 2.0})
    assert len(row._KNOWN) <= COLUMNS_MAX
    assert first == {"queue of its own": 1.0} == row_of({"queue of its own": 1.0})
