"""Every bound has an owner that exists, a sound range, and its line in the documentation."""

from dataclasses import fields

from penstock.base import limits
from penstock.base.config import Config
from penstock.base.limits import LIMITS, Limit
from scripts.limits_page import page
from tests.architecture.house import PACKAGE, REPOSITORY


def test_limits_are_sound() -> None:
    for limit in LIMITS:
        assert limit.lowest <= limit.default <= limit.highest, limit.name
        assert limit.unit, f"{limit.name}: a number without a unit"
        assert limit.at_bound, f"{limit.name}: nothing happens at the bound"


def test_a_limit_has_an_owner() -> None:
    for limit in LIMITS:
        place = PACKAGE / limit.owner
        is_there = place.is_dir() or place.with_suffix(".py").is_file()
        assert is_there, f"{limit.name}: no {limit.owner} in the package"


def test_a_limit_has_a_configuration_key_or_says_why_not() -> None:
    keys = {field.name for field in fields(Config)}
    for limit in LIMITS:
        assert (limit.name in keys) == (limit.no_key == ""), limit.name


def test_defaults_keep_to_their_limits() -> None:
    for limit in LIMITS:
        value = getattr(Config(), limit.name, limit.default)
        assert limit.lowest <= value <= limit.highest, limit.name


def test_every_limit_is_in_the_table_by_the_name_of_its_constant() -> None:
    constants = {key: value for key, value in vars(limits).items() if isinstance(value, Limit)}
    assert [key.lower() for key in constants] == [limit.name for limit in LIMITS]


def test_the_page_about_limits_is_up_to_date() -> None:
    written = (REPOSITORY / "docs" / "limits.md").read_text(encoding="utf-8")
    assert written == page(), "run: make docs"
