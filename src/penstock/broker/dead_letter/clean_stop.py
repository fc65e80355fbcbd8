"""Dead letters and delayed messages under way at a clean stop: none is on the disk twice, or lost.

A message on the disk stays where it died until its copies are safe. When the broker stops, those
that targets have taken are written, and then it leaves; those in mailboxes are forgotten, and it
comes back instead. A letter that some of its targets have is taken by the others, too, however full
they are, and so is one that has left its queue already (at-most-once); at most a window of them.
"""

from penstock.broker.dead_letter.dead_letters import DeadLane, DeadLetters, dead_letters_of
from penstock.broker.queue.queue_actor import COMMITTED, FORCED, QueueActor
from penstock.broker.store.store_actor import StoreActor


def settle_dead_letters(store: StoreActor, queues: list[QueueActor]) -> None:
    """Settle what `queues` hold for letters that have arrived, when `store` has no batch under way
    and is about to write its last. Raises: OSError."""
    boxes = [box for box in map(dead_letters_of, queues) if box is not None]
    _settle(store, boxes)
    if any(letter.confirmed for box in boxes for letter in box.stuck):
        # Another target had refused what one has taken only now.
        _settle(store, boxes)


def _settle(store: StoreActor, boxes: list[DeadLetters]) -> None:
    for box in boxes:
        box.publish_begun()
    lanes = [lane for box in boxes for lane in box.lanes.values() if lane.under_way or lane.kept]
    if not lanes:
        return
    for lane in lanes:
        budget = _budget(lane)
        if lane.target.is_alive and budget > 0:
            lane.target.take_lane(lane, budget)
    store.take_all()
    batch = store.log.take_batch(True)
    if batch is not None:
        batch.run()
        store.log.done(batch)
    for lane in lanes:
        lane.taken_is_safe()


def _budget(lane: DeadLane) -> int:
    """What the target takes of the mailbox: nothing if all of it comes back where it died; all of
    it, refusing what it would refuse at any time; or all of it, because another has it as well."""
    letters = [letter for letter in map(lane.under_way.get, lane.items) if letter is not None]
    if any(one.is_confirmed and (one.confirmed or one.open_count > 1) for one in letters):
        return COMMITTED
    if any(one.confirmed or one.open_count > 1 or not one.is_held for one in letters):
        return FORCED
    return 0
