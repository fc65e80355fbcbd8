"""Every bound in one table: unit, default, lowest, highest, owner, and what happens at the bound.

No bound, no merge. `docs/limits.md` is printed from this table.
"""

from typing import Final

from penstock.base.client_limits import CHANNEL_FLOW_GRACE_MS as CHANNEL_FLOW_GRACE_MS
from penstock.base.client_limits import CHANNEL_FLOW_REPLY_MS as CHANNEL_FLOW_REPLY_MS
from penstock.base.client_limits import CHANNEL_FLOW_STALL_MS as CHANNEL_FLOW_STALL_MS
from penstock.base.client_limits import CONSUMER_TIMEOUT_MS as CONSUMER_TIMEOUT_MS
from penstock.base.client_limits import LINGER_MS as LINGER_MS
from penstock.base.client_limits import LINGERING_SOCKETS as LINGERING_SOCKETS
from penstock.base.client_limits import NOTIFY_BLOCKED_MS as NOTIFY_BLOCKED_MS
from penstock.base.client_limits import OUTPUT_STALL_INTERVALS as OUTPUT_STALL_INTERVALS
from penstock.base.client_limits import PARKED_METHODS as PARKED_METHODS
from penstock.base.connector_limits import CONNECTOR_BUFFERED_BYTES as CONNECTOR_BUFFERED_BYTES
from penstock.base.connector_limits import CONNECTOR_IN_FLIGHT as CONNECTOR_IN_FLIGHT
from penstock.base.connector_limits import CONNECTOR_PREFETCH as CONNECTOR_PREFETCH
from penstock.base.connector_limits import CONNECTOR_QUEUES as CONNECTOR_QUEUES
from penstock.base.connector_limits import CONNECTOR_STAGED_BYTES as CONNECTOR_STAGED_BYTES
from penstock.base.connector_limits import CONNECTOR_TASK_BYTES as CONNECTOR_TASK_BYTES
from penstock.base.data_limits import CATALOGUE_CHANGES as CATALOGUE_CHANGES
from penstock.base.data_limits import CONTROL_CLIENTS as CONTROL_CLIENTS
from penstock.base.data_limits import CONTROL_REQUEST_BYTES as CONTROL_REQUEST_BYTES
from penstock.base.data_limits import DISK_RESERVE_BYTES as DISK_RESERVE_BYTES
from penstock.base.data_limits import USERS_MAX as USERS_MAX
from penstock.base.data_limits import VHOSTS_MAX as VHOSTS_MAX
from penstock.base.flow_limits import ADAPTIVE_BYTES_MAX as ADAPTIVE_BYTES_MAX
from penstock.base.flow_limits import ADAPTIVE_BYTES_MIN as ADAPTIVE_BYTES_MIN
from penstock.base.flow_limits import ADAPTIVE_MESSAGES_MAX as ADAPTIVE_MESSAGES_MAX
from penstock.base.flow_limits import ADAPTIVE_MESSAGES_MIN as ADAPTIVE_MESSAGES_MIN
from penstock.base.flow_limits import RATE_BURST_MS as RATE_BURST_MS
from penstock.base.flow_limits import RATE_CONNECTION_BYTES as RATE_CONNECTION_BYTES
from penstock.base.flow_limits import RATE_CONNECTION_MESSAGES as RATE_CONNECTION_MESSAGES
from penstock.base.flow_limits import RATE_LIMITS as RATE_LIMITS
from penstock.base.flow_limits import SETTING_REVERTS as SETTING_REVERTS
from penstock.base.flow_limits import WATCHDOG_HOPS as WATCHDOG_HOPS
from penstock.base.flow_limits import WATCHDOG_MS as WATCHDOG_MS
from penstock.base.lease_limits import LEASE_BYTES as LEASE_BYTES
from penstock.base.lease_limits import LEASE_GROUPS as LEASE_GROUPS
from penstock.base.lease_limits import LEASE_MESSAGES as LEASE_MESSAGES
from penstock.base.lease_limits import LEASE_RUNS as LEASE_RUNS
from penstock.base.lease_limits import LEASE_TIMEOUT_MS as LEASE_TIMEOUT_MS
from penstock.base.lease_limits import LEASE_WAITING as LEASE_WAITING
from penstock.base.limit import Limit as Limit
from penstock.base.policy_limits import PATTERN_BYTES as PATTERN_BYTES
from penstock.base.policy_limits import PATTERN_MEMORY_BYTES as PATTERN_MEMORY_BYTES
from penstock.base.policy_limits import POLICIES_PER_VHOST as POLICIES_PER_VHOST
from penstock.base.policy_limits import POLICY_SWEEP_MATCHES as POLICY_SWEEP_MATCHES
from penstock.base.queue_limits import DEAD_LETTER_BACKLOG as DEAD_LETTER_BACKLOG
from penstock.base.queue_limits import DEAD_LETTER_BACKLOG_BYTES as DEAD_LETTER_BACKLOG_BYTES
from penstock.base.queue_limits import DEAD_LETTER_RETRY_MS as DEAD_LETTER_RETRY_MS
from penstock.base.queue_limits import DEAD_LETTER_WINDOW as DEAD_LETTER_WINDOW
from penstock.base.queue_limits import DEAD_LETTER_WINDOW_BYTES as DEAD_LETTER_WINDOW_BYTES
from penstock.base.queue_limits import DEDUPLICATION_ENTRIES as DEDUPLICATION_ENTRIES
from penstock.base.queue_limits import DELAYED_BYTES_MAX as DELAYED_BYTES_MAX
from penstock.base.queue_limits import DELAYED_MESSAGES_MAX as DELAYED_MESSAGES_MAX
from penstock.base.queue_limits import QUEUE_DEPTH_BYTES as QUEUE_DEPTH_BYTES
from penstock.base.recorder_limits import INCIDENTS_KEPT as INCIDENTS_KEPT
from penstock.base.recorder_limits import RECORD_BYTES as RECORD_BYTES
from penstock.base.recorder_limits import RECORDER_EVENTS as RECORDER_EVENTS
from penstock.base.store_limits import HANDLES_KEPT as HANDLES_KEPT
from penstock.base.store_limits import PAGED_MARKS as PAGED_MARKS
from penstock.base.store_limits import PAGED_PAYERS as PAGED_PAYERS
from penstock.base.store_limits import STORE_COPY_BYTES as STORE_COPY_BYTES
from penstock.base.store_limits import STORE_FINDINGS as STORE_FINDINGS
from penstock.base.store_limits import STORE_FREEING_FILES as STORE_FREEING_FILES
from penstock.base.store_limits import STORE_OPEN_FILES as STORE_OPEN_FILES
from penstock.base.store_limits import STORE_READ_PATIENCE_MS as STORE_READ_PATIENCE_MS
from penstock.base.store_limits import STORE_SEGMENT_BYTES as STORE_SEGMENT_BYTES
from penstock.base.store_limits import STORE_SPARE_SEGMENTS as STORE_SPARE_SEGMENTS
from penstock.base.store_limits import STORE_SYNC_INTERVAL_MS as STORE_SYNC_INTERVAL_MS
from penstock.base.store_limits import STORE_TABLE_CACHE_BYTES as STORE_TABLE_CACHE_BYTES
from penstock.base.stream_limits import EVENT_STREAM_BYTES as EVENT_STREAM_BYTES
from penstock.base.stream_limits import STREAM_CHUNK_READ_BYTES as STREAM_CHUNK_READ_BYTES
from penstock.base.stream_limits import STREAM_GROUP_LAG_BYTES as STREAM_GROUP_LAG_BYTES
from penstock.base.stream_limits import STREAM_GROUPS as STREAM_GROUPS
from penstock.base.stream_limits import STREAM_MEMORY_BYTES as STREAM_MEMORY_BYTES
from penstock.base.stream_limits import STREAM_OPEN_FILES as STREAM_OPEN_FILES
from penstock.base.stream_limits import STREAM_ORIGIN_SPANS as STREAM_ORIGIN_SPANS
from penstock.base.stream_limits import STREAM_ORIGINS as STREAM_ORIGINS
from penstock.base.stream_limits import STREAM_READ_BYTES as STREAM_READ_BYTES
from penstock.base.stream_limits import STREAM_SEGMENT_BYTES as STREAM_SEGMENT_BYTES
from penstock.base.transaction_limits import TRANSACTION_APPS as TRANSACTION_APPS
from penstock.base.transaction_limits import TRANSACTION_BYTES as TRANSACTION_BYTES
from penstock.base.transaction_limits import TRANSACTION_TTL_MS as TRANSACTION_TTL_MS
from penstock.base.transaction_limits import TRANSACTION_WAITING as TRANSACTION_WAITING
from penstock.base.transaction_limits import TRANSACTIONS_BYTES as TRANSACTIONS_BYTES
from penstock.base.transaction_limits import TRANSACTIONS_STAGED as TRANSACTIONS_STAGED
from penstock.base.transaction_limits import TX_BYTES_MAX as TX_BYTES_MAX
from penstock.base.transaction_limits import TX_MESSAGES_MAX as TX_MESSAGES_MAX

