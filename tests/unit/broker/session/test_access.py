"""Users, passwords and loopback addresses."""

import pytest

from penstock.base.config import UserConfig
from penstock.broker.session.access import Access, is_loopback
from penstock.protocol.sasl import Credentials

USERS = (UserConfig("guest", "guest", True), UserConfig("app", "geheim·"))


@pytest.mark.parametrize(
    ("user", "password", "host", "is_right"),
    [
        ("guest", "guest", "127.0.0.1", True),
        ("guest", "guest", "::1", True),
        ("guest", "guest", "", True),
        ("guest", "guest", "10.0.0.1", False),
        ("guest", "other", "127.0.0.1", False),
        ("app", "geheim·", "10.0.0.1", True),
        ("app", "geheim", "10.0.0.1", False),
        ("nobody", "\x00", "127.0.0.1", False),
        ("", "", "127.0.0.1", False),
    ],
)
def test_who_may_come_in(user: str, password: str, host: str, is_right: bool) -> None:
    refusal = Access(USERS).check(Credentials(user, password), host)
    assert (refusal == "") == is_right
    assert password == "" or password == user or password not in refusal


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("127.8.9.10", True),
        ("::ffff:127.0.0.1", True),
        ("fe80::1%eth0", False),
        ("192.0.2.1", False),
        ("localhost", False),
        ("no address", False),
    ],
)
def test_loopback(host: str, is_local: bool) -> None:
    assert is_loopback(host) == is_local
