"""One text for each AMQP table value, the same for equal values only. COMPILED.

Python says `1 == 1.0 == True` and gives NaN no equal; AMQP tells the first three apart, and a
binding with NaN must be found again. Every value is written with a tag and, where its text could
run into the next, with its length, so no two different values share a text:

    void n    true t    false f    int i<digits>;    float d<repr>;    text s<length>:<text>
    list l<count>:<values>    table m<count>:<name, value in order of the names>
    any other type o<length>:<type name><repr>

Long strings that are not UTF-8 arrive as `bytes`, byte arrays as `bytearray`. RabbitMQ compares all
of them as binaries, so text and bytes of the same octets are equal here. Integers are equal
whatever their width was on the wire; a timestamp is not the integer of the same number.
"""

from collections.abc import Mapping


def canonical(table: Mapping[str, object] | None) -> str:
    """The text of a whole argument table; the same ("") for an empty and an absent one."""
    if not table:
        return ""
    parts: list[str] = []
    _write_table(table, parts)
    return "".join(parts)


def canonical_value(value: object) -> str:
    """The text of one table value. Nesting is bounded by the decoder (`table_depth_max`)."""
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts)


def is_same_value(left: object, right: object) -> bool:
    """True if two table values are equal in AMQP's sense; the common scalars need no text."""
    kind = type(left)
    if kind is type(right) and (kind is str or kind is int or kind is bool):
        return left == right
    return canonical_value(left) == canonical_value(right)


def _write(value: object, parts: list[str]) -> None:
    kind = type(value)
    if value is None:
        parts.append("n")
    elif isinstance(value, bool):
        parts.append("t" if value else "f")
    elif kind is int:
        parts.append(f"i{value};")
    elif isinstance(value, float):
        parts.append(f"d{value!r};")
    elif isinstance(value, str):
        _write_text(value, parts)
    elif isinstance(value, (bytes, bytearray)):
        _write_text(value.decode("utf-8", "surrogateescape"), parts)
    elif isinstance(value, (list, tuple)):
        parts.append(f"l{len(value)}:")
        for item in value:
            _write(item, parts)
    elif isinstance(value, dict):
        _write_table(value, parts)
    else:
        text = kind.__name__ + repr(value)
        parts.append(f"o{len(text)}:{text}")


def _write_text(text: str, parts: list[str]) -> None:
    parts.append(f"s{len(text)}:{text}")


def _write_table(table: Mapping[str, object], parts: list[str]) -> None:
    parts.append(f"m{len(table)}:")
    for name in sorted(table):
        _write_text(name, parts)
        _write(table[name], parts)
