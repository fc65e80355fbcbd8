"""Settings from a file: what is unknown, of the wrong type or out of range refuses to start."""

from pathlib import Path

import pytest

from penstock.base.config import Config, UserConfig
from penstock.base.errors import OperatorError
from penstock.base.limits import LIMITS, Limit
from penstock.server.config_file import read_config


def read(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "penstock.toml"
    path.write_text(text, encoding="utf-8")
    return read_config(str(path))


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    assert read(tmp_path, "") == Config()


def test_settings_and_users(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        'port = 5673\nheartbeat_s = 10\nvhosts = ["/", "b"]\n'
        '[[users]]\nname = "app"\npassword = "secret"\ntags = ["x"]\n',
    )
    assert (config.port, config.heartbeat_s, config.vhosts) == (5673, 10, ("/", "b"))
    assert config.users == (UserConfig("app", "secret", False, ("x",)),)
    assert "secret" not in repr(config)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("prot = 1", "prot"),
        ('port = "5672"', "port"),
        ("heartbeat_s = true", "heartbeat_s"),
        ("frame_bytes_max = 100", "frame_bytes_max"),
        ("vhosts = 3", "vhosts"),
        ("users = 3", "users"),
        ('[[users]]\npassword = "x"', "name"),
        ('[[users]]\nname = "x"', "password"),
        ('[[users]]\nname = "x"\npassword = "x"\nadmin = true', "admin"),
        ("port = ", "TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(OperatorError, match=named) as caught:
        read(tmp_path, text)
    assert "penstock.toml" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot read"):
        read_config(str(tmp_path / "none.toml"))


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_defaults_keep_to_their_limits(limit: Limit) -> None:
    value = getattr(Config(), limit.name, None)
    if value is not None:
        assert limit.lowest <= value <= limit.highest
