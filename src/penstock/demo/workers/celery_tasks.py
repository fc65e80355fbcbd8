"""The Celery application of the run: one task that notes when it was carried out."""

from collections.abc import Callable
from typing import Any

from celery import Celery

from penstock.demo.scenario import QUEUE_TASKS

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