FRAME_BYTES_MAX: Final = Limit(
    "frame_bytes_max",
    "bytes",
    131_072,
    4096,
    16_777_216,
    "protocol/frames",
    "501 FRAME_ERROR closes the connection before anything is allocated",
)
FRAME_BYTES_BEFORE_OPEN: Final = Limit(
    "frame_bytes_before_open",
    "bytes",
    8192,
    4096,
    131_072,
    "protocol/frames",
    "501 FRAME_ERROR closes the socket",
)
BODY_BYTES_MAX: Final = Limit(
    "body_bytes_max",
    "bytes",
    16_777_216,
    0,
    536_870_912,
    "broker/connection/connection",
    "406 PRECONDITION_FAILED closes the channel before any body is read",
)
TABLE_DEPTH_MAX: Final = Limit(
    "table_depth_max",
    "levels",
    32,
    1,
    128,
    "protocol/values",
    "502 SYNTAX_ERROR closes the connection",
)
CHANNELS_MAX: Final = Limit(
    "channels_max",
    "channels per connection",
    2047,
    1,
    65_535,
    "protocol/handshake",
    "530 NOT_ALLOWED closes the connection",
)
CONNECTIONS_MAX: Final = Limit(
    "connections_max",
    "connections",
    20_000,
    1,
    1_000_000,
    "server/net/listener",
    "the socket is closed at once and counted",
)
HANDSHAKE_MS: Final = Limit(
    "handshake_ms",
    "milliseconds",
    10_000,
    100,
    600_000,
    "server/boot/node",
    "the socket is closed",
)
HEARTBEAT_S: Final = Limit(
    "heartbeat_s",
    "seconds",
    60,
    0,
    65_535,
    "protocol/heartbeat",
    "a peer silent for two intervals is closed",
)
ROUTE_CACHE_ENTRIES: Final = Limit(
    "route_cache_entries",
    "routes per channel",
    4096,
    1,
    1_048_576,
    "broker/channel/publish",
    "the cache is emptied and refilled",
)
CONSUMERS_PER_CHANNEL: Final = Limit(
    "consumers_per_channel",
    "consumers",
    65_535,
    1,
    1_000_000,
    "broker/session/consume",
    "530 NOT_ALLOWED closes the connection",
)
UNSENT_DELIVERIES: Final = Limit(
    "unsent_deliveries",
    "deliveries per queue and channel",
    200,
    1,
    65_535,
    "queues/consumers",
    "the consumer leaves the ready list until its socket has taken them",
)
SOCKET_OUTPUT_HIGH_BYTES: Final = Limit(
    "socket_output_high_bytes",
    "bytes per connection",
    262_144,
    4096,
    67_108_864,
    "server/net/sockets",
    "the connection's consumers leave the ready lists",
)
TURN_MESSAGES: Final = Limit(
    "turn_messages",
    "messages per turn",
    1024,
    1,
    1_048_576,
    "broker/actors/scheduler",
    "the actor goes to the end of the ready line",
)
QUEUES_PER_VHOST: Final = Limit(
    "queues_per_vhost",
    "queues",
    1_000_000,
    1,
    100_000_000,
    "broker/vhost/vhost",
    "406 PRECONDITION_FAILED closes the channel",
)
BINDINGS_PER_VHOST: Final = Limit(
    "bindings_per_vhost",
    "bindings",
    10_000_000,
    1,
    100_000_000,
    "broker/vhost/vhost",
    "406 PRECONDITION_FAILED closes the channel",
)
EXCHANGE_HOPS_MAX: Final = Limit(
    "exchange_hops_max",
    "exchanges visited by one publish",
    1024,
    1,
    65_536,
    "routing/router",
    "exchanges beyond it are not visited and the event is counted",
)
UNCONFIRMED_MAX: Final = Limit(
    "unconfirmed_max",
    "publishes per channel",
    1_000_000,
    1,
    100_000_000,
    "broker/actors/confirms",
    "the publisher's gate closes until confirms go out",
)

