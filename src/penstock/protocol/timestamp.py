"""The POSIX timestamp of a field table: an int that remembers its wire type.

A file of its own because compiled classes cannot derive from int.
"""


class Timestamp(int):
    """Seconds since 1970-01-01 UTC, 0..2**64-1. Equal to, and usable as, the plain int."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Timestamp({int(self)})"
