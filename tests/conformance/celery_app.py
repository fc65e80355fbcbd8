"""The Celery application that worker processes of `test_celery*` run; env names its broker.

CONFORMANCE_QUEUE_KIND says what its queue is: plain, priority (ten levels), or quorum on a topic
exchange, which makes Celery delay tasks in the broker instead of in the worker.
"""

import os
import time
from importlib import import_module
from typing import Any

from tests.patience import PATIENCE_S

# Celery does not describe its types.
celery: Any = import_module("celery")
kombu: Any = import_module("kombu")

QUEUE = os.environ["CONFORMANCE_QUEUE"]
QUEUE_ARGUMENTS: dict[str, dict[str, object]] = {
    "plain": {},
    "priority": {"x-max-priority": 10},
    "quorum": {"x-queue-type": "quorum"},
}
KIND = os.environ["CONFORMANCE_QUEUE_KIND"]
EXCHANGE_KIND = "topic" if KIND == "quorum" else "direct"

app: Any = celery.Celery(
    "conformance",
    broker=os.environ["CONFORMANCE_BROKER_URL"],
    backend=os.environ["CONFORMANCE_BACKEND_URL"],
)
app.conf.update(
    task_default_queue=QUEUE,
    task_default_exchange=QUEUE,
    task_default_exchange_type=EXCHANGE_KIND,
    task_default_routing_key=QUEUE,
    task_queues=[
        kombu.Queue(
            QUEUE,
            kombu.Exchange(QUEUE, type=EXCHANGE_KIND),
            routing_key=QUEUE,
            queue_arguments=QUEUE_ARGUMENTS[KIND],
        )
    ],
    worker_prefetch_multiplier=1,
    task_acks_late=True,
    broker_connection_retry_on_startup=True,
    broker_connection_timeout=PATIENCE_S,
    result_chord_join_timeout=PATIENCE_S,
    result_expires=600,
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


def stamp(nap_s: float) -> float:
    """Sleeps, and tells when it woke, in seconds since the epoch."""
    time.sleep(nap_s)
    return time.time()


def busy(path: str) -> float:
    """Works until the file at `path` is gone, and tells when that was, as `stamp` does."""
    end_s = time.monotonic() + PATIENCE_S
    while os.path.exists(path) and time.monotonic() < end_s:
        time.sleep(0.01)
    return time.time()


def late(self: Any, countdown: float) -> float:
    """Retries itself once after `countdown` seconds; how many seconds that took."""
    if self.request.retries == 0:
        raise self.retry(countdown=countdown, kwargs={"countdown": time.time()}, max_retries=1)
    return time.time() - countdown


def failing() -> None:
    """Always fails."""
    raise ValueError("on purpose")


add_task: Any = app.task(name="add", shared=False)(add)
total_task: Any = app.task(name="total", shared=False)(total)
stubborn_task: Any = app.task(name="stubborn", shared=False, bind=True)(stubborn)
failing_task: Any = app.task(name="failing", shared=False)(failing)
stamp_task: Any = app.task(name="stamp", shared=False)(stamp)
busy_task: Any = app.task(name="busy", shared=False)(busy)
late_task: Any = app.task(name="late", shared=False, bind=True)(late)
