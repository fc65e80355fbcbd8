"""Which queues wait for room on the disk, because the store that keeps their messages does."""

from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.keeper import Keeper
from penstock.broker.stream.stream_actor import StreamActor
from penstock.explain.full_disk import FULL_STORE


def note_room(queue: QueueActor, labels: dict[str, str]) -> None:
    """Name the store in the labels of `queue`, while its batch finds the disk full."""
    if isinstance(queue, StreamActor):
        if queue.store is not None and queue.store.is_full:
            labels[FULL_STORE] = queue.store.identity
    elif isinstance(queue.keeper, Keeper) and queue.keeper.store.is_full:
        labels[FULL_STORE] = queue.keeper.store.identity
