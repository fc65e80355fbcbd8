"""Whether a declaration says the same as the thing that is there, in RabbitMQ's words.

Source: RabbitMQ's rabbit_misc:assert_args_equivalence and assert_field_equivalence.
"""

from collections.abc import Mapping

from penstock.base.errors import ChannelFault
from penstock.protocol.integers import Timestamp
from penstock.protocol.values import Table


def check_field(
    kind: str,
    name: str,
    vhost: str,
    field: str,
    received: object,
    current: object,
    class_id: int,
) -> None:
    """Raise ChannelFault 406 unless `received` equals `current`."""
    if received != current:
        raise ChannelFault(
            406,
            f"inequivalent arg '{field}' for {kind} '{name}' in vhost '{vhost}': "
            f"received '{_plain(received)}' but current is '{_plain(current)}'",
            class_id,
            10,
        )


def check_arguments(
    kind: str,
    name: str,
    vhost: str,
    keys: tuple[str, ...],
    received: Table,
    current: Mapping[str, object],
    class_id: int,
) -> None:
    """Raise ChannelFault 406 for the first of `keys` that differs."""
    for key in keys:
        mine = received.get(key)
        theirs = current.get(key)
        if key in received and key in current:
            check_field(kind, name, vhost, key, mine, theirs, class_id)
            continue
        if key not in received and key not in current:
            continue
        raise ChannelFault(
            406,
            f"inequivalent arg '{key}' for {kind} '{name}' in vhost '{vhost}': received "
            f"{_described(key, received)} but current is {_described(key, current)}",
            class_id,
            10,
        )


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _described(key: str, table: Mapping[str, object]) -> str:
    if key not in table:
        return "none"
    value = table[key]
    return f"the value '{_plain(value)}' of type '{type_name(value)}'"


def type_name(value: object) -> str:
    """RabbitMQ's name for the type. The width of an integer is lost in decoding, so the smallest
    that holds it is named, which is the one aio-pika sends; others send 32 bits (adr/0008)."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, Timestamp):
        return "timestamp"
    if isinstance(value, int):
        for bits, name in ((8, "byte"), (16, "short"), (32, "signedint")):
            if -(1 << (bits - 1)) <= value < 1 << (bits - 1):
                return name
        return "long"
    if isinstance(value, float):
        return "float"
    if isinstance(value, str | bytes):
        return "longstr"
    if isinstance(value, bytearray):
        return "binary"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "table"
    return "void" if value is None else "decimal"
