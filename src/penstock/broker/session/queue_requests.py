"""Requests about the queues of a virtual host that AMQP has no method for."""

from heapq import nsmallest
from typing import Final

from penstock.broker.session.tickets import Ask, refused
from penstock.broker.vhost.queue_arguments import is_stream
from penstock.broker.vhost.vhost import REPLY_PREFIX
from penstock.protocol.values import Value

QUEUE: Final = "queue"
STREAM: Final = "stream"
FRAME_SPARE_BYTES: Final = 256
NAME_BYTES_MAX: Final = 260
"""A name of 255 bytes in a list, with its kind and length."""
PAGE_NAMES_MAX: Final = 400


def queue_list(ask: Ask) -> None:
    """queue.list {type, after} -> {names, is_last}: names of the queues that are streams, or are
    none, in order, those behind `after`; as many as surely fit a frame. Not those that are
    exclusive, which others cannot use, nor what the broker has made for itself.

    Raises: ChannelFault 406."""
    kind, after = ask.text("type"), ask.text("after", "")
    if kind not in (QUEUE, STREAM):
        raise refused(f"argument 'type' is '{kind}'; it takes '{QUEUE}' or '{STREAM}'")
    frame_bytes = ask.ticket.frame_bytes_max()
    room = PAGE_NAMES_MAX
    if frame_bytes > 0:
        room = min(room, max(1, (frame_bytes - FRAME_SPARE_BYTES) // NAME_BYTES_MAX))
    found = nsmallest(
        room + 1,
        (
            name
            for name, actor in ask.session.vhost.queues.items()
            if name > after
            and actor.owner == ""
            and is_stream(actor.arguments) == (kind == STREAM)
            and not actor.is_internal
            and not name.startswith(REPLY_PREFIX)
        ),
    )
    names: list[Value] = [*found[:room]]
    ask.ticket.settle({"names": names, "is_last": len(found) <= room})
