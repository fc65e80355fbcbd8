"""Reading exported definitions: every value checked, every fault with the place where it stands.

A place is written as JSON tools do: `queues[3].arguments`. What RabbitMQ's own exports contain is
read even where it is odd: lists of pairs for objects, "" or a list for tags, [] for no arguments.
"""

from collections.abc import Iterator
from typing import TypeAlias, cast

from penstock.base.errors import OperatorError
from penstock.protocol.values import Table, encode_table

Row: TypeAlias = dict[str, object]

NAME_BYTES_MAX = 255


def fault(place: str, text: str) -> OperatorError:
    """What is wrong at `place`; nothing has been changed when this is raised."""
    return OperatorError(f"definitions: {place}: {text}; nothing was imported")


def rows_of(definitions: Row, key: str) -> Iterator[tuple[str, Row]]:
    """Each object of the list `key`, with its place; none if there is no such list."""
    found = definitions.get(key, [])
    if not isinstance(found, list):
        raise fault(key, f"must be a list, not {shown(found)}")
    for number, row in enumerate(found):
        place = f"{key}[{number}]"
        if not isinstance(row, dict):
            raise fault(place, f"must be an object, not {shown(row)}")
        yield place, row


def text_at(place: str, row: Row, key: str, default: str | None = None) -> str:
    """The text `key` of `row`; without a default it has to be there."""
    value = row.get(key, default)
    if not isinstance(value, str):
        wrong = "is missing" if value is None else f"must be a string, not {shown(value)}"
        raise fault(f"{place}.{key}", wrong)
    return value


def name_at(place: str, row: Row, key: str, default: str | None = None) -> str:
    """A name that fits into a frame: 0..255 bytes."""
    name = text_at(place, row, key, default)
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > NAME_BYTES_MAX:
        raise fault(f"{place}.{key}", f"is {size} bytes long, and may be {NAME_BYTES_MAX}")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise fault(f"{place}.{key}", "is not valid Unicode") from error
    return name


def flag_at(place: str, row: Row, key: str, default: bool) -> bool:
    value = row.get(key, default)
    if not isinstance(value, bool):
        raise fault(f"{place}.{key}", f"must be true or false, not {shown(value)}")
    return value


def object_at(place: str, row: Row, key: str) -> Row:
    """An object, or a list of pairs, which is how RabbitMQ 3.10 writes some."""
    value = row.get(key, {})
    if isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in value
    ):
        value = {pair[0]: pair[1] for pair in value}
    if not isinstance(value, dict):
        raise fault(f"{place}.{key}", f"must be an object, not {shown(value)}")
    return value


def arguments_at(place: str, row: Row) -> Table:
    """Arguments of a queue, an exchange or a binding, as a client would send them."""
    arguments = cast(Table, object_at(place, row, "arguments"))
    try:
        encode_table(arguments)
    except (ValueError, UnicodeEncodeError) as error:
        raise fault(f"{place}.arguments", str(error)) from error
    return arguments


def tags_at(place: str, row: Row) -> tuple[str, ...]:
    """Text with commas, as before RabbitMQ 3.9, or a list of texts."""
    tags = row.get("tags", "")
    if isinstance(tags, str):
        tags = [one.strip() for one in tags.split(",") if one.strip()]
    if not isinstance(tags, list) or not all(isinstance(one, str) and one for one in tags):
        raise fault(f"{place}.tags", f"must be a string or a list of strings, not {shown(tags)}")
    if any("," in one for one in tags):
        raise fault(f"{place}.tags", "a tag has a comma in it")
    return tuple(tags)


def shown(value: object) -> str:
    """A value for a message: never long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
