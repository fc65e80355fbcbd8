"""What is shown of groups that lease messages: as consumers of their queue, and in words."""

from penstock.broker.lease.lease_actor import LeaseSink
from penstock.broker.lease.lease_manager import LeaseManager
from penstock.broker.queue.queue_actor import QueueActor
from penstock.explain.consumer_causes import LEASE_BYTES, LEASE_DONE, LEASE_NS
from penstock.queues.consumers import Consumer
from penstock.telemetry.actor_window import LEASE
from penstock.telemetry.words import duration


def note_lease(
    leases: LeaseManager,
    queue: QueueActor,
    consumer: Consumer,
    now_ns: int,
    numbers: dict[str, float],
    labels: dict[str, str],
) -> None:
    """Add to both who holds how much and for how long, if `consumer` is a lease's."""
    if not isinstance(consumer.sink, LeaseSink):
        return
    book = leases.book_of(queue)
    group = None if book is None else book.groups.get(consumer.tag)
    if group is None:
        return
    labels[LEASE] = group.query or f"group {group.name}"
    numbers[LEASE_DONE] = float(int(group.acked_to))
    numbers[LEASE_BYTES] = float(int(group.held_bytes))
    numbers[LEASE_NS] = float(max(0, now_ns - int(group.held_since_ns())))


def leases_in_words(leases: LeaseManager, queue: QueueActor) -> dict[str, str]:
    """Each group of `queue`, the number it is done up to, and what it holds since when; nothing
    for queues without."""
    book = leases.book_of(queue)
    if book is None or not book.groups:
        return {}
    now_ns = queue.line.clock.monotonic_ns()
    said = []
    for name, group in sorted(book.groups.items()):
        who = f"{group.query}, group {name}:" if group.query else name
        words = f"{who} done to {int(group.acked_to)}, holds {int(group.held_count)}"
        if group.held_count > 0:
            words += f" for {duration(max(0, now_ns - int(group.held_since_ns())))}"
        said.append(words)
    return {"leases": "; ".join(said)}
