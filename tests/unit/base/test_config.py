"""The settings tree: frozen, safe by default, and silent about passwords."""

from dataclasses import FrozenInstanceError

import pytest

from penstock.base.config import Config, UserConfig


def test_the_default_is_safe_on_a_laptop() -> None:
    config = Config()
    assert config.host == "127.0.0.1"
    assert all(user.is_loopback_only for user in config.users)


def test_settings_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().port = 1  # type: ignore[misc]  # that is the point


def test_a_password_is_never_shown() -> None:
    assert "secret" not in repr(UserConfig("app", "secret"))
    assert "secret" not in repr(Config(users=(UserConfig("app", "secret"),)))
