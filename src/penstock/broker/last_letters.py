"""Dead letters and delayed messages under way at a clean stop: none is on the disk twice.

A message on the disk stays where it died until its copies are safe. When the broker stops, those
that targets have taken are written, and then it leaves; those in mailboxes are forgotten, and it
comes back instead. A letter that some of its targets have is taken by the others, too, however full
they are; at most a window of them.
"""

from penstock.broker.dead_lane import DeadLane, LetterBox
from penstock.broker.queue_actor import QueueActor
from penstock.broker.queue_ruling import FORCED
from penstock.broker.store_actor import StoreActor


def settle_letters(store: StoreActor, queues: list[QueueActor]) -> None:
    """Settle what `queues` hold for letters that have arrived, when `store` has no batch under way
    and is about to write its last. Raises: OSError."""
    lanes = [lane for queue in queues for lane in _lanes(queue) if lane.under_way or lane.kept]
    if not lanes:
        return
    for lane in lanes:
        receiving = lane.receiving
        if isinstance(receiving, QueueActor) and receiving.is_alive and _is_shared(lane):
            receiving.take_lane(lane, FORCED)
    store.take_all()
    batch = store.log.take_batch(True)
    if batch is not None:
        batch.run()
        store.log.done(batch)
    for lane in lanes:
        lane.taken_is_safe()


def _lanes(queue: QueueActor) -> list[DeadLane]:
    box = None if queue.ruling is None else queue.ruling.dead_letters
    return list(box.lanes.values()) if isinstance(box, LetterBox) else []


def _is_shared(lane: DeadLane) -> bool:
    """Whether a letter in the mailbox has gone to another target as well."""
    letters = [lane.under_way.get(message) for message in lane.items]
    return any(one is not None and (one.confirmed or one.open_count > 1) for one in letters)
