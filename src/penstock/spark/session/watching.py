"""Jobs and queries of Spark that are watched while they run, and queries that are ended."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Final, TypeVar

T = TypeVar("T")
LOOK_S: Final = 0.25
BOUNDARY_S: Final = 10.0
BOUNDARY_LOOK_S: Final = 0.005


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


def end_queries(session: Any, seconds: float = BOUNDARY_S) -> None:
    """Stop all streaming queries of `session`, each between two of its batches; one whose batch
    takes longer is stopped in it when `seconds` (0..) have passed, which are for all of them.

    Spark cancels the tasks of a batch that runs, and their Python workers then write into sockets
    that nobody reads: BrokenPipeError. A context that is stopped under a batch may break off what
    it tells PySpark's server of accumulators: EOFError.
    """
    end_s = time.monotonic() + seconds
    for query in session.streams.active:
        before = _last_batch(query)
        while query.status["isTriggerActive"] and time.monotonic() < end_s:
            if _last_batch(query) != before:
                break
            time.sleep(BOUNDARY_LOOK_S)
        query.stop()


def _last_batch(query: Any) -> int:
    """The number of the last batch that ended, -1 for none."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])
