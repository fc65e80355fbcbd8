"""Settings are found by key, changed whole or not at all, and refuse by name."""

import pytest

from penstock.base.errors import OperatorError
from penstock.base.quantities import parse_bytes, show_bytes
from penstock.broker.settings.settings import Setting, Settings


def size(key: str) -> Setting:
    held = [1024]

    def write(text: str) -> None:
        held[0] = parse_bytes(text)

    return Setting(key, "bytes", "a size", lambda: show_bytes(held[0]), write)


def test_a_change_tells_before_and_after() -> None:
    settings = Settings()
    settings.add(size("b.size"))
    settings.add(size("a.size"))
    assert settings.write("a.size", "2MiB") == ("1KiB", "2MiB")
    assert [setting.key for setting in settings.all()] == ["a.size", "b.size"]


def test_a_bad_value_changes_nothing() -> None:
    settings = Settings()
    settings.add(size("a.size"))
    with pytest.raises(OperatorError, match="'lots' is not a size"):
        settings.write("a.size", "lots")
    assert settings.get("a.size").read() == "1KiB"


def test_an_unknown_key_names_the_known() -> None:
    settings = Settings()
    settings.add(size("a.size"))
    with pytest.raises(OperatorError, match=r"unknown setting 'other'; one of: a\.size"):
        settings.write("other", "1")
    with pytest.raises(OperatorError, match=r"unknown setting 'b\.size'; did you mean a\.size\?"):
        settings.write("b.size", "1")


def test_several_changes_are_all_made_or_none() -> None:
    settings = Settings()
    settings.add(size("a.size"))
    settings.add(size("b.size"))
    assert settings.write_all([("a.size", "2MiB"), ("b.size", "3MiB")]) == [
        ("a.size", "1KiB", "2MiB"),
        ("b.size", "1KiB", "3MiB"),
    ]
    with pytest.raises(OperatorError, match=r"b\.size=lots: 'lots' is not a size"):
        settings.write_all([("a.size", "4MiB"), ("b.size", "lots")])
    assert [setting.read() for setting in settings.all()] == ["2MiB", "3MiB"]


def test_two_owners_of_one_key_are_a_bug() -> None:
    settings = Settings()
    settings.add(size("a.size"))
    with pytest.raises(AssertionError):
        settings.add(size("a.size"))
