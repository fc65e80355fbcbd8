"""The bounds of the message store; part of the table in base/limits."""

from typing import Final

from penstock.base.limit import Limit

STORE_SEGMENT_BYTES: Final = Limit(
    "store_segment_bytes",
    "bytes of one segment",
    16_777_216,
    1024,
    1_073_741_824,
    "storage/log/log",
    "the next message begins a new segment; a larger message has one to itself",
)
STORE_OPEN_FILES: Final = Limit(
    "store_open_files",
    "open segments of one store",
    64,
    2,
    4096,
    "storage/log/handles",
    "the one unused for longest is closed, unless it waits for a sync",
)
HANDLES_KEPT: Final = Limit(
    "handles_kept",
    "open files of the process that are not for clients",
    256,
    16,
    65_536,
    "server/net/listener",
    "a socket beyond is closed at once and counted; of fewer than 1,024 files it is a quarter",
)
STORE_FREEING_FILES: Final = Limit(
    "store_freeing_files",
    "removed files whose room is being given back",
    16,
    0,
    4096,
    "server/disk/disk_files",
    "the disk's thread gives the room of further ones back itself",
)
STORE_SPARE_SEGMENTS: Final = Limit(
    "store_spare_segments",
    "files of removed segments that one store keeps to write over",
    4,
    0,
    64,
    "storage/log/spares",
    "further ones are removed; all are when nothing was written for 3 s, or when room runs out",
)
STORE_TABLE_CACHE_BYTES: Final = Limit(
    "store_table_cache_bytes",
    "bytes of one store's tables read from footers",
    8_388_608,
    0,
    1_073_741_824,
    "storage/log/reading",
    "the one unused for longest is forgotten, and read again when it is needed",
)
STORE_COPY_BYTES: Final = Limit(
    "store_copy_bytes",
    "bytes copied at a time while a segment is compacted",
    262_144,
    1024,
    16_777_216,
    "storage/log/compaction",
    "the rest is copied in the next slices",
)
STORE_SYNC_INTERVAL_MS: Final = Limit(
    "store_sync_interval_ms",
    "milliseconds from a write to its sync, in the mode interval",
    200,
    1,
    60_000,
    "broker/actors/syncing",
    "everything written since the last sync is synced",
)
STORE_READ_PATIENCE_MS: Final = Limit(
    "store_read_patience_ms",
    "milliseconds for which a read that fails with EIO is tried again",
    60_000,
    0,
    86_400_000,
    "broker/paging/read_again",
    "what it was for is lost: the queue is paused, and listed as damaged",
)
STORE_FINDINGS: Final = Limit(
    "store_findings",
    "findings of one `penstock store check`",
    1000,
    1,
    1_000_000,
    "storage/check/findings",
    "further ones are counted, not kept",
)
PAGED_PAYERS: Final = Limit(
    "paged_payers",
    "causes remembered for one stretch of paged messages",
    256,
    1,
    65_536,
    "queues/delta",
    "the first of the stretch pays for the messages of the second",
)
PAGED_MARKS: Final = Limit(
    "paged_marks",
    "times of arrival remembered for the paged messages of one queue, 100 bytes each",
    4096,
    2,
    65_536,
    "queues/arrivals",
    "they become coarser: messages die late by a 2000th of the time they span",
)
