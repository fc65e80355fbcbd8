"""Answers to the control socket's questions for all workers of a node, by asking them.

gather_table says how each question is answered; the ways are in the other files of this name.
"""

from collections.abc import Mapping

from penstock.server.control.questions import CHANGES, DEFAULTS
from penstock.server.workers.gather_table import WAYS
from penstock.server.workers.gather_ways import (
    Answer,
    Everybody,
    First,
    Places,
    Way,
    Workers,
)


class Gather:
    """workers: to be asked; places: who has which virtual host."""

    def __init__(self, workers: Workers, places: Places) -> None:
        self.everybody = Everybody(workers, places)

    async def answer(self, fields: Mapping[str, object]) -> Answer:
        """Raises: OperatorError, with the words of the worker that refuses, or with the number of
        one that does not answer."""
        return await _way(fields).answer(self.everybody, fields)

    async def make_equal(self, worker: int) -> int:
        """Users and their limits at a worker that has started, to those of worker 0; a change of
        them meanwhile waits. How many were not. Raises: OperatorError."""
        async with self.everybody.changing:
            return await self.everybody.make_equal(worker)

    def is_change(self, fields: Mapping[str, object]) -> bool:
        """Whether what is asked changes something."""
        return str(fields.get("do", "")) in CHANGES


def _way(fields: Mapping[str, object]) -> Way:
    op = str(fields.get("op"))
    do = fields.get("do", DEFAULTS.get(op, ""))
    return WAYS.get(op) or WAYS.get(f"{op} {do}") or First()
