"""Chance from a seed: one number replays a whole run, on every machine and build.

The generator is SplitMix64 (Steele, Lea and Flood, 2014): 64 bits of state, one multiplication
chain a draw. The standard library's generator is not used, because a pure room has no chance of
its own and because its derived draws may change between versions of Python.
"""

from collections.abc import Sequence
from typing import TypeVar

from penstock.base.chance import Chance

T = TypeVar("T")

_MASK = (1 << 64) - 1


class Dice(Chance):
    """Draws from `seed`, 0..2**64-1."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def bits(self) -> int:
        """64 bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def token(self, size: int) -> bytes:
        drawn = b"".join(self.bits().to_bytes(8, "big") for _ in range(size // 8 + 1))
        return drawn[:size]

    def below(self, count: int) -> int:
        """A number 0..count-1; `count` 1.. ."""
        return self.bits() % count

    def between(self, lowest: int, highest: int) -> int:
        """A number lowest..highest, both included."""
        return lowest + self.below(highest - lowest + 1)

    def happens(self, percent: int) -> bool:
        """True in `percent` of 100 draws."""
        return self.below(100) < percent

    def one_of(self, items: Sequence[T]) -> T:
        """One of `items`, which has at least one."""
        return items[self.below(len(items))]

    def skewed(self, highest: int) -> int:
        """A number 1..highest, small ones far more often: the edges are where bugs live."""
        return self.between(1, max(1, highest >> self.below(max(1, highest.bit_length()))))
