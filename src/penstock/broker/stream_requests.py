"""Requests about streams that AMQP has no method for."""

from penstock.broker.queue_actor import QueueActor
from penstock.broker.stream_actor import StreamActor
from penstock.broker.tickets import Ask, refused


def stream_offsets(ask: Ask) -> None:
    """stream.offsets {queue} -> {first, next, bytes}: what can be read now is first..next-1.

    Raises: ChannelFault 404 for no such queue, 406 for one that is no stream."""
    actor = as_stream(ask.queue("queue"))
    log = actor.counts.log
    assert log is not None, "a stream has its log before anybody hears of it"
    ask.ticket.settle(
        {"first": int(log.first()), "next": int(log.committed), "bytes": int(log.disk_bytes)}
    )


def as_stream(actor: QueueActor) -> StreamActor:
    """`actor`, which is a stream. Raises: ChannelFault 406."""
    if not isinstance(actor, StreamActor):
        raise refused(f"queue '{actor.name}' in vhost '{actor.vhost}' is no stream")
    return actor
