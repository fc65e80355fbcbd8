"""The seeded picker: which actor goes next, with which budget, and where a run is cut off."""

from penstock.broker.actor import Actor
from penstock.broker.scheduler import Picker
from penstock.simulation.dice import Dice


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
        self.budget_max = 1 << 30

    def can_pick(self, ready: list[Actor]) -> bool:
        """Whether anybody who may run is ready."""
        return any(actor.identity not in self.parked for actor in ready)

    def pick(self, ready: list[Actor]) -> int:
        self.watcher.between_turns()
        if self.turns_left <= 0:
            return -1
        self.turns_left -= 1
        free = [at for at, actor in enumerate(ready) if actor.identity not in self.parked]
        return self.dice.one_of(free) if free else -1

    def budget(self, budget: int) -> int:
        return self.dice.skewed(min(budget, self.budget_max))
