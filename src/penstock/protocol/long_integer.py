"""The 64-bit integer of a field table: an int that remembers its wire type.

A file of its own because compiled classes cannot derive from int.
"""


class LongInteger(int):
    """-2**63..2**63-1, written as `l` however small it is, because clients with typed numbers read
    it as one of 64 bits. Equal to, and usable as, the plain int."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"LongInteger({int(self)})"
