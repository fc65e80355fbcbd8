"""What the control socket answers about the message stores: how much is in them, and of whom.

One request is {"op": "store"}. What a store reads back is read by the disk's thread alone, so the
age of messages is not among it.
"""

from collections.abc import Mapping

from penstock.server.control.request import Request
from penstock.storage.check.offline import StoreStats, store_stats
from penstock.streams.stats import StreamStats, stream_stats


def store_answer(request: Request) -> dict[str, object]:
    """A row for each virtual host."""
    broker = request.broker
    rows = []
    for name, store in broker.stores.stores.items():
        queues = broker.queues_in(name)
        names = {int(actor.queue_id): actor.name for actor in queues if actor.queue_id > 0}
        streams = broker.streams.stores.get(name)
        found = () if streams is None else streams.lanes.values()
        logs = tuple(stream_stats(lane.log) for lane in found if lane.is_wanted)
        rows.append(stats_row(name, names, store_stats(store.log), logs))
    return {"sync": broker.stores.sync_rule.words(), "vhosts": rows}


def stats_row(
    vhost: str,
    names: Mapping[int, str],
    stats: StoreStats,
    streams: tuple[StreamStats, ...] = (),
) -> dict[str, object]:
    """One virtual host, its queues and its streams, as it is shown. Sizes are in bytes, those of
    the virtual host without streams; oldest_ms: wall clock, 0 for none or unknown."""
    return {
        "vhost": vhost,
        "messages": stats.messages,
        "live_bytes": stats.live_bytes,
        "disk_bytes": stats.disk_bytes,
        "spare_bytes": stats.spare_bytes,
        "garbage_share": round(stats.garbage_share, 4),
        "segments": stats.segments,
        "queues": [
            {
                "queue": names.get(one.queue_id, f"number {one.queue_id}"),
                "messages": one.messages,
                "live_bytes": one.live_bytes,
                "disk_bytes": one.disk_bytes,
                "segments": one.segments,
                "oldest_ms": one.oldest_ms,
            }
            for one in stats.queues
        ],
        "streams": [
            {
                "stream": names.get(one.queue_id, f"number {one.queue_id}"),
                "messages": one.messages,
                "disk_bytes": one.disk_bytes,
                "segments": one.segments,
                "oldest_ms": one.oldest_ms,
            }
            for one in streams
        ],
    }
