"""Requests about streams that AMQP has no method for."""

from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.tickets import Ask, refused
from penstock.broker.stream.stream_actor import StreamActor, stream_of
from penstock.protocol.values import Table


def stream_offsets(ask: Ask) -> None:
    """stream.offsets {queue} -> {first, next, bytes, id}: what can be read now is first..next-1; a
    stream with another `id` is another one, whatever its name.

    Raises: ChannelFault 404 for no such queue, 406 for one that is no stream."""
    actor = as_stream(ask.queue("queue"))
    log = actor.counts.log
    assert log is not None, "a stream has its log before anybody hears of it"
    said: Table = {
        "first": int(log.first()),
        "next": int(log.committed),
        "bytes": int(log.disk_bytes),
        "id": actor.stream_id,
    }
    ask.ticket.settle(said)


def as_stream(actor: QueueActor) -> StreamActor:
    """`actor`, which is a stream. Raises: ChannelFault 406."""
    stream = stream_of(actor)
    if stream is None:
        raise refused(f"queue '{actor.name}' in vhost '{actor.vhost}' is no stream")
    return stream
