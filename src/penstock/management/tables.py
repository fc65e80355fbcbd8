"""Between JSON and what AMQP carries: arguments, messages and their properties."""

from base64 import b64encode
from codecs import getincrementaldecoder
from contextlib import suppress
from dataclasses import fields
from decimal import Decimal
from typing import Any, Final

from penstock.client.events import Delivery
from penstock.management.errors import bad_request
from penstock.protocol.properties import Properties
from penstock.protocol.values import Table, Value

Row = dict[str, Any]
DEPTH_MAX: Final = 32
NAMES: Final = {one.name for one in fields(Properties)}
NUMBERS: Final = frozenset(("delivery_mode", "priority", "timestamp"))


def as_table(given: Row) -> Table:
    """Arguments from JSON. Raises: HttpFault 400."""
    return {str(key): _value(value, DEPTH_MAX) for key, value in given.items()}


def _value(value: Any, depth: int) -> Value:
    if depth == 0:
        raise bad_request(f"arguments are nested deeper than {DEPTH_MAX}")
    if isinstance(value, dict):
        return {str(key): _value(one, depth - 1) for key, one in value.items()}
    if isinstance(value, list):
        return [_value(one, depth - 1) for one in value]
    if isinstance(value, bool | str | float) or value is None:
        return value
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return value
    raise bad_request(f"{str(value)[:40]} does not fit into 64 bits")


def as_json(value: object) -> Any:
    """A value of AMQP as JSON's nearest."""
    if isinstance(value, dict):
        return {key: as_json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [as_json(one) for one in value]
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bool) or value is None or isinstance(value, str | float):
        return value
    return int(value) if isinstance(value, int) else str(value)


def properties_row(properties: Properties) -> Row:
    """The properties that are there."""
    return {
        one: as_json(value)
        for one in sorted(NAMES)
        if (value := getattr(properties, one)) is not None
    }


def properties_from(given: Row) -> Properties:
    """Properties from JSON. Raises: HttpFault 400 that names what is wrong."""
    values: Row = {}
    for key, value in given.items():
        if key not in NAMES:
            raise bad_request(
                f"unknown property '{str(key)[:60]}'; one of: {', '.join(sorted(NAMES))}"
            )
        if key == "headers":
            if not isinstance(value, dict):
                raise bad_request("property headers must be an object")
            values[key] = as_table(value)
        elif key in NUMBERS:
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise bad_request(f"property {key} must be a number, not {str(value)[:40]!r}")
            values[key] = value
        else:
            values[key] = _text(key, value)
    return Properties(**values)


def _text(key: str, value: object) -> str:
    """A property that is a text; a number is taken for its digits, as in `"expiration": 60000`."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise bad_request(f"property {key} must be a string, not {str(value)[:40]!r}")


def message_row(delivery: Delivery, encoding: str, truncate: int | None) -> Row:
    """A message as `get` answers it. encoding: auto, which is text where the body is UTF-8, or
    base64; truncate: bytes of the body that are shown, None for all. A text that is cut ends with
    its last whole letter."""
    body = delivery.body
    payload = body if truncate is None else body[:truncate]
    said, used = b64encode(payload).decode(), "base64"
    if encoding == "auto":
        is_whole = len(payload) == len(body)
        with suppress(UnicodeDecodeError):
            said, used = getincrementaldecoder("utf-8")().decode(payload, is_whole), "string"
    return {
        "payload_bytes": len(body),
        "redelivered": delivery.redelivered,
        "exchange": delivery.exchange,
        "routing_key": delivery.routing_key,
        "message_count": delivery.message_count,
        "properties": properties_row(delivery.properties),
        "payload": said,
        "payload_encoding": used,
    }
