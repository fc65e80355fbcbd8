"""What every method class states about itself: ids, name, and its fields on the wire."""

from typing import ClassVar, Literal, TypeAlias

WireType: TypeAlias = Literal[
    "octet", "short", "long", "longlong", "bit", "shortstr", "longstr", "table", "timestamp"
]
Fields: TypeAlias = tuple[tuple[str, WireType], ...]


class Method:
    """One AMQP method. Nominal base; subclasses are dataclasses of the fields that mean something.

    CLASS_ID, METHOD_ID: 1..65535. NAME: as the specification spells it, such as `queue.bind-ok`.
    FIELDS: name and wire type of everything on the wire, in order. Fields called `reserved_…` are
    written as zero or empty, skipped when read, and are no attributes; the others are attributes
    of the same names in the same order. A longstr is bytes, a shortstr is str, a bit is bool.
    """

    __slots__ = ()

    CLASS_ID: ClassVar[int] = 0
    METHOD_ID: ClassVar[int] = 0
    NAME: ClassVar[str] = ""
    FIELDS: ClassVar[Fields] = ()
