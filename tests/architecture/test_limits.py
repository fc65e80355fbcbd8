"""Every bound has an owner that exists, a sound range, and its line in the documentation."""

import pytest

from penstock.base import limits
from penstock.base.limits import LIMITS, Limit
from scripts.limits_page import page
from tests.architecture.house import PACKAGE, REPOSITORY


def name_of(limit: Limit) -> str:
    return limit.name


@pytest.mark.parametrize("limit", LIMITS, ids=name_of)
def test_a_limit_is_sound(limit: Limit) -> None:
    assert limit.lowest <= limit.default <= limit.highest
    assert limit.unit, "a number without a unit"
    assert limit.at_bound, "nothing happens at the bound"


@pytest.mark.parametrize("limit", LIMITS, ids=name_of)
def test_a_limit_has_an_owner(limit: Limit) -> None:
    place = PACKAGE / limit.owner
    assert place.is_dir() or place.with_suffix(".py").is_file(), f"no {limit.owner} in the package"


def test_names_are_unique_and_every_limit_is_in_the_table() -> None:
    names = [limit.name for limit in LIMITS]
    assert len(names) == len(set(names))
    defined = {value.name for value in vars(limits).values() if isinstance(value, Limit)}
    assert defined == set(names)


def test_a_constant_has_the_name_of_its_limit() -> None:
    constants = {key: value for key, value in vars(limits).items() if isinstance(value, Limit)}
    assert {key.lower() for key in constants} == {value.name for value in constants.values()}


def test_the_page_about_limits_is_up_to_date() -> None:
    written = (REPOSITORY / "docs" / "limits.md").read_text(encoding="utf-8")
    assert written == page(), "run: make docs"
