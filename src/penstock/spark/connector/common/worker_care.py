"""Spares a reused Python worker of Spark most of the garbage collection after every task.

Spark's worker collects garbage when a task is done, among all objects that pyspark, numpy, pandas
and pyarrow consist of; that takes longer than reading a small batch, and finds nothing. What is
there when a worker gets its first tasks is put out of the collector's sight, for good. Twice,
because much of it comes with the first array of the first task: pyarrow imports pandas for it.
"""

import gc
import os
from typing import Final

from pyspark import TaskContext

TIMES: Final = 2
_spared: dict[int, int] = {}


def spare_worker() -> bool:
    """In the first two tasks of each worker process; elsewhere, and in later ones, nothing. Whether
    it was done."""
    process = os.getpid()
    done = _spared.get(process, 0)
    if done == TIMES or TaskContext.get() is None:
        return False
    # The pid of the process that this one was forked from is of no use.
    _spared.clear()
    _spared[process] = done + 1
    gc.collect()
    gc.freeze()
    return True
