"""The bounds of queues, dead letters, delayed messages and caches of duplicates."""

from typing import Final

from penstock.base.limit import Limit

QUEUE_DEPTH_BYTES: Final = Limit(
    "queue_depth_bytes",
    "bytes of one queue, 0 for a fifth of the memory mark",
    0,
    0,
    1_099_511_627_776,
    "broker/queue/classic_actor",
    "publishers of the queue are held until it has shrunk",
)
DEAD_LETTER_WINDOW: Final = Limit(
    "dead_letter_window",
    "dead letters of one queue under way",
    32,
    1,
    100_000,
    "broker/dead_letter/dead_letters",
    "nothing more expires: what is dead stays at the head of its queue",
)
DEAD_LETTER_WINDOW_BYTES: Final = Limit(
    "dead_letter_window_bytes",
    "bytes of one queue under way",
    1_048_576,
    1,
    1_073_741_824,
    "broker/dead_letter/dead_letters",
    "nothing more expires: what is dead stays at the head of its queue",
)
DEAD_LETTER_BACKLOG: Final = Limit(
    "dead_letter_backlog",
    "dead letters of one queue",
    100_000,
    0,
    10_000_000,
    "broker/dead_letter/dead_letters",
    "what is rejected or is too much is lost and counted as overflow",
)
DEAD_LETTER_BACKLOG_BYTES: Final = Limit(
    "dead_letter_backlog_bytes",
    "bytes of one queue",
    67_108_864,
    0,
    10_737_418_240,
    "broker/dead_letter/dead_letters",
    "what is rejected or is too much is lost and counted as overflow",
)
DEAD_LETTER_RETRY_MS: Final = Limit(
    "dead_letter_retry_ms",
    "milliseconds",
    1000,
    10,
    600_000,
    "broker/dead_letter/dead_letters",
    "a dead letter that has to be confirmed and was not is published again",
)
DELAYED_MESSAGES_MAX: Final = Limit(
    "delayed_messages_max",
    "messages held by one delayed message exchange",
    1_000_000,
    1,
    100_000_000,
    "broker/dead_letter/delay_store",
    "its publishers wait until some are released",
)
DELAYED_BYTES_MAX: Final = Limit(
    "delayed_bytes_max",
    "bytes of memory held by one delayed message exchange",
    268_435_456,
    1,
    1_099_511_627_776,
    "broker/dead_letter/delay_store",
    "its publishers wait until some are released",
)
DEDUPLICATION_ENTRIES: Final = Limit(
    "deduplication_entries",
    "entries in the cache of one message deduplication exchange",
    10_000_000,
    1,
    1_000_000_000,
    "routing/deduplication",
    "406 PRECONDITION_FAILED refuses a larger x-cache-size; a full cache drops its oldest entry",
)
