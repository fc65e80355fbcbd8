"""Chance from a seed: one number replays a whole run, on every machine and build.

The generator is SplitMix64 (Steele, Lea and Flood, 2014): 64 bits of state, one multiplication
chain a draw. The standard library's generator is not used, because a pure room has no chance of
its own and because its derived draws may change between versions of Python.

`SeededPicker` chooses which actor goes next, with which budget, and where a run is cut off. In most
runs some actors are slow: they are passed over most of the time and do one or two messages a turn,
so that mailboxes fill and flow control has something to do.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar
from zlib import crc32

from penstock.base.chance import Chance
from penstock.broker.actors.actor import Actor, Picker

T = TypeVar("T")

_MASK = (1 << 64) - 1
PASSED_OVER_PERCENT = 75


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


class SeededPicker(Picker):
    """between_turns: called before every turn; parked: identities that are given no turn;
    turns_left: turns until the run is cut off."""

    def __init__(self, dice: Dice, between_turns: Callable[[], None]) -> None:
        self.dice = dice
        self.between_turns = between_turns
        self.parked: set[str] = set()
        self.turns_left = 0
        self._slow_percent = dice.one_of((0, 20, 50))
        self._slow_salt = dice.below(1 << 32)
        self._is_slow = False

    def can_pick(self, ready: list[Actor]) -> bool:
        """Whether anybody who may run is ready."""
        return any(actor.identity not in self.parked for actor in ready)

    def pick(self, ready: list[Actor]) -> int:
        self.between_turns()
        if self.turns_left <= 0:
            return -1
        self.turns_left -= 1
        free = [at for at, actor in enumerate(ready) if actor.identity not in self.parked]
        if not free:
            return -1
        index = self.dice.one_of(free)
        self._is_slow = self.is_slow(ready[index].identity)
        if self._is_slow and self.dice.happens(PASSED_OVER_PERCENT):
            return -1
        return index

    def budget(self, budget: int) -> int:
        return self.dice.between(1, 2) if self._is_slow else self.dice.skewed(budget)

    def is_slow(self, identity: str) -> bool:
        """Whether `identity` is a slow one in this run."""
        return (crc32(identity.encode()) ^ self._slow_salt) % 100 < self._slow_percent
