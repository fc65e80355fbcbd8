"""What a tx.commit waits for before it begins, and how methods with much to do are done: piece by
piece, between which others have their turns, and what the client has sent behind the method waits.
Of a tx.commit that is its publishes, then its settles; of a channel.close the channel's consumers.

A commit is not divided: once it has begun it comes to its end whatever happens to its channel or
its connection, unless one of its publishes breaks a rule. Before that it waits for

    a rule of a queue    that the channel publishes to: soft limits, mirrors, rates, which let go
                         whatever the client does
    a closed hop         to a queue that one of its own publishes goes to: at its depth mark, full,
                         or with as much in front of it as there is credit for
and for the second only where nothing that it waits for can wait for it. What makes room is that
somebody settles, so it goes past where it settles something itself, and where its connection has
consumers or unanswered deliveries, which its client may settle when it has the answer. What is left
is a connection that does nothing but publish, as every publisher whose confirms wait.
"""

from contextlib import suppress
from typing import Final

from penstock.base.errors import ChannelFault, PeerError
from penstock.broker.actors.lane import Lane
from penstock.broker.channel.channel import CHANNEL_CLOSE, SETTLE_COST, Channel
from penstock.broker.channel.settling import Settling
from penstock.broker.channel.transactions import ACK, Committing, Settle, Transaction
from penstock.broker.connection.connection import Connection
from penstock.protocol.content import EVENT_ACK

REFUSING: Final = "basic.nack and basic.reject"
PIECE: Final = SETTLE_COST
"""Publishes and settles, or consumers; it counts for as many publishes of a turn."""
HOPS_LOOKED_AT: Final = 1024
"""Of the ways of a transaction; what is behind them is not waited for."""


# -- before a commit -----------------------------------------------------------------------------


def keeps_commit(channel: Channel, connection: Connection) -> bool:
    """Whether the tx.commit that is next waits for a hop: not once it has begun, or at the end."""
    inbox, last, transaction = channel.inbox, channel.inbox.methods[-1], channel.transaction
    if transaction is None or transaction.has_begun() or inbox.is_ending:
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


# -- piece by piece ------------------------------------------------------------------------------


def perform_again(channel: Channel) -> None:
    """The method that `channel` performs has done a piece of its work: it is performed again, when
    what it settles is settled, and nothing that came behind it before."""
    settling = channel.settling
    if settling is None:
        settling = channel.settling = Settling([], ACK, "", 0)
    settling.is_again = True
    channel.inbox.is_parked = True
    channel.wake()


def commit_some(channel: Channel, committing: Committing) -> bool:
    """The next piece of a commit; True if there is more. What one settle has named and is too much
    for a piece is in the channel's `settling` then.

    Raises: PeerError: a publish or a settle broke a rule, and nothing more of it is done."""
    try:
        for _ in range(PIECE):
            message = committing.next_message()
            if message is not None:
                channel.publisher.publish(message, True)
                continue
            settle = committing.next_settle()
            if settle is None:
                return False
            _settle_up_to(channel, settle)
            if channel.settling is not None:
                return True
    except PeerError:
        committing.give_up()
        raise
    return committing.has_more()


def _settle_up_to(channel: Channel, settle: Settle) -> None:
    """Do what a settle of a transaction says; its tag was checked when it came."""
    if not settle.is_multiple:
        delivery = channel.table.take(settle.tag)
        assert delivery is not None, "because basic.recover leaves it alone"
        channel.settle([delivery], settle.action, REFUSING, 120)
    elif settle.tag > 0:
        taken = channel.table.take_up_to(settle.tag)
        channel.settle_all(taken, settle.action, REFUSING, 120)


def ends_with_commit(channel: Channel, fault: ChannelFault) -> bool:
    """Whether `channel` is in the middle of a commit: then it closes with `fault` at the end of
    that, and not before."""
    transaction = channel.transaction
    committing = None if transaction is None else transaction.committing
    if transaction is None or committing is None or not committing.has_more():
        return False
    transaction.fault = fault
    channel.wake()
    return True


def end_commit(channel: Channel, left: int) -> int:
    """The channel ends: do what is left of a commit that has begun, as far as `left` units go; the
    units that are left. Nobody hears of its faults."""
    transaction = channel.transaction
    committing = None if transaction is None else transaction.committing
    while left > 0 and committing is not None and committing.has_more():
        left -= PIECE
        with suppress(PeerError):
            if channel.settling is None:
                commit_some(channel, committing)
            else:
                channel.settle_some()
    return left
