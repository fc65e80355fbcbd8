"""What holds of streams between any two turns: hops add up, cursors stay within their stream."""

from penstock.broker.stream.stream_actor import StreamActor
from penstock.broker.stream.stream_store import StreamStore
from penstock.simulation.machine.faults import LawBroken


def check_streams(store: StreamStore) -> None:
    """One virtual host's. What is in flight is in requests; nothing unsafe is given to anybody.

    Raises: LawBroken."""
    requests = store.requests()
    for lane in store.lanes.values():
        lane.check()
        mine = [request for request in requests if request.lane is lane]
        count = sum(int(request.count) for request in mine)
        bytes_ = sum(int(request.bytes) for request in mine)
        if (count, bytes_) != (int(lane.in_flight), int(lane.in_flight_bytes)):
            raise LawBroken(
                f"{lane.name}: {lane.in_flight} messages in flight, {count} in requests"
            )
        if len(mine) != lane.waiting_count:
            raise LawBroken(f"{lane.name}: {len(mine)} requests, {lane.waiting_count} counted")
        if bool(lane.items) != lane.is_listed:
            raise LawBroken(f"{lane.name} is not in its list")
        log = lane.log
        coming = sum(int(request.count) for request in lane.items)
        if coming != log.coming:
            raise LawBroken(f"{lane.name}: {coming} messages are coming, {log.coming} counted")
        if not log.first() <= log.committed <= log.next:
            raise LawBroken(f"{lane.name}: {log.first()}..{log.committed}..{log.next}")
        if isinstance(lane.queue, StreamActor):
            _check_cursors(lane.queue)


def _check_cursors(stream: StreamActor) -> None:
    name = stream.identity
    if set(stream.cursors) != set(stream.consumers):
        raise LawBroken(f"{name}: {len(stream.cursors)} cursors of {len(stream.consumers)}")
    unacked = sum(int(consumer.unacked) for consumer in stream.consumers)
    if unacked > stream.unacked_count:
        raise LawBroken(f"{name}: {stream.unacked_count} unacknowledged, consumers say {unacked}")
    log = stream.counts.log
    for cursor in stream.cursors.values():
        chunk = cursor.chunk
        if chunk is not None and log is not None and chunk.next() > log.committed:
            raise LawBroken(f"{name}: '{cursor.consumer.tag}' is given what is not safe")
        if cursor.is_ended:
            raise LawBroken(f"{name}: '{cursor.consumer.tag}' has ended and is served")
