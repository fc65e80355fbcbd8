"""What the control socket answers about the message stores: how much is in them, and of whom.

One request is {"op": "store"}. What a store reads back is read by the disk's thread alone, so the
age of messages is not among it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.broker.actors.cooperative import Steps
from penstock.server.control.request import Keyed, Request
from penstock.storage.check.offline import QueueStats, StoreStats, store_stat_steps
from penstock.streams.stats import StreamStats, stream_stats

STEP_ROWS: Final = 256
STEP_STREAMS: Final = 16
"""A stream's bytes are those of all its segments."""


def store_answer(request: Request) -> Steps[Keyed]:
    """A row for each virtual host, with a page of the queues and streams of all of them, by name.
    In steps."""
    broker = request.broker
    pager = request.pager()
    found: list[tuple[str, StoreStats]] = []
    for vhost, store in list(broker.stores.stores.items()):
        names: dict[int, str] = {}
        for count, actor in enumerate(broker.queues_in(vhost), 1):
            if actor.queue_id > 0:
                names[int(actor.queue_id)] = actor.name
            if count % STEP_ROWS == 0:
                yield 0.0
        stats = yield from store_stat_steps(store.log)
        found.append((vhost, stats))
        for count, one in enumerate(stats.queues, 1):
            name = named(names, one.queue_id)
            pager.offer((vhost, 0, name), Row(vhost, name, one, None))
            if count % STEP_ROWS == 0:
                yield 0.0
        streams = broker.streams.stores.get(vhost)
        lanes = [] if streams is None else list(streams.lanes.values())
        for count, lane in enumerate(lanes, 1):
            if lane.is_wanted:
                log = stream_stats(lane.log)
                name = named(names, log.queue_id)
                pager.offer((vhost, 1, name), Row(vhost, name, None, log))
            if count % STEP_STREAMS == 0:
                yield 0.0
    shown = pager.rows()
    rows = []
    for vhost, stats in found:
        mine = [one for one in shown if one.vhost == vhost]
        rows.append(vhost_row(vhost, stats, mine))
        yield 0.0
    page: dict[str, object] = {
        "sync": broker.stores.sync_rule.words(),
        "vhosts": rows,
        "total": pager.total,
        "next": pager.next(),
    }
    return request.keyed(page, pager)


@dataclass(frozen=True, slots=True)
class Row:
    """A queue, or a stream, by the name it is shown by."""

    vhost: str
    name: str
    queue: QueueStats | None
    stream: StreamStats | None


def named(names: Mapping[int, str], queue_id: int) -> str:
    return names.get(queue_id, f"number {queue_id}")


def stats_row(
    vhost: str,
    names: Mapping[int, str],
    stats: StoreStats,
    streams: tuple[StreamStats, ...] = (),
) -> dict[str, object]:
    """One virtual host with all its queues and streams."""
    rows = [Row(vhost, named(names, one.queue_id), one, None) for one in stats.queues]
    rows += [Row(vhost, named(names, one.queue_id), None, one) for one in streams]
    return vhost_row(vhost, stats, rows)


def vhost_row(vhost: str, stats: StoreStats, rows: list[Row]) -> dict[str, object]:
    """One virtual host as it is shown, with `rows`. Sizes are in bytes, those of the virtual host
    without streams; oldest_ms: wall clock, 0 for none or unknown."""
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
                "queue": row.name,
                "messages": one.messages,
                "live_bytes": one.live_bytes,
                "disk_bytes": one.disk_bytes,
                "segments": one.segments,
                "oldest_ms": one.oldest_ms,
            }
            for row in rows
            if (one := row.queue) is not None
        ],
        "streams": [
            {
                "stream": row.name,
                "messages": found.messages,
                "disk_bytes": found.disk_bytes,
                "segments": found.segments,
                "oldest_ms": found.oldest_ms,
            }
            for row in rows
            if (found := row.stream) is not None
        ],
    }
