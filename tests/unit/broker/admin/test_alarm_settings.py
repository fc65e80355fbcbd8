"""Four settings, read back as written, in force at once, refused whole."""

import pytest

from penstock.base.errors import OperatorError
from tests.unit.broker.alarm_bed import AlarmBed


@pytest.mark.parametrize(
    ("key", "before", "after", "wrong"),
    [
        ("memory.high", "40%", "1.5GB", "lots"),
        ("disk.free_min", "50MB", "mem:1.0", "40%"),
        ("alarm.mode", "targeted", "all", "none"),
        ("alarm.action", "block", "nack", "drop"),
    ],
)
def test_a_setting_is_changed_whole_or_not_at_all(
    key: str, before: str, after: str, wrong: str
) -> None:
    settings = AlarmBed().broker.settings
    assert settings.write(key, after) == (before, after)
    with pytest.raises(OperatorError, match=wrong):
        settings.write(key, wrong)
    assert settings.get(key).read() == after
