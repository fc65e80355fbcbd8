"""When streaming queries are ended: between two batches, or when the time for that is over."""

from typing import Any

from penstock.spark.session import watching


class Query:
    """A query whose batch `ends` after so many looks at it, None for never."""

    def __init__(self, ends: int | None, is_idle: bool = False) -> None:
        self._left = ends
        self._is_idle = is_idle
        self.looks = 0
        self.is_stopped = False

    @property
    def status(self) -> dict[str, Any]:
        return {"isTriggerActive": not self._is_idle}

    @property
    def lastProgress(self) -> dict[str, Any] | None:
        self.looks += 1
        return None if self._left is None or self.looks <= self._left else {"batchId": 0}

    def stop(self) -> None:
        self.is_stopped = True


class Session:
    """With these queries."""

    def __init__(self, *queries: Query) -> None:
        self.streams = self
        self.active = queries


def test_a_batch_that_runs_ends_before_its_query_is_stopped() -> None:
    query = Query(ends=4)
    watching.end_queries(Session(query), seconds=60.0)
    assert query.is_stopped
    assert query.looks == 5


def test_a_query_that_waits_for_rows_is_stopped_at_once() -> None:
    query = Query(ends=None, is_idle=True)
    watching.end_queries(Session(query), seconds=60.0)
    assert query.is_stopped
    assert query.looks == 1


def test_a_batch_without_end_is_waited_for_until_the_time_is_over() -> None:
    first, second = Query(ends=None), Query(ends=None)
    watching.end_queries(Session(first, second), seconds=0.05)
    assert first.is_stopped and second.is_stopped
    assert first.looks > 2
    # The time is for both of them.
    assert second.looks <= 2
