"""Sends Celery tasks at the rate of the phase, waiting for the confirm of each."""

import time
import uuid
from random import Random

from penstock.demo.scenario import QUEUE_TASKS
from penstock.demo.workers.celery_worker import TASK_NAME, make_app
from penstock.demo.workers.part import (
    Trace,
    Worker,
    input_ended,
    play,
    seconds_until,
)


def send(part: Worker, trace: Trace) -> None:
    """Send through all phases."""
    app = make_app(part.plan.url)
    chance = Random(part.plan.seed)
    with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
        part.report()
        if not part.wait_for_go():
            return
        time.sleep(seconds_until(part.start_ns))
        while not input_ended():
            started_ns = time.monotonic_ns()
            phase = part.phase_at(started_ns)
            if phase is None:
                break
            task_id = str(uuid.UUID(int=chance.getrandbits(128), version=4))
            trace.note(task_id, "published", QUEUE_TASKS, phase.name)
            part.count("published")
            app.send_task(TASK_NAME, ("world",), task_id=task_id, producer=producer)
            trace.note(task_id, "confirmed", QUEUE_TASKS)
            part.count("confirmed")
            part.report()
            time.sleep(seconds_until(started_ns + int(1e9 / phase.task_rate)))


if __name__ == "__main__":
    play(send)