BLOCK_ENTRIES: Final = Limit(
    "block_entries",
    "(peer, reason) pairs per actor",
    64,
    1,
    4096,
    "telemetry/accounting",
    "the pair opened longest ago is folded into 'others'",
)
WINDOW_SNAPSHOTS: Final = Limit(
    "window_snapshots",
    "snapshots",
    61,
    2,
    3601,
    "telemetry/flight",
    "the oldest snapshot is dropped",
)
HISTORY_CHANGES: Final = Limit(
    "history_changes",
    "snapshots of single actors per history",
    100_000,
    1000,
    10_000_000,
    "telemetry/window",
    "the oldest quarter of the history is dropped",
)
PARKED_BYTES: Final = Limit(
    "parked_bytes",
    "bytes per connection",
    33_554_432,
    0,
    1_073_741_824,
    "broker/connection/connection",
    "the socket is not read until a hop opens",
)

LIMITS: Final[tuple[Limit, ...]] = (
    FRAME_BYTES_MAX,
    FRAME_BYTES_BEFORE_OPEN,
    BODY_BYTES_MAX,
    TABLE_DEPTH_MAX,
    CHANNELS_MAX,
    CONNECTIONS_MAX,
    HANDSHAKE_MS,
    HEARTBEAT_S,
    ROUTE_CACHE_ENTRIES,
    CONSUMERS_PER_CHANNEL,
    UNSENT_DELIVERIES,
    SOCKET_OUTPUT_HIGH_BYTES,
    TURN_MESSAGES,
    RECORDER_EVENTS,
    RECORD_BYTES,
    INCIDENTS_KEPT,
    QUEUES_PER_VHOST,
    BINDINGS_PER_VHOST,
    EXCHANGE_HOPS_MAX,
    UNCONFIRMED_MAX,
    TX_MESSAGES_MAX,
    BLOCK_ENTRIES,
    WINDOW_SNAPSHOTS,
    HISTORY_CHANGES,
    PARKED_BYTES,
    TX_BYTES_MAX,
    CONTROL_CLIENTS,
    CONTROL_REQUEST_BYTES,
    DISK_RESERVE_BYTES,
    CATALOGUE_CHANGES,
    VHOSTS_MAX,
    USERS_MAX,
    CHANNEL_FLOW_REPLY_MS,
    CHANNEL_FLOW_GRACE_MS,
    CHANNEL_FLOW_STALL_MS,
    NOTIFY_BLOCKED_MS,
    CONSUMER_TIMEOUT_MS,
    OUTPUT_STALL_INTERVALS,
    LINGER_MS,
    LINGERING_SOCKETS,
    PARKED_METHODS,
    WATCHDOG_MS,
    WATCHDOG_HOPS,
    ADAPTIVE_BYTES_MIN,
    ADAPTIVE_BYTES_MAX,
    ADAPTIVE_MESSAGES_MIN,
    ADAPTIVE_MESSAGES_MAX,
    RATE_CONNECTION_MESSAGES,
    RATE_CONNECTION_BYTES,
    RATE_BURST_MS,
    RATE_LIMITS,
    SETTING_REVERTS,
    QUEUE_DEPTH_BYTES,
    DEAD_LETTER_WINDOW,
    DEAD_LETTER_WINDOW_BYTES,
    DEAD_LETTER_BACKLOG,
    DEAD_LETTER_BACKLOG_BYTES,
    DEAD_LETTER_RETRY_MS,
    POLICIES_PER_VHOST,
    PATTERN_BYTES,
    PATTERN_MEMORY_BYTES,
    POLICY_SWEEP_MATCHES,
    DELAYED_MESSAGES_MAX,
    DELAYED_BYTES_MAX,
    DEDUPLICATION_ENTRIES,
    PAGED_MARKS,
    PAGED_PAYERS,
    STORE_SEGMENT_BYTES,
    STORE_OPEN_FILES,
    HANDLES_KEPT,
    STORE_FREEING_FILES,
    STORE_SPARE_SEGMENTS,
    STORE_TABLE_CACHE_BYTES,
    STORE_COPY_BYTES,
    STORE_SYNC_INTERVAL_MS,
    STORE_READ_PATIENCE_MS,
    STORE_FINDINGS,
    STREAM_SEGMENT_BYTES,
    STREAM_MEMORY_BYTES,
    STREAM_READ_BYTES,
    STREAM_CHUNK_READ_BYTES,
    STREAM_GROUPS,
    STREAM_ORIGIN_SPANS,
    STREAM_ORIGINS,
    STREAM_GROUP_LAG_BYTES,
    EVENT_STREAM_BYTES,
    STREAM_OPEN_FILES,
    CONNECTOR_PREFETCH,
    CONNECTOR_BUFFERED_BYTES,
    CONNECTOR_IN_FLIGHT,
    CONNECTOR_TASK_BYTES,
    CONNECTOR_QUEUES,
    CONNECTOR_STAGED_BYTES,
    LEASE_GROUPS,
    LEASE_MESSAGES,
    LEASE_BYTES,
    LEASE_RUNS,
    LEASE_WAITING,
    LEASE_TIMEOUT_MS,
    TRANSACTION_BYTES,
    TRANSACTIONS_BYTES,
    TRANSACTIONS_STAGED,
    TRANSACTION_TTL_MS,
    TRANSACTION_APPS,
    TRANSACTION_WAITING,
)
