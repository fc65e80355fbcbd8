"""The integers of field tables that remember their wire types.

A file of their own because compiled classes cannot derive from int.
"""


class Timestamp(int):
    """Seconds since 1970-01-01 UTC, 0..2**64-1. Equal to, and usable as, the plain int."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Timestamp({int(self)})"


class LongInteger(int):
    """-2**63..2**63-1, written as `l` however small it is, because clients with typed numbers read
    it as one of 64 bits. Equal to, and usable as, the plain int."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"LongInteger({int(self)})"
