"""SASL responses: user and password out of PLAIN and AMQPLAIN. Secrets never reach a text.

    PLAIN:    0x00 user 0x00 password          the authorisation identity in front stays empty
    AMQPLAIN: the fields of a table without its length, with LOGIN and PASSWORD as strings
    EXTERNAL: whatever it is, it is not looked at: the user is that of the client's certificate

Whether the password is right is not decided here.
Source: RFC 4616; RabbitMQ's rabbit_auth_mechanism_plain, _amqplain and _ssl, whose texts are kept
except that theirs repeat the response, password and all.
"""

from dataclasses import dataclass, field
from typing import Final

from penstock.base.errors import ConnectionFault
from penstock.protocol.constants import ACCESS_REFUSED, COMMAND_INVALID, SYNTAX_ERROR
from penstock.protocol.values import Value, decode_fields

PLAIN: Final = "PLAIN"
AMQPLAIN: Final = "AMQPLAIN"
EXTERNAL: Final = "EXTERNAL"
MECHANISMS: Final = (PLAIN, AMQPLAIN)
"""Offered to everybody; EXTERNAL besides to those whose certificate was verified."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The user a client claims to be, and the proof. `password` is kept out of repr; is_certified:
    the proof is a certificate that was verified, and there is no password."""

    user: str
    password: str = field(repr=False)
    is_certified: bool = False


def parse(
    mechanism: str, response: bytes, offered: tuple[str, ...] = MECHANISMS, certified: str = ""
) -> Credentials:
    """The credentials in the `response` of connection.start-ok or secure-ok.

    offered: the mechanisms connection.start has named; certified: the user of the client's
    certificate, "" for none.
    Raises: ConnectionFault 503 for a mechanism that is unknown or was not offered, 502 for a
    malformed response. Neither text repeats anything of the response.
    """
    if mechanism not in (*MECHANISMS, EXTERNAL):
        raise ConnectionFault(COMMAND_INVALID, f"unknown authentication mechanism '{mechanism}'")
    if mechanism not in offered:
        raise ConnectionFault(COMMAND_INVALID, f"invalid authentication mechanism '{mechanism}'")
    if mechanism == EXTERNAL:
        return Credentials(certified, "", is_certified=True)
    return _parse_plain(response) if mechanism == PLAIN else _parse_amqplain(response)


def login_refused(mechanism: str) -> ConnectionFault:
    """The fault that answers wrong credentials, without saying which of them was wrong.

    Clients that have not announced `authentication_failure_close` get a closed socket instead.
    """
    return ConnectionFault(
        ACCESS_REFUSED,
        f"Login was refused using authentication mechanism {mechanism}. "
        "For details see the broker logfile.",
    )


def _parse_plain(response: bytes) -> Credentials:
    parts = response.split(b"\x00")
    if len(parts) != 3 or parts[0] != b"":
        raise ConnectionFault(SYNTAX_ERROR, "PLAIN response invalid")
    return _credentials(parts[1], parts[2], PLAIN)


def _parse_amqplain(response: bytes) -> Credentials:
    try:
        table = decode_fields(response, 0, len(response))
    except ConnectionFault as fault:
        # The cause is dropped, because a traceback would show the response in a log.
        raise ConnectionFault(SYNTAX_ERROR, f"AMQPLAIN auth info: {fault.text}") from None
    if "LOGIN" not in table or "PASSWORD" not in table:
        raise ConnectionFault(SYNTAX_ERROR, "AMQPLAIN auth info is missing LOGIN or PASSWORD field")
    return _credentials(_string(table["LOGIN"]), _string(table["PASSWORD"]), AMQPLAIN)


def _string(value: Value) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    raise ConnectionFault(
        SYNTAX_ERROR, "AMQPLAIN auth info uses unsupported type for LOGIN or PASSWORD field"
    )


def _credentials(user: bytes, password: bytes, mechanism: str) -> Credentials:
    try:
        return Credentials(user.decode("utf-8"), password.decode("utf-8"))
    except UnicodeDecodeError:
        # The cause is dropped, because a UnicodeDecodeError carries the bytes it failed on.
        raise ConnectionFault(SYNTAX_ERROR, f"malformed UTF-8 in {mechanism} response") from None
