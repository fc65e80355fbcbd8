"""How much the streams of a virtual host have on the disk."""

from dataclasses import dataclass

from penstock.base.chance import Chance
from penstock.storage.check.overlay import OverlayDirectory
from penstock.storage.layout.files import Directory
from penstock.streams.format import parse_name
from penstock.streams.log import Retention, StreamLog
from penstock.streams.recovery import recover_streams

US_PER_MS = 1000


@dataclass(frozen=True, slots=True)
class StreamStats:
    """disk_bytes: of its chunks; oldest_ms: wall clock of the first message, 0 for none."""

    queue_id: int
    messages: int
    disk_bytes: int
    segments: int
    oldest_ms: int


def stream_stats(log: StreamLog) -> StreamStats:
    """What is in `log`. Owner of `log`: the caller's thread."""
    oldest_us = next((one.times[0] for one in log.segments if one.times), 0)
    return StreamStats(
        int(log.queue_id),
        int(log.count()),
        sum(int(one.end) for one in log.segments),
        len(log.segments),
        oldest_us // US_PER_MS,
    )


def found_stats(directory: Directory, chance: Chance) -> tuple[StreamStats, ...]:
    """What a start would find in `directory`, of every stream that has a file there; nothing is
    changed. Raises: OSError."""
    parsed = map(parse_name, directory.names())
    wanted = {one[0]: Retention(1) for one in parsed if one is not None}
    logs, _ = recover_streams(OverlayDirectory(directory), chance, wanted)
    return tuple(stream_stats(log) for _, log in sorted(logs.items()))
