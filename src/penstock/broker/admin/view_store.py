"""Snapshots of stores, of messages and streams: what waits for the disk, and how long."""

from penstock.base.quantities import show_duration
from penstock.broker.admin.view_queues import blocked, groups_in_words, times
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.group_commit import GroupCommit
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.stream.stream_actor import stream_of
from penstock.broker.stream.stream_store import StreamStore
from penstock.explain.root_causes import MIRRORS, REPLICAS, SYNC_NOW_NS, WANTED
from penstock.storage.layout.files import SyncTotals
from penstock.streams.log import NO_BOUND
from penstock.telemetry.actor_window import DEBT, FULL_NS, SYNC_NS, SYNCS
from penstock.telemetry.snapshots import ActorSnapshot


def store_snapshot(broker: Broker, store: StoreActor) -> ActorSnapshot:
    """The store of one virtual host."""
    bytes_ = int(store.batch_bytes), int(store.log.disk_bytes())
    return snapshot_of(broker, store, bytes_, store.log.handles.directory.sync_totals())


def snapshot_of(
    broker: Broker, store: GroupCommit, bytes_: tuple[int, int], syncs: SyncTotals | None
) -> ActorSnapshot:
    """What stores have in common. bytes_: under way to the disk, and on it; syncs: of its files."""
    now_ns = broker.clock.monotonic_ns()
    mailbox = waiting_bytes = 0
    numbers: dict[str, float] = {}
    for request in store.requests():
        mailbox += len(request.messages)
        waiting_bytes += int(request.bytes)
        key = DEBT + request.origin.name
        numbers[key] = numbers.get(key, 0.0) + int(request.count)
    numbers["mailbox"] = float(mailbox)
    numbers["bytes"] = float(bytes_[0])
    numbers["stored_bytes"] = float(bytes_[1])
    numbers["synced"] = float(store.synced_count)
    if syncs is not None:
        began_ns = syncs.began_ns
        numbers[SYNCS], numbers[SYNC_NS] = float(syncs.count), float(syncs.ns)
        if began_ns >= 0:
            numbers[SYNC_NOW_NS] = float(max(0, now_ns - began_ns))
    state = "running"
    if store.is_failed:
        state = "failed"
    elif store.is_full:
        state = "disk full"
        numbers[FULL_NS] = float(now_ns - store.sync_times.full_since_ns)
        numbers[WANTED] = float(waiting_bytes)
    elif store.batch is not None:
        state = "writing"
    labels = {"vhost": store.name}
    if broker.replicas:
        labels[REPLICAS] = broker.replicas
    if broker.context.mirrors.words:
        labels[MIRRORS] = broker.context.mirrors.words
    return ActorSnapshot(
        store.identity,
        "store",
        state,
        started_ns=int(store.time.start_ns),
        taken_ns=now_ns,
        times=times(store.time.totals(now_ns)),
        blocked=blocked(store, now_ns),
        numbers=numbers,
        labels=labels,
    )


def stream_store_snapshot(broker: Broker, store: StreamStore) -> ActorSnapshot:
    """The streams of one virtual host, on their way to the disk."""
    stored_bytes = sum(int(lane.log.disk_bytes) for lane in store.lanes.values())
    bytes_ = int(store.open_bytes()), stored_bytes
    return snapshot_of(broker, store, bytes_, store.handles.directory.sync_totals())


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
