"""PLAIN and AMQPLAIN, and that no text ever shows a secret."""

import pytest

from penstock.base.errors import ConnectionFault
from penstock.protocol.sasl import Credentials, login_refused, parse
from penstock.protocol.values import Value, encode_table

SECRET = "s3cret"


def amqplain(**fields: Value) -> bytes:
    return encode_table(fields)[4:]


@pytest.mark.parametrize(
    ("response", "user", "password"),
    [
        (b"\0guest\0guest", "guest", "guest"),
        (b"\0\0", "", ""),
        ("\0é\0pässword".encode(), "é", "pässword"),
    ],
)
def test_plain(response: bytes, user: str, password: str) -> None:
    assert parse("PLAIN", response) == Credentials(user, password)


def test_amqplain() -> None:
    for password in (SECRET, SECRET.encode(), bytearray(SECRET.encode())):
        found = parse("AMQPLAIN", amqplain(LOGIN="guest", PASSWORD=password))
        assert found == Credentials("guest", SECRET)


@pytest.mark.parametrize(
    ("mechanism", "response", "text"),
    [
        ("PLAIN", b"", "PLAIN response invalid"),
        ("PLAIN", b"guest\0s3cret", "PLAIN response invalid"),
        ("PLAIN", b"who\0guest\0s3cret", "PLAIN response invalid"),
        ("PLAIN", b"\0guest\0s3cret\0", "PLAIN response invalid"),
        ("PLAIN", b"\0guest\0s3cret\xff", "malformed UTF-8 in PLAIN response"),
        ("AMQPLAIN", b"\x05LOGIN", "AMQPLAIN auth info"),
        ("AMQPLAIN", amqplain(LOGIN="guest"), "is missing LOGIN or PASSWORD field"),
        ("AMQPLAIN", amqplain(PASSWORD=SECRET), "is missing LOGIN or PASSWORD field"),
        ("AMQPLAIN", amqplain(LOGIN=5, PASSWORD=SECRET), "unsupported type"),
        ("AMQPLAIN", amqplain(LOGIN="g", PASSWORD=b"s3cret\xff"), "malformed UTF-8"),
    ],
)
def test_malformed_responses_are_502_and_tell_nothing(
    mechanism: str, response: bytes, text: str
) -> None:
    with pytest.raises(ConnectionFault, match=text) as caught:
        parse(mechanism, response)
    assert caught.value.code == 502
    assert SECRET not in caught.value.text
    assert caught.value.__cause__ is None


def test_mechanisms_are_503() -> None:
    with pytest.raises(ConnectionFault) as caught:
        parse("SCRAM", b"\0guest\0s3cret")
    assert (caught.value.code, caught.value.text) == (
        503,
        "unknown authentication mechanism 'SCRAM'",
    )
    with pytest.raises(ConnectionFault, match="invalid authentication mechanism 'AMQPLAIN'"):
        parse("AMQPLAIN", amqplain(LOGIN="g", PASSWORD="p"), offered=("PLAIN",))


def test_the_password_stays_out_of_repr() -> None:
    assert SECRET not in repr(Credentials("guest", SECRET))


def test_a_refused_login_names_the_mechanism_only() -> None:
    fault = login_refused("PLAIN")
    assert fault.code == 403
    assert fault.text == (
        "Login was refused using authentication mechanism PLAIN. "
        "For details see the broker logfile."
    )
