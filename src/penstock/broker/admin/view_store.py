"""Snapshots of message stores: what waits for the disk, whose it is, and how long a sync takes."""

from penstock.broker.admin.view_queues import blocked, times
from penstock.broker.broker import Broker
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.stream.stream_store import StreamStore
from penstock.explain.full_disk import FULL_NS, WANTED
from penstock.explain.root_causes import DEBT
from penstock.telemetry.snapshots import ActorSnapshot


def store_snapshot(broker: Broker, store: StoreActor) -> ActorSnapshot:
    """The store of one virtual host."""
    bytes_ = int(store.batch_bytes), int(store.log.disk_bytes())
    return snapshot_of(broker, store, bytes_, int(store.synced_count))


def snapshot_of(
    broker: Broker, store: StoreActor | StreamStore, bytes_: tuple[int, int], synced_count: int
) -> ActorSnapshot:
    """What stores have in common. bytes_: under way to the disk, and on it; synced_count: messages
    that were ever made safe."""
    now_ns = broker.clock.monotonic_ns()
    mailbox = waiting_bytes = 0
    numbers: dict[str, float] = {}
    for parcel in store.parcels():
        mailbox += len(parcel.messages)
        waiting_bytes += int(parcel.bytes)
        key = DEBT + parcel.origin.name
        numbers[key] = numbers.get(key, 0.0) + int(parcel.count)
    numbers["mailbox"] = float(mailbox)
    numbers["bytes"] = float(bytes_[0])
    numbers["stored_bytes"] = float(bytes_[1])
    numbers["synced"] = float(synced_count)
    numbers["fsync_p50_ns"] = float(store.sync_times.median_ns())
    state = "running"
    if store.is_failed:
        state = "failed"
    elif store.is_full:
        state = "disk full"
        numbers[FULL_NS] = float(now_ns - store.sync_times.full_since_ns)
        numbers[WANTED] = float(waiting_bytes)
    elif store.batch is not None:
        state = "writing"
    return ActorSnapshot(
        store.identity,
        "store",
        state,
        started_ns=int(store.time.start_ns),
        taken_ns=now_ns,
        times=times(store.time.totals(now_ns)),
        blocked=blocked(store, now_ns),
        numbers=numbers,
        labels={"vhost": store.name},
    )
