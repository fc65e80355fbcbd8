"""What a commit puts into its queues once the disk has it.

It goes past limits and credit, because it is committed: what holds publishers back has been asked
before, and is measured again by the queue's next turn.
"""

from itertools import groupby

from penstock.broker.actors.lane import Answerable, Lane
from penstock.broker.queue.queue_actor import COMMITTED, QueueActor
from penstock.broker.store.durability import StoreDurability
from penstock.flow.account import Account
from penstock.flow.hop import LAYER_CHANNEL, LAYER_QUEUE
from penstock.protocol.content import Message
from penstock.protocol.property_lookup import FLAG_EXPIRATION

NOBODY = Answerable()


def put_in(actor: QueueActor, messages: list[Message]) -> None:
    """`messages` are behind everything in `actor` now; those that it keeps have their places in the
    log. Nothing happens to a queue that is gone."""
    if not actor.is_alive:
        return
    keeper = actor.keeper
    is_kept = isinstance(keeper, StoreDurability) and keeper.is_lasting
    if any(message.raw[19] & FLAG_EXPIRATION for message in messages):
        actor.expects_lifetimes()
    if isinstance(keeper, StoreDurability):
        keeper.is_arriving = is_kept
    try:
        for _, run in groupby(messages, _payer):
            _take(actor, list(run))
    finally:
        if isinstance(keeper, StoreDurability):
            keeper.is_arriving = False
    actor.wake()


def _payer(message: Message) -> int:
    return id(message.origin)


def _take(actor: QueueActor, messages: list[Message]) -> None:
    origin = messages[0].origin
    assert isinstance(origin, Account), "a connection's page pays for what it publishes"
    lane = Lane("transaction", LAYER_CHANNEL, actor.gate, actor, LAYER_QUEUE, origin, NOBODY)
    lane.items = messages
    queue_rate = actor.queue_rate
    if queue_rate is not None:
        for message in messages:
            queue_rate.spend(len(message.raw))
    while actor.take_lane(lane, COMMITTED):
        pass
