"""Runs a Celery worker as a process of its own on the application `celery_app`."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module, reload
from pathlib import Path
from typing import Any

from tests.conformance.live import Broker
from tests.patience import PATIENCE_S

Stop = Callable[[Any, "subprocess.Popen[bytes]"], object]


def by_signal(_app: Any, process: subprocess.Popen[bytes]) -> None:
    """Stop a worker as a supervisor does."""
    process.send_signal(signal.SIGTERM)


def by_remote_control(app: Any, _process: subprocess.Popen[bytes]) -> None:
    """Stop a worker as an operator does, through the broker."""
    app.app.control.shutdown()


@dataclass(frozen=True, slots=True)
class Plan:
    """backend: URL of the results; threads: that work on tasks; queue_kind: see celery_app."""

    backend: str
    threads: int = 2
    queue_kind: str = "plain"


@contextmanager
def celery_worker(
    broker: Broker, folder: Path, plan: Plan, stop: Stop = by_signal
) -> Iterator[Any]:
    """The module `celery_app`, set up for `broker`, with one worker that has answered.

    Raises: AssertionError with the end of the worker's log if it does not answer, or does not
    exit with 0 when it is stopped at the end.
    """
    name = f"celery.{os.getpid()}.{folder.name}"
    os.environ["CONFORMANCE_BROKER_URL"] = broker.url
    os.environ["CONFORMANCE_QUEUE"] = name
    os.environ["CONFORMANCE_QUEUE_KIND"] = plan.queue_kind
    os.environ["CONFORMANCE_BACKEND_URL"] = plan.backend
    app = reload(import_module("tests.conformance.celery_app"))
    log = folder / "worker.txt"
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "celery", "--workdir", str(root)]
    command += ["-A", "tests.conformance.celery_app", "worker", "-n", f"{name}@localhost"]
    command += ["-P", "threads", "-c", str(plan.threads), "-E", "-l", "INFO"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=root, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        try:
            ready = app.add_task.delay(1, 1)
            try:
                assert ready.get(timeout=PATIENCE_S) == 2
            except Exception as error:
                raise AssertionError(log.read_text(errors="replace")[-4000:]) from error
            yield app
            stop(app, process)
            assert process.wait(PATIENCE_S) == 0, log.read_text(errors="replace")[-4000:]
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            app.app.control.purge()
            if plan.backend.startswith("rpc"):
                app.app.backend.result_consumer.stop()
            app.app.pool.force_close_all()
            app.app.close()
            import_module("kombu.pools").reset()
