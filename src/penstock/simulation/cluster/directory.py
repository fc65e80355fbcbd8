"""A data directory of 64 cells, with what is safe on its disk and what a loss of power may take."""

import struct
from typing import Final

from penstock.simulation.machine.dice import Dice

CELLS: Final = 64

Write = tuple[int, int]
"""Cell and value, 0 to remove it."""

_write = struct.Struct(">HQ")


def pack(writes: list[Write]) -> bytes:
    """The payload of an entry."""
    return b"".join(_write.pack(cell, value) for cell, value in writes)


def unpack(payload: bytes) -> list[Write]:
    return list(_write.iter_unpack(payload))


class SimDirectory:
    """cells: what a process reads. digest: of them all, changed with each write."""

    def __init__(self) -> None:
        self.cells: dict[int, int] = {}
        self.digest = 0
        self._safe: dict[int, int] = {}
        self._unsafe: list[Write] = []

    def write(self, writes: list[Write]) -> None:
        """Write cells; they are safe after the next sync."""
        for cell, value in writes:
            self._put(cell, value)
        self._unsafe += writes

    @property
    def written(self) -> int:
        """How many writes a sync that begins now makes safe."""
        return len(self._unsafe)

    def sync(self, count: int) -> None:
        """The first `count` of the writes that are not safe are."""
        for cell, value in self._unsafe[:count]:
            _set(self._safe, cell, value)
        del self._unsafe[:count]

    def lose_power(self, dice: Dice) -> None:
        """Of what is not safe any part may be there."""
        share = dice.one_of((0, 30, 70, 100))
        kept = [one for one in self._unsafe if dice.happens(share)]
        self.cells = dict(self._safe)
        for cell, value in kept:
            _set(self.cells, cell, value)
        self._safe = dict(self.cells)
        self._unsafe.clear()
        self.digest = digest_of(self.cells)

    def _put(self, cell: int, value: int) -> None:
        before = self.cells.get(cell, 0)
        self.digest ^= _mix(cell, before) ^ _mix(cell, value)
        _set(self.cells, cell, value)


def digest_of(cells: dict[int, int]) -> int:
    found = 0
    for cell, value in cells.items():
        found ^= _mix(cell, value)
    return found


def _set(cells: dict[int, int], cell: int, value: int) -> None:
    if value:
        cells[cell] = value
    else:
        cells.pop(cell, None)


def _mix(cell: int, value: int) -> int:
    """A hash of 64 bits; of an empty cell 0."""
    if value == 0:
        return 0
    mixed = (value * 64 + cell) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
    return mixed ^ mixed >> 31
