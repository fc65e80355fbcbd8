"""What a tx.commit waits for:

    a rule of a queue    that the channel publishes to: soft limits, mirrors, rates, which let go
                         whatever the client does
    a closed hop         to a queue that one of its own publishes goes to: at its depth mark, full,
                         or with as much in front of it as there is credit for
and for the second only where nothing that it waits for can wait for it. What makes room is that
somebody settles, so it goes past where it settles something itself, and where its connection has
consumers or unanswered deliveries, which its client may settle when it has the answer. What is left
is a connection that does nothing but publish, as every publisher whose confirms wait.
"""

from typing import Final

from penstock.broker.actors.lane import Lane
from penstock.broker.channel.channel import CHANNEL_CLOSE, Channel
from penstock.broker.channel.transactions import Transaction
from penstock.broker.connection.connection import Connection
from penstock.protocol.content import EVENT_ACK

HOPS_LOOKED_AT: Final = 1024
"""Of the ways of a transaction; what is behind them is not waited for."""


def keeps_commit(channel: Channel, connection: Connection) -> bool:
    """Whether the tx.commit that is next waits for a hop: not at the end."""
    inbox, last, transaction = channel.inbox, channel.inbox.methods[-1], channel.transaction
    if transaction is None or inbox.is_ending:
        return False
    if last.tag == CHANNEL_CLOSE and last.kind != EVENT_ACK:
        return False
    if channel.parking.keeps_commit(channel.gate, channel.publisher.lanes):
        return True
    if transaction.settles or _is_consuming(connection):
        return False
    closed = _closed_hops(channel, transaction)
    lane = transaction.next_hop(list(closed))
    if lane is None:
        return False
    channel.parking.note_waiting(lane, closed[lane])
    return True


def _closed_hops(channel: Channel, transaction: Transaction) -> dict[Lane, int]:
    """Those that publishes of `transaction` go to, as far as their ways are known, and how large
    the first one of each is. Hops without a gate of their own are not meant."""
    publisher = channel.publisher
    epoch = publisher.vhost.router.epoch
    closed: dict[Lane, int] = {}
    left = HOPS_LOOKED_AT
    for method, size in transaction.ways.items():
        route = publisher.cache.get(method)
        if route is None or route.epoch != epoch:
            continue
        left -= len(route.lanes)
        if left < 0:
            break
        for lane in route.lanes:
            if lane.is_closed and lane.sender_gate is not channel.gate:
                closed.setdefault(lane, size)
    return closed


def look_at_commits(connection: Connection) -> None:
    """Its client may have something to settle from now on: a commit that waits may have to go."""
    for channel in connection.channels.values():
        if channel.inbox.is_kept:
            channel.wake()


def _is_consuming(connection: Connection) -> bool:
    """Whether its client has something to settle, or may be given something."""
    return any(one.consumers or one.table.count > 0 for one in connection.channels.values())
