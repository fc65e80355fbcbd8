"""The Celery application that worker processes of `test_celery` run; env names its broker."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

# Celery does not describe its types.
celery: Any = import_module("celery")

app: Any = celery.Celery(
    "conformance",
    broker=os.environ["CONFORMANCE_BROKER_URL"],
    backend=os.environ["CONFORMANCE_BACKEND_URL"],
)
app.conf.update(
    task_default_queue=os.environ["CONFORMANCE_QUEUE"],
    worker_prefetch_multiplier=1,
    task_acks_late=True,
    broker_connection_retry_on_startup=True,
    result_expires=60,
    worker_send_task_events=True,
    task_send_sent_event=True,
)


def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


def total(numbers: list[int]) -> int:
    """The sum of what a group or chord header returned."""
    return sum(numbers)


def stubborn(self: Any, until: int) -> int:
    """Fails with a retry until the given attempt; the number of retries it took."""
    if self.request.retries < until:
        raise self.retry(countdown=0.05, max_retries=until)
    retries: int = self.request.retries
    return retries


def failing() -> None:
    """Always fails."""
    raise ValueError("on purpose")


add_task: Any = app.task(name="add", shared=False)(add)
total_task: Any = app.task(name="total", shared=False)(total)
stubborn_task: Any = app.task(name="stubborn", shared=False, bind=True)(stubborn)
failing_task: Any = app.task(name="failing", shared=False)(failing)
