"""consumer.timeout and notify.blocked."""

import pytest

from penstock.base.errors import OperatorError
from tests.unit.broker.peer import Bed


@pytest.mark.parametrize(
    ("key", "default"), [("consumer.timeout", "30m"), ("notify.blocked", "off")]
)
def test_a_setting_reads_what_was_written(key: str, default: str) -> None:
    settings = Bed().broker.settings
    assert settings.get(key).read() == default
    assert settings.write(key, "90s") == (default, "90s")
    assert settings.write(key, "off") == ("90s", "off")
    assert settings.get(key).unit == "duration or off"


@pytest.mark.parametrize(
    ("key", "text"), [("consumer.timeout", "600000m"), ("notify.blocked", "2 weeks")]
)
def test_what_makes_no_sense_changes_nothing(key: str, text: str) -> None:
    settings = Bed().broker.settings
    before = settings.get(key).read()
    with pytest.raises(OperatorError):
        settings.write(key, text)
    assert settings.get(key).read() == before
