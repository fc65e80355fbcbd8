"""One bound, as the table of limits has it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound. `unit`: what is counted; `at_bound`: the one thing that happens there."""

    name: str
    unit: str
    default: int
    lowest: int
    highest: int
    owner: str
    at_bound: str
