"""A worker's objects are put out of the garbage collector's sight, once a process."""

import gc
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

from penstock.spark.connector.common.reader import spare_worker

# In a process of its own: what is frozen stays so.
IN_A_TASK = """
import gc, os
from pyspark import TaskContext
from penstock.spark.connector.common.reader import spare_worker
TaskContext._getOrCreate()
print(spare_worker(), gc.get_freeze_count() > 1000, flush=True)
frozen = gc.get_freeze_count()
imported = [[] for _ in range(1000)]
print(spare_worker(), gc.get_freeze_count() >= frozen + 1000, spare_worker(), flush=True)
if os.fork() == 0:
    print(spare_worker(), spare_worker(), spare_worker(), flush=True)
    os._exit(0)
os.wait()
"""


def test_outside_of_a_task_nothing_happens() -> None:
    frozen = gc.get_freeze_count()
    assert not spare_worker()
    assert gc.get_freeze_count() == frozen


def test_the_first_two_tasks_of_each_process_do_it() -> None:
    run = subprocess.run(
        [sys.executable, "-c", IN_A_TASK], capture_output=True, text=True, timeout=200
    )
    first, second, forked, *_ = run.stdout.split("\n")
    assert (first, second, forked) == ("True True", "True True False", "True True False"), (
        run.stderr
    )
