"""Streams for whoever asks: snapshots of their stores, and what one keeps, in words."""

from penstock.base.quantities import show_duration
from penstock.broker.admin.view_groups import groups_in_words
from penstock.broker.admin.view_store import snapshot_of
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.stream.stream_actor import stream_of
from penstock.broker.stream.stream_store import StreamStore
from penstock.streams.log import NO_BOUND
from penstock.telemetry.snapshots import ActorSnapshot


def stream_store_snapshot(broker: Broker, store: StreamStore) -> ActorSnapshot:
    """The streams of one virtual host, on their way to the disk."""
    stored_bytes = sum(int(lane.log.disk_bytes) for lane in store.lanes.values())
    return snapshot_of(broker, store, (int(store.open_bytes()), stored_bytes))


def stream_in_words(actor: QueueActor) -> dict[str, str]:
    """What a stream has and keeps; nothing for other queues."""
    stream = stream_of(actor)
    log = None if stream is None else stream.counts.log
    if stream is None or log is None:
        return {}
    retention = log.retention
    said = {
        "offsets": f"{log.first()}..{log.committed}",
        "segments": f"{len(log.segments)} with {log.disk_bytes} bytes",
    }
    said.update(stream.own_words())
    if stream.cursors:
        # Of the reader that is furthest behind; one may wait for an offset that is not there yet.
        behind = max(int(log.committed - one.next) for one in stream.cursors.values())
        said["lag"] = str(max(0, behind))
    if retention.max_bytes != NO_BOUND:
        said["max-length-bytes"] = str(int(retention.max_bytes))
    if retention.max_age_us != NO_BOUND:
        said["max-age"] = show_duration(int(retention.max_age_us) * 1000)
    groups = groups_in_words(stream)
    if groups:
        said["groups"] = groups
    if log.damaged_count > 0:
        said["damaged"] = str(int(log.damaged_count))
    return said
