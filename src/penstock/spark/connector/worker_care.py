"""Spares a reused Python worker of Spark most of the garbage collection after every task.

Spark's worker collects garbage when a task is done, among all objects that pyspark, numpy and
pyarrow consist of; that takes longer than reading a small batch, and finds nothing. What is there
when a worker gets its first task is put out of the collector's sight, once and for good.
"""

import gc
import os

from pyspark import TaskContext

_spared: set[int] = set()


def spare_worker() -> bool:
    """Once in each worker process, by its first task; elsewhere, and again, nothing. Whether it
    was done."""
    process = os.getpid()
    if process in _spared or TaskContext.get() is None:
        return False
    # The pid of the process that this one was forked from is of no use.
    _spared.clear()
    _spared.add(process)
    gc.collect()
    gc.freeze()
    return True
