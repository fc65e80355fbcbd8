"""The Celery application of the run, and a worker for `tasks`.

It is ended as an operator ends one, by SIGTERM, which Celery answers in the thread that reads its
connection. `Worker.stop` from another thread has both read the same socket: now and then both wait
for ever, and what was acknowledged last may not have been sent.
"""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from celery import Celery

from penstock.demo.scenario import QUEUE_TASKS, STATUS_SECONDS
from penstock.demo.workers.part import Trace, Worker, call_when_input_ends, play

TASK_NAME = "penstock.demo.greet"


def make_app(url: str) -> Any:
    """An application as a user would write it, with confirms for what it sends."""
    app = Celery("penstock-demo", broker=url)
    app.conf.update(
        task_default_queue=QUEUE_TASKS,
        task_ignore_result=True,
        broker_transport_options={"confirm_publish": True},
        broker_connection_retry_on_startup=True,
        worker_redirect_stdouts=False,
        worker_hijack_root_logger=False,
    )
    return app


def add_task(app: Any, done: Callable[[str], None]) -> None:
    """Register the task; `done` gets the id of each task that was carried out."""

    def greet(self: Any, name: str) -> None:
        done(self.request.id)

    app.task(name=TASK_NAME, bind=True)(greet)


def work(part: Worker, trace: Trace) -> None:
    """Carry out tasks until the run closes this worker's input."""
    app = make_app(part.plan.url)

    def done(task_id: str) -> None:
        trace.note(task_id, "delivered", QUEUE_TASKS)
        # A worker that had to be killed would take with it what it has carried out.
        trace.flush()
        part.count("delivered")

    add_task(app, done)
    worker: Any = app.Worker(
        pool="solo",
        concurrency=1,
        loglevel="WARNING",
        hostname=f"{part.name}@localhost",
        queues=QUEUE_TASKS,
    )
    ended = threading.Event()
    watching = threading.Thread(target=call_when_input_ends, args=(ended,), daemon=True)
    watching.start()
    reporting = threading.Thread(target=_report, args=(part, worker, ended), daemon=True)
    reporting.start()
    worker.start()
    part.report()


def _report(part: Worker, worker: Any, ended: threading.Event) -> None:
    """Ready once the consumer is connected; Celery's warm shutdown when the run says so."""
    is_ready = False
    while not ended.wait(STATUS_SECONDS / 5 if not is_ready else STATUS_SECONDS):
        consumer = getattr(worker, "consumer", None)
        is_ready = is_ready or getattr(consumer, "task_consumer", None) is not None
        if is_ready:
            part.report()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    play(work)
