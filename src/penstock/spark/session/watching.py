"""A job of Spark that is watched while it runs."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Final, TypeVar

T = TypeVar("T")
LOOK_S: Final = 0.25


def watched(context: Any, work: Callable[[], T], look: Callable[[], None]) -> T:
    """What `work` returns, which runs jobs of this SparkContext; `look` is called every LOOK_S
    meanwhile. Raises: what `work` raises; jobs are cancelled when this thread is interrupted."""
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(work)
        try:
            while not wait((found,), LOOK_S).done:
                look()
        except BaseException:
            context.cancelAllJobs()
            raise
        return found.result()


def tasks_done(context: Any) -> tuple[int, int]:
    """How many tasks of the stages that run now are done, and how many these stages have."""
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    there = [stage for stage in stages if stage is not None]
    return sum(one.numCompletedTasks for one in there), sum(one.numTasks for one in there)
