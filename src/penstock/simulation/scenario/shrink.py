"""Makes a failing random world smaller: parts are left out as long as it goes on failing.

Halves of what is left are tried first, then quarters, and so on down to single parts. Any failure
counts: what matters is the smallest world in which something is wrong.
"""

from collections.abc import Callable

from penstock.simulation.machine.faults import SimulationFailed
from penstock.simulation.scenario.plan import drawn

RUNS_MAX = 200
Fails = Callable[[frozenset[int]], SimulationFailed | None]
"""Runs the world without some parts: the failure, None if there is none."""


def smallest(
    numbers: list[int], failure: SimulationFailed, fails: Fails, runs_max: int = RUNS_MAX
) -> tuple[frozenset[int], SimulationFailed]:
    """Which of `numbers` can be left out together, and the failure without them.

    numbers: of all parts; failure: with all of them; at most `runs_max` runs."""
    out: frozenset[int] = frozenset()
    size = max(1, len(numbers) // 2)
    runs = 0
    while size >= 1:
        has_shrunk = False
        left = [number for number in numbers if number not in out]
        for at in range(0, len(left), size):
            if runs >= runs_max:
                return out, failure
            runs += 1
            candidate = out | set(left[at : at + size])
            found = fails(candidate)
            if found is not None:
                out, failure, has_shrunk = candidate, found, True
        if not has_shrunk or size > len(left):
            size //= 2
    return out, failure


def described(seed: int, failure: SimulationFailed, out: frozenset[int]) -> str:
    """The failure in its smallest world: what is left of the plan, and how to replay it."""
    return f"the smallest world that fails:\n{drawn(seed).without(out).text()}\n{failure}"


def shrunk(failure: SimulationFailed, fails: Fails) -> str:
    """Shrink the random world of `failure` and describe what is left."""
    numbers = drawn(failure.seed).numbers()
    out, smaller = smallest(numbers, failure, fails)
    return described(failure.seed, smaller, out)
