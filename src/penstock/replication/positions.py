"""Places in the replicated log, and what lies there."""

from typing import Final

from msgspec import Struct


class Position(Struct, frozen=True, order=True, array_like=True):
    """Epoch and number of an entry. Ordered: that of a later epoch is behind every earlier one.

    epoch: of the leader that made the entry, 0.. ; seq: counts on over epochs, 0.. .
    """

    epoch: int
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}/{self.seq}"


NOWHERE: Final = Position(0, 0)
"""Before the first entry."""


class Entry(Struct, frozen=True, array_like=True):
    """One entry. payload: operations on the data directory, or nothing in an epoch's first one;
    publishes: that are in the log with it as a whole, see `seen`."""

    epoch: int
    seq: int
    payload: bytes
    publishes: bytes = b""

    @property
    def position(self) -> Position:
        return Position(self.epoch, self.seq)
