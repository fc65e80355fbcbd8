"""The bounds of dead-lettering; part of the table in base/limits."""

from typing import Final

from penstock.base.limit import Limit

DEAD_LETTER_WINDOW: Final = Limit(
    "dead_letter_window",
    "dead letters of one queue under way",
    32,
    1,
    100_000,
    "broker/dead_letters",
    "nothing more expires: what is dead stays at the head of its queue",
)
DEAD_LETTER_WINDOW_BYTES: Final = Limit(
    "dead_letter_window_bytes",
    "bytes of one queue under way",
    1_048_576,
    1,
    1_073_741_824,
    "broker/dead_letters",
    "nothing more expires: what is dead stays at the head of its queue",
)
DEAD_LETTER_BACKLOG: Final = Limit(
    "dead_letter_backlog",
    "dead letters of one queue",
    100_000,
    0,
    10_000_000,
    "broker/dead_letters",
    "what is rejected or is too much is lost and counted as overflow",
)
DEAD_LETTER_BACKLOG_BYTES: Final = Limit(
    "dead_letter_backlog_bytes",
    "bytes of one queue",
    67_108_864,
    0,
    10_737_418_240,
    "broker/dead_letters",
    "what is rejected or is too much is lost and counted as overflow",
)
DEAD_LETTER_RETRY_MS: Final = Limit(
    "dead_letter_retry_ms",
    "milliseconds",
    1000,
    10,
    600_000,
    "broker/dead_letters",
    "a dead letter that has to be confirmed and was not is published again",
)
