"""The settings tree: safe by default, and silent about passwords."""

from penstock.base.config import Config, UserConfig


def test_the_default_is_safe_on_a_laptop() -> None:
    config = Config()
    assert config.host == "127.0.0.1"
    assert all(user.is_loopback_only for user in config.users)


def test_a_password_is_never_shown() -> None:
    assert "secret" not in repr(UserConfig("app", "secret"))
    assert "secret" not in repr(Config(users=(UserConfig("app", "secret"),)))
