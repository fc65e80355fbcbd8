"""The seeded picker: which actor goes next, with which budget, and where a run is cut off.

In most runs some actors are slow: they are passed over most of the time and do one or two messages
a turn. That is how mailboxes fill, which is where flow control has something to do.
"""

from zlib import crc32

from penstock.broker.actors.actor import Actor, Picker
from penstock.simulation.machine.dice import Dice

PASSED_OVER_PERCENT = 75


class TurnWatcher:
    """Who looks at the broker between two turns. Nominal base."""

    def between_turns(self) -> None:
        """One turn is over, or none has begun."""


class SeededPicker(Picker):
    """parked: identities that are given no turn; turns_left: turns until the run is cut off."""

    def __init__(self, dice: Dice, watcher: TurnWatcher) -> None:
        self.dice = dice
        self.watcher = watcher
        self.parked: set[str] = set()
        self.turns_left = 0
        self._slow_percent = dice.one_of((0, 20, 50))
        self._slow_salt = dice.below(1 << 32)
        self._is_slow = False

    def can_pick(self, ready: list[Actor]) -> bool:
        """Whether anybody who may run is ready."""
        return any(actor.identity not in self.parked for actor in ready)

    def pick(self, ready: list[Actor]) -> int:
        self.watcher.between_turns()
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
