"""What is shown of a group that leases messages, as one of the consumers of its queue."""

from penstock.broker.lease_actor import LeaseSink
from penstock.broker.lease_desk import LeaseDesk
from penstock.broker.queue_actor import QueueActor
from penstock.queues.consumers import Consumer
from penstock.telemetry.leasing import LEASE, LEASE_BYTES, LEASE_NS
from penstock.telemetry.snapshots import ActorSnapshot


def note_lease(
    desk: LeaseDesk, queue: QueueActor, consumer: Consumer, snapshot: ActorSnapshot
) -> None:
    """Add to `snapshot` who holds how much and for how long, if `consumer` is a lease's."""
    if not isinstance(consumer.sink, LeaseSink):
        return
    book = desk.book_of(queue)
    group = None if book is None else book.groups.get(consumer.tag)
    if group is None:
        return
    snapshot.labels[LEASE] = group.query or f"group {group.name}"
    snapshot.numbers[LEASE_BYTES] = float(int(group.held_bytes))
    snapshot.numbers[LEASE_NS] = float(max(0, snapshot.taken_ns - int(group.held_since_ns())))
