"""The bounds of streams; part of the table in base/limits."""

from typing import Final

from penstock.base.limit import Limit

STREAM_SEGMENT_BYTES: Final = Limit(
    "stream_segment_bytes",
    "bytes of one segment of a stream, without x-stream-max-segment-size-bytes",
    500_000_000,
    1024,
    3_000_000_000,
    "streams/log",
    "the next chunk begins a new segment, and retention looks at the oldest ones",
)
STREAM_MEMORY_BYTES: Final = Limit(
    "stream_memory_bytes",
    "bytes of one stream of a broker that keeps everything in memory",
    67_108_864,
    65_536,
    1_073_741_824,
    "broker/node/stream_desk",
    "the oldest segments go; a segment is an eighth of it at most",
)
STREAM_READ_BYTES: Final = Limit(
    "stream_read_bytes",
    "bytes read ahead for one consumer of a stream; a larger chunk is read alone",
    262_144,
    4096,
    16_777_216,
    "streams/reading",
    "the next read waits until these messages are delivered",
)
STREAM_CHUNK_READ_BYTES: Final = Limit(
    "stream_chunk_read_bytes",
    "bytes read ahead and delivered at once to a consumer that takes whole chunks; a larger chunk "
    "is read alone",
    1_048_576,
    4096,
    16_777_216,
    "broker/stream/chunk_cursor",
    "the next read waits until these chunks are delivered",
)
STREAM_GROUPS: Final = Limit(
    "stream_groups",
    "reader groups of one stream",
    64,
    64,
    64,
    "broker/stream/stream_groups",
    "406 PRECONDITION_FAILED, naming those there are",
)
STREAM_ORIGIN_SPANS: Final = Limit(
    "stream_origin_spans",
    "spans of offsets for which one stream knows who published what its reader groups keep",
    128,
    128,
    128,
    "streams/origins",
    "each two become one: the count gets coarser",
)
STREAM_ORIGINS: Final = Limit(
    "stream_origins",
    "publishers that are told apart in one such span",
    32,
    32,
    32,
    "streams/origins",
    "what others published is on the page of the virtual host",
)
STREAM_GROUP_LAG_BYTES: Final = Limit(
    "stream_group_lag_bytes",
    "bytes that a reader group may be behind when neither it nor the stream has a bound of its own",
    10_000_000_000,
    1,
    1_000_000_000_000_000,
    "broker/stream/stream_groups",
    "publishers to the stream are given no credit until the group has caught up to three quarters",
)
EVENT_STREAM_BYTES: Final = Limit(
    "event_stream_bytes",
    "bytes of the broker's stream of its own flow events (event_stream)",
    256_000_000,
    1_000_000,
    1_000_000_000_000,
    "broker/stream/internal_stream",
    "the oldest eighth goes; what a reader group pins beyond it is not written, and counted",
)
STREAM_OPEN_FILES: Final = Limit(
    "stream_open_files",
    "open segments of the streams of one virtual host",
    64,
    2,
    4096,
    "streams/handles",
    "the one unused for longest is closed, unless it waits for a sync",
)
