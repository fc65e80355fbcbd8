"""How many tasks a batch is divided into, when nobody has said it; pure.

A task is one thread of Java and one Python worker, and neither can be faster than its core: a large
batch is cut into as many as there are cores. A small one is read by a single task, because another
costs more than it saves.
"""

from collections.abc import Sequence
from typing import Final

from penstock.spark.connector.common.share import share

ROWS_PER_TASK: Final = 100_000
"""What a task is worth starting for: it costs 25 to 40 ms, in which another one reads as many rows
as half of these, or fewer."""


def tasks_of(rows: Sequence[int], asked: int, cores: int) -> list[int]:
    """The tasks for each queue, of which those with rows get at least one.

    rows: what the batch has of each, 0...; asked: option minPartitions, which is then about their
    number, 0 for none; cores: for all tasks of the query, 1...
    """
    wanted = asked or min(cores, sum(rows) // ROWS_PER_TASK)
    filled = sum(count > 0 for count in rows)
    return share(max(wanted, filled), rows)
