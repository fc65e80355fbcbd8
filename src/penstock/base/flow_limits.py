"""The bounds of the flow strategies and their watchdog; part of the table in base/limits."""

from typing import Final

from penstock.base.limit import Limit

WATCHDOG_MS: Final = Limit(
    "watchdog_ms",
    "milliseconds",
    60_000,
    100,
    3_600_000,
    "flow/watchdog",
    "a hop that waited so long, its blocker finishing nothing, is reported; a lost grant is mended",
)
WATCHDOG_HOPS: Final = Limit(
    "watchdog_hops",
    "hops per tick",
    10_000,
    100,
    1_000_000,
    "broker/settings/hop_watch",
    "the watchdog goes on with the next hops at its next tick",
)
ADAPTIVE_BYTES_MIN: Final = Limit(
    "adaptive_bytes_min",
    "bytes per hop",
    16_384,
    1,
    16_777_216,
    "flow/adaptive",
    "the window is not cut any more",
)
ADAPTIVE_BYTES_MAX: Final = Limit(
    "adaptive_bytes_max",
    "bytes per hop",
    4_194_304,
    65_536,
    1_073_741_824,
    "flow/adaptive",
    "the window is not raised any more",
)
ADAPTIVE_MESSAGES_MIN: Final = Limit(
    "adaptive_messages_min",
    "messages per hop",
    8,
    1,
    1_000_000,
    "flow/adaptive",
    "the window is not cut any more",
)
ADAPTIVE_MESSAGES_MAX: Final = Limit(
    "adaptive_messages_max",
    "messages per hop",
    6400,
    16,
    1_000_000,
    "flow/adaptive",
    "the window is not raised any more",
)
RATE_CONNECTION_MESSAGES: Final = Limit(
    "rate_connection_messages",
    "messages a second published by one connection",
    0,
    0,
    1_000_000_000_000,
    "broker/settings/rates",
    "publishes wait for the next token; 0 never",
)
RATE_CONNECTION_BYTES: Final = Limit(
    "rate_connection_bytes",
    "bytes a second published by one connection",
    0,
    0,
    1_000_000_000_000,
    "broker/settings/rates",
    "publishes wait for the next token; 0 never",
)
RATE_BURST_MS: Final = Limit(
    "rate_burst_ms",
    "milliseconds of a rate limit's tokens",
    50,
    10,
    60_000,
    "flow/rate",
    "no more tokens gather",
)
RATE_LIMITS: Final = Limit(
    "rate_limits",
    "users, virtual hosts and queues with a rate limit set while running",
    10_000,
    1,
    1_000_000,
    "broker/settings/rates",
    "the change is refused",
)
SETTING_REVERTS: Final = Limit(
    "setting_reverts",
    "changes of settings that wait to be taken back",
    64,
    1,
    10_000,
    "broker/settings/setting_changes",
    "the change is refused",
)
