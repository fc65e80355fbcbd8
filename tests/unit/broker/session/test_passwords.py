"""Hashed passwords: RabbitMQ's form, both ways, and what is no hash."""

from base64 import b64encode

import pytest

from penstock.base.config import UserConfig
from penstock.broker.session.access import Access
from penstock.broker.session.passwords import (
    HASHINGS,
    SHA256,
    SHA512,
    hash_fault,
    hash_password,
    is_password,
    salt_bytes,
)
from penstock.protocol.sasl import Credentials

FROM_RABBITMQ = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
"""Of `test12`, from RabbitMQ's own documentation of its password hashes."""


def test_a_hash_made_by_rabbitmq() -> None:
    assert is_password("test12", FROM_RABBITMQ, SHA256)
    assert not is_password("test13", FROM_RABBITMQ, SHA256)
    assert not is_password("test12", FROM_RABBITMQ, SHA512)


@pytest.mark.parametrize("hashing", HASHINGS)
def test_every_hashing_round_trips(hashing: str) -> None:
    made = hash_password("pässword", b"s" * salt_bytes(hashing), hashing)
    assert hash_fault(made, hashing) == ""
    assert is_password("pässword", made, hashing) and not is_password("", made, hashing)
    assert made != hash_password("pässword", b"t" * salt_bytes(hashing), hashing)


@pytest.mark.parametrize(
    ("text", "said"),
    [("", ""), ("!", "not base64"), ("ü", "not base64"), (b64encode(b"x").decode(), "1 bytes")],
)
def test_what_is_no_hash_lets_nobody_in(text: str, said: str) -> None:
    assert not is_password("", text, SHA256) and not is_password("x", text, SHA256)
    assert said in hash_fault(text, SHA256) and (said == "") == (hash_fault(text, SHA256) == "")


def test_an_unknown_hashing() -> None:
    assert "'md4' is unknown; one of: argon2id, rabbit_" in hash_fault(FROM_RABBITMQ, "md4")


def test_a_user_with_a_hash_comes_in_with_the_password_alone() -> None:
    user = UserConfig("u", "", password_hash=FROM_RABBITMQ, hashing=SHA256)
    access = Access((user, UserConfig("nobody", "", password_hash="", hashing=SHA256)))
    assert access.check(Credentials("u", "test12"), "10.0.0.1") == ""
    for name, password in (("u", ""), ("u", FROM_RABBITMQ), ("nobody", ""), ("nobody", "x")):
        refusal = access.check(Credentials(name, password), "10.0.0.1")
        assert "invalid credentials" in refusal or (password == "" and "blank" in refusal)
    assert FROM_RABBITMQ not in repr(user)
