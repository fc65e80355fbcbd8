"""Snapshot of one queue's dead letters on their way: what waits for a place, and who has it."""

from collections.abc import Iterator

from penstock.broker.admin.view_queues import blocked, times
from penstock.broker.dead_letter.dead_letters import dead_letters_of
from penstock.broker.queue.queue_actor import QueueActor
from penstock.explain.dead_letter_causes import KIND, WARNED
from penstock.telemetry.actor_window import BACKLOG_BYTES
from penstock.telemetry.snapshots import ActorSnapshot


def letters_snapshot(queue: QueueActor) -> Iterator[ActorSnapshot]:
    """One for a queue whose letters have ever waited, none for others."""
    letters = dead_letters_of(queue)
    if letters is None:
        return
    worker = letters.worker
    now_ns = queue.line.clock.monotonic_ns()
    held = blocked(worker, now_ns)
    if held.stops == 0:
        return
    labels = {"queue": queue.identity, "vhost": queue.vhost}
    if letters.warned:
        labels[WARNED] = letters.warned
    yield ActorSnapshot(
        worker.identity,
        KIND,
        "flow" if held.since_ns is not None else "running",
        started_ns=worker.time.start_ns,
        times=times(worker.time.totals(now_ns)),
        blocked=held,
        numbers={
            "ready": float(len(letters.late)),
            "unacked": float(int(letters.count)),
            BACKLOG_BYTES: float(int(letters.held_bytes)),
        },
        labels=labels,
        taken_ns=now_ns,
    )
