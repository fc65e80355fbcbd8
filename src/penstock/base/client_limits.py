"""The bounds of what clients are told and waited for; part of the table in base/limits."""

from typing import Final

from penstock.base.limit import Limit

CHANNEL_FLOW_REPLY_MS: Final = Limit(
    "channel_flow_reply_ms",
    "milliseconds",
    10_000,
    100,
    600_000,
    "broker/connection/notices",
    "the missing flow-ok is taken as read, and logged once a connection",
)
CHANNEL_FLOW_GRACE_MS: Final = Limit(
    "channel_flow_grace_ms",
    "milliseconds",
    60_000,
    1000,
    3_600_000,
    "broker/connection/notices",
    "503 COMMAND_INVALID closes a connection that published after its flow-ok(false)",
)
CHANNEL_FLOW_STALL_MS: Final = Limit(
    "channel_flow_stall_ms",
    "milliseconds",
    2000,
    100,
    600_000,
    "broker/connection/notices",
    "channel.flow tells a client that has opted in",
)
NOTIFY_BLOCKED_MS: Final = Limit(
    "notify_blocked_ms",
    "milliseconds",
    0,
    0,
    86_400_000,
    "broker/connection/notices",
    "connection.blocked names the queue; 0 never does",
)
CONSUMER_TIMEOUT_MS: Final = Limit(
    "consumer_timeout_ms",
    "milliseconds",
    1_800_000,
    0,
    31_536_000_000,
    "broker/connection/care",
    "406 PRECONDITION_FAILED closes the channel, its deliveries are requeued; 0 never does",
)
OUTPUT_STALL_INTERVALS: Final = Limit(
    "output_stall_intervals",
    "heartbeat intervals in which a socket takes nothing of what waits for it",
    2,
    1,
    1000,
    "server/net/stall_timeout",
    "the socket is closed",
)
LINGER_MS: Final = Limit(
    "linger_ms",
    "milliseconds",
    30_000,
    0,
    600_000,
    "server/net/sockets",
    "the socket of a closed connection is closed, though its peer has not closed it; 0 at once",
)
LINGERING_SOCKETS: Final = Limit(
    "lingering_sockets",
    "sockets of closed connections whose peers have not closed them",
    1024,
    1,
    65_536,
    "server/net/sockets",
    "the one that has waited longest is closed",
)
PARKED_METHODS: Final = Limit(
    "parked_methods",
    "methods per channel behind a basic.get whose message is being read from the disk",
    1024,
    16,
    65_536,
    "broker/channel/inbox",
    "the connection is not read until the message is there",
)
