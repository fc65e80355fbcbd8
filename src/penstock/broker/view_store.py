"""Snapshots of message stores: what waits for the disk, whose it is, and how long a sync takes."""

from penstock.broker.broker import Broker
from penstock.broker.store_actor import StoreActor
from penstock.broker.store_lane import Parcel
from penstock.broker.view_queues import blocked, times
from penstock.telemetry.roots import DEBT
from penstock.telemetry.snapshots import ActorSnapshot


def store_snapshot(broker: Broker, store: StoreActor) -> ActorSnapshot:
    """The store of one virtual host."""
    now_ns = broker.clock.monotonic_ns()
    mailbox = 0
    numbers: dict[str, float] = {}
    for parcel in store.parcels():
        mailbox += len(parcel.messages)
        _add_debt(numbers, parcel)
    numbers["mailbox"] = float(mailbox)
    numbers["bytes"] = float(store.batch_bytes)
    numbers["synced"] = float(store.synced_count)
    numbers["fsync_p50_ns"] = float(store.sync_times.median_ns())
    numbers["stored_bytes"] = float(store.log.disk_bytes())
    state = "running"
    if store.is_failed:
        state = "failed"
    elif store.is_full:
        state = "disk full"
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


def _add_debt(numbers: dict[str, float], parcel: Parcel) -> None:
    key = DEBT + parcel.origin.name
    numbers[key] = numbers.get(key, 0.0) + int(parcel.count)
