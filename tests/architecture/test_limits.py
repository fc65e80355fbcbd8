"""Every bound has an owner that exists, a sound range, and its line in the documentation."""

from dataclasses import fields

import pytest

from penstock.base import limits
from penstock.base.config import Config
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


@pytest.mark.parametrize("limit", LIMITS, ids=name_of)
def test_a_limit_has_a_configuration_key_or_says_why_not(limit: Limit) -> None:
    keys = {field.name for field in fields(Config)}
    assert (limit.name in keys) == (limit.no_key == "")


def test_every_limit_is_in_the_table_by_the_name_of_its_constant() -> None:
    constants = {key: value for key, value in vars(limits).items() if isinstance(value, Limit)}
    assert [key.lower() for key in constants] == [limit.name for limit in LIMITS]


def test_the_page_about_limits_is_up_to_date() -> None:
    written = (REPOSITORY / "docs" / "limits.md").read_text(encoding="utf-8")
    assert written == page(), "run: make docs"
