"""Moves messages from a queue to another one, or into an exchange, over a client's channel. IO.

What is moved is taken out of its queue only when it has been confirmed where it goes, so that
whatever happens on the way it is in one of them; in both, if it happens just then. The client has a
piece in memory at a time, and others have the broker meanwhile, as beside any consumer.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from penstock.base.errors import OperatorError
from penstock.client.errors import NackedError, NoReplyError
from penstock.client.events import Delivery
from penstock.client.io_blocking import Channel
from penstock.protocol.properties import Properties

PIECE: Final = 256
PIECE_BYTES: Final = 4_194_304
"""A piece has this much, unless a single message has more."""
CONFIRM_MS: Final = 30_000
MOVE_S: Final = 2.0
"""After this long no other piece is begun: whoever asked goes on from what is left, and others who
wait for the same turn have theirs."""
OF_ITS_QUEUE: Final = "x-delivery-count"
"""A header that a quorum queue adds to what it gives: it is not the message's own."""


class Moved(NamedTuple):
    """messages: how many; left: ready in the queue they came from, now; found: at the beginning."""

    messages: int
    left: int
    found: int


def move_messages(
    channel: Channel,
    source: str,
    exchange: str,
    routing_key: str | None,
    most: int,
    clock: Callable[[], float],
) -> Moved:
    """Move the first `most` messages of `source`, and no more than are ready at the beginning; a
    piece at least, and no other one after MOVE_S. exchange: "" for the queue `routing_key`;
    routing_key: None for each message's own; clock: seconds, monotonic.

    Raises: OperatorError with what was not taken, which stays where it is; ChannelClosedError for
    queues and exchanges that are not there, and rights."""
    if exchange == "" and routing_key == source:
        raise OperatorError(f"queue '{source}' cannot be moved into itself")
    if exchange == "":
        channel.declare_queue(routing_key or "", passive=True)
    else:
        channel.declare_exchange(exchange, passive=True)
    channel.confirm_select()
    found = channel.declare_queue(source, passive=True).message_count
    most = min(most, found)
    # Of one into an exchange it is known whether it has arrived, of many not which.
    piece = PIECE if exchange == "" else 1
    count = 0
    until = clock() + MOVE_S
    while count < most and (count == 0 or clock() < until):
        taken = _taken(channel, source, min(piece, most - count))
        if not taken:
            break
        fault = _published(channel, taken, exchange, routing_key)
        if fault:
            # Where the broker reads nothing, the end of the connection does the same.
            with suppress(NoReplyError):
                channel.nack(taken[-1], multiple=True, timeout_ms=0)
            raise OperatorError(f"{fault}; {count} messages were moved before, and the rest stays")
        channel.ack(taken[-1], multiple=True)
        count += len(taken)
    return Moved(count, channel.declare_queue(source, passive=True).message_count, found)


def _taken(channel: Channel, source: str, most: int) -> list[Delivery]:
    taken: list[Delivery] = []
    size = 0
    while len(taken) < most and size < PIECE_BYTES:
        delivery = channel.get(source)
        if delivery is None:
            break
        taken.append(delivery)
        size += len(delivery.body)
    return taken


def _published(
    channel: Channel, taken: list[Delivery], exchange: str, routing_key: str | None
) -> str:
    """What is wrong, "" once all of it is where it goes."""
    returned = channel.inbox.returned_count
    try:
        for one in taken:
            key = one.routing_key if routing_key is None else routing_key
            own = _own(one.properties)
            channel.publish(exchange, key, one.body, own, mandatory=True, timeout_ms=CONFIRM_MS)
        channel.wait_for_confirms(CONFIRM_MS)
    except NackedError:
        return f"'{exchange or routing_key}' takes no more (it is full, and rejects publishes)"
    except NoReplyError:
        return (
            f"'{exchange or routing_key}' has not confirmed within {CONFIRM_MS // 1000} s; "
            "`penstock why publish` and `penstock flow alarms` say what it waits for"
        )
    if channel.inbox.returned_count == returned:
        return ""
    key = taken[0].routing_key if routing_key is None else routing_key
    if exchange == "":
        return f"queue '{key}' is not there any more"
    return f"exchange '{exchange}' has no queue for key '{key}'"


def _own(properties: Properties) -> Properties:
    """Without what its queue says of it, and without a user that is another one's name: whoever
    moves a message has published it then, and the broker would refuse his channel."""
    headers = properties.headers
    if headers and OF_ITS_QUEUE in headers:
        headers = {key: one for key, one in headers.items() if key != OF_ITS_QUEUE}
    elif properties.user_id is None:
        return properties
    return replace(properties, headers=headers, user_id=None)
