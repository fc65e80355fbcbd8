"""What a method is: its ids, its name, and its fields with their types on the wire."""

import re
from collections.abc import Callable
from typing import Annotated, ClassVar, Literal, TypeAlias, TypeVar, get_args

import msgspec

from penstock.protocol.values import Table

WireType: TypeAlias = Literal[
    "octet", "short", "long", "longlong", "bit", "shortstr", "longstr", "table"
]

Octet: TypeAlias = Annotated[int, "octet"]
Short: TypeAlias = Annotated[int, "short"]
Long: TypeAlias = Annotated[int, "long"]
LongLong: TypeAlias = Annotated[int, "longlong"]
Bit: TypeAlias = Annotated[bool, "bit"]
ShortStr: TypeAlias = Annotated[str, "shortstr"]
LongStr: TypeAlias = Annotated[bytes, "longstr"]
Secret: TypeAlias = Annotated[bytes, "longstr", "secret"]
"""A longstr that `repr` leaves out."""
FieldTable: TypeAlias = Annotated[Table, "table"]


class Method(msgspec.Struct):
    """One AMQP method. A subclass lists its fields in the order of the wire, below `@method`.

    A longstr is bytes, a shortstr is str, a bit is bool. A field called `reserved_…` is a
    ClassVar: written as its value, which is zero or empty, skipped when read, and no argument.

    CLASS_ID, METHOD_ID: 1..65535.
    IDS: both as they begin a payload, 4 bytes.
    NAME: as the specification spells it, such as `queue.bind-ok`.
    FIELDS: name and wire type of everything on the wire, in order.
    RESERVED: positions in FIELDS of reserved fields, the last one first.
    SECRETS: names of the fields that `repr` leaves out.
    """

    CLASS_ID: ClassVar[int]
    METHOD_ID: ClassVar[int]
    IDS: ClassVar[bytes]
    NAME: ClassVar[str]
    FIELDS: ClassVar[tuple[tuple[str, WireType], ...]]
    RESERVED: ClassVar[tuple[int, ...]]
    SECRETS: ClassVar[frozenset[str]]

    def __repr__(self) -> str:
        shown = [name for name in self.__struct_fields__ if name not in self.SECRETS]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{type(self).__name__}({values})"


_Row = TypeVar("_Row", bound=type[Method])


def method(class_id: int, method_id: int) -> Callable[[_Row], _Row]:
    """Completes a row of the table: the ids are given here, the rest follows from its class."""

    def complete(row: _Row) -> _Row:
        class_name, *words = re.findall("[A-Z][a-z]*", row.__name__)
        kinds: dict[str, object] = row.__annotations__
        names = tuple(kinds)
        reserved = [name for name in names if name.startswith("reserved_")]
        marks = [get_args(get_args(kinds[n])[0] if n in reserved else kinds[n]) for n in names]
        row.CLASS_ID, row.METHOD_ID = class_id, method_id
        row.IDS = class_id.to_bytes(2, "big") + method_id.to_bytes(2, "big")
        row.NAME = f"{class_name}.{'-'.join(words)}".lower()
        row.FIELDS = tuple((name, mark[1]) for name, mark in zip(names, marks, strict=True))
        row.RESERVED = tuple(names.index(name) for name in reversed(reserved))
        row.SECRETS = frozenset(n for n, mark in zip(names, marks, strict=True) if "secret" in mark)
        return row

    return complete
