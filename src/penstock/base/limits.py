"""Every bound in one table, with what happens there. `docs/limits.md` is printed from it.

No bound, no merge. A row is: default, lowest, highest, unit, key, owner, what happens at the bound.
"""

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound.

    default, lowest, highest: in units.
    unit: what is counted.
    no_key: why the configuration has no key of this name, "" when it has one.
    owner: the module that enforces the bound.
    at_bound: the one thing that happens there.
    name: its constant's, in lower case.
    """

    default: int
    lowest: int
    highest: int
    unit: str
    no_key: str
    owner: str
    at_bound: str
    name: str = field(default="", init=False)


KEY: Final = ""
GUARD: Final = "a guard against faults and floods, far above what is used"
PACE: Final = "divides work or paces it, with the same result"
BOOKS: Final = "bounds the memory of the broker's own records"
TUNED: Final = "the strategy adapts within it"


def argument(place: str) -> str:
    """The reason of a bound that is set where it is used."""
    return f"set by {place}"


# fmt: off

# Connections, and what a client may send.
FRAME_BYTES_MAX: Final = Limit(131_072, 4096, 16_777_216, "bytes", KEY, "protocol/frames",
    "501 FRAME_ERROR closes the connection before anything is allocated")
FRAME_BYTES_BEFORE_OPEN: Final = Limit(8192, 4096, 131_072, "bytes", GUARD, "protocol/frames",
    "501 FRAME_ERROR closes the socket")
BODY_BYTES_MAX: Final = Limit(16_777_216, 0, 536_870_912, "bytes", KEY,
    "broker/connection/connection",
    "406 PRECONDITION_FAILED closes the channel before any body is read")
TABLE_DEPTH_MAX: Final = Limit(32, 1, 128, "levels", GUARD, "protocol/values",
    "502 SYNTAX_ERROR closes the connection")
UNFINISHED_BYTES: Final = Limit(67_108_864, 0, 68_719_476_736,
    "bytes per connection of messages that have come in part; twice body_bytes_max at least", KEY,
    "broker/connection/unfinished", "it is not read for 10 s at most, then 506 RESOURCE_ERROR "
    "closes it")
UNFINISHED_NODE_BYTES: Final = Limit(536_870_912, 0, 68_719_476_736,
    "bytes of messages that have come in part, of all connections", KEY,
    "broker/connection/unfinished", "a connection has room for as much as is free, at most; after "
    "10 s 506 RESOURCE_ERROR closes connections that bring nothing")
CHANNELS_MAX: Final = Limit(2047, 1, 65_535, "channels per connection", KEY, "protocol/handshake",
    "530 NOT_ALLOWED closes the connection")
CONNECTIONS_MAX: Final = Limit(20_000, 1, 1_000_000, "connections", KEY, "server/net/listener",
    "the socket is closed at once and counted")
CORES: Final = Limit(1, 1, 64, "broker processes", KEY, "server/workers/parent",
    "a start with more is refused; each has virtual hosts of its own")
HANDSHAKE_MS: Final = Limit(10_000, 100, 600_000, "milliseconds", KEY, "server/boot/node",
    "the socket is closed")
LOGIN_DELAY_MS: Final = Limit(1000, 0, 8000, "milliseconds", KEY, "broker/session/guessing",
    "a refused login is answered only then; twice as late with every one after the fifth")
LOGIN_FAILURES: Final = Limit(8192, 16, 1_048_576, "addresses and users that failed to log in",
    BOOKS, "broker/session/guessing", "who has been quiet longest is forgotten")
SUSPECT_SOCKETS: Final = Limit(16, 1, 65_536,
    "sockets that have not logged in, of an address that has failed to lately", GUARD,
    "broker/session/guessing", "the new socket is closed and counted")
STRANGERS: Final = Limit(8192, 16, 1_048_576, "sockets that have not logged in", GUARD,
    "broker/session/guessing", "the new socket is closed and counted")
STRANGERS_PER_ADDRESS: Final = Limit(4096, 16, 1_048_576,
    "sockets of one address that have not logged in", GUARD, "broker/session/guessing",
    "the new socket is closed and counted")
LOG_LINES: Final = Limit(1000, 0, 100_000,
    "lines of the log, of 2,000 letters at most, that can be asked for", KEY, "base/recent_lines",
    "the oldest is forgotten; the log itself keeps it")
AUDIT_BYTES: Final = Limit(16_777_216, 65_536, 1_073_741_824, "bytes of a file of the audit log",
    GUARD, "server/disk/audit_file", "the next one begins, and the fourth is forgotten")
AUDIT_LINES: Final = Limit(10_000, 100, 1_000_000, "lines of the audit log that wait for the disk",
    BOOKS, "server/disk/audit_file", "more are dropped, and their number is written")
REFUSALS_REMEMBERED: Final = Limit(4096, 16, 1_048_576, "refused operations, each of a user on "
    "one thing", BOOKS, "broker/session/audit", "the one that is known longest is forgotten")
REFUSAL_LINES: Final = Limit(100, 1, 100_000, "lines a minute on what a user was refused", GUARD,
    "broker/session/audit", "more are counted in the next one")
PASSWORD_CHECKS: Final = Limit(256, 1, 65_536, "passwords that wait to be checked", GUARD,
    "server/machine/password_thread",
    "a login of the address that has most of them is refused")
TLS_HANDSHAKE_MS: Final = Limit(5000, 100, 600_000, "milliseconds", KEY, "server/net/handshakes",
    "the socket is closed")
TLS_HANDSHAKES: Final = Limit(1024, 1, 65_536, "TLS handshakes under way", GUARD,
    "server/net/handshakes", "one of the address that has most of them is closed and counted")
TLS_HANDSHAKE_BYTES: Final = Limit(131_072, 16_384, 1_048_576, "bytes of a client's TLS handshake",
    GUARD, "server/net/handshakes", "the socket is closed")
TLS_SILENT_BYTES: Final = Limit(131_072, 32_768, 16_777_216,
    "bytes of TLS in a row that carry no content, as updates of keys", GUARD, "server/net/tls",
    "the socket is closed")
EARLY_METHODS: Final = Limit(64, 4, 4096, "methods before a login was answered", GUARD,
    "broker/session/negotiate", "504 CHANNEL_ERROR closes the connection")
OAUTH_JWKS_AGE_S: Final = Limit(300, 1, 86_400, "seconds", KEY, "server/net/token_checker",
    "the keys of tokens are read again")
OAUTH_JWKS_TIMEOUT_MS: Final = Limit(5000, 100, 60_000, "milliseconds", KEY,
    "server/net/token_checker", "reading keys is given up, and those of before are used on")
OAUTH_JWKS_BYTES: Final = Limit(262_144, 1024, 16_777_216, "bytes of a JWKS", GUARD,
    "server/net/token_checker", "it is not read, and the keys of before are used on")
OAUTH_KEYS: Final = Limit(64, 1, 4096, "keys of tokens", GUARD, "server/net/token_keys",
    "the JWKS is not used, and the keys of before are used on")
OAUTH_TOKEN_BYTES: Final = Limit(16_384, 4096, 1_048_576, "bytes of a token", GUARD,
    "server/net/token_checker", "the login is refused")
OAUTH_TOKENS: Final = Limit(256, 1, 65_536, "tokens that are being checked", GUARD,
    "server/net/token_checker", "the login is refused")
USER_PAGES: Final = Limit(4096, 16, 1_048_576, "users and virtual hosts with accounts", BOOKS,
    "broker/settings/ledger", "those of users who are gone, with nothing left, are dropped")
OAUTH_SCOPES: Final = Limit(2048, 1, 1_048_576, "scopes of a token", GUARD,
    "broker/session/tokens", "the login is refused")
HEARTBEAT_S: Final = Limit(60, 0, 65_535, "seconds", KEY, "protocol/heartbeat",
    "a peer silent for two intervals is closed")
LINGER_MS: Final = Limit(30_000, 0, 600_000, "milliseconds", KEY, "server/net/lingering",
    "the socket of a closed connection is closed, though its peer has not closed it; 0 at once")
LINGERING_SOCKETS: Final = Limit(1024, 1, 65_536,
    "sockets of closed connections whose peers have not closed them", GUARD, "server/net/lingering",
    "the one that has waited longest is closed")
HANDOVER_BYTES: Final = Limit(1_048_576, 65_536, 16_777_216,
    "bytes with which a connection goes to another process of the broker", GUARD,
    "broker/session/handover", "506 RESOURCE_ERROR closes the connection")
TLS_HOMES: Final = Limit(4096, 16, 1_048_576,
    "hosts of which it is known which process their clients are for", BOOKS,
    "server/net/tls_homes", "the one that was told first is forgotten")
HANDOVERS_WAITING: Final = Limit(1024, 1, 65_536,
    "connections that wait until another process of the broker takes them", GUARD,
    "server/net/handover_socket", "the socket is closed and counted")
OUTPUT_STALL_INTERVALS: Final = Limit(2, 1, 1000,
    "heartbeat intervals in which a socket takes nothing of what waits for it", GUARD,
    "server/net/stall_timeout", "the socket is closed")
SOCKET_OUTPUT_HIGH_BYTES: Final = Limit(262_144, 4096, 67_108_864, "bytes per connection", KEY,
    "server/net/sockets", "the connection's consumers leave the ready lists")
SOCKET_ANSWERS_BYTES: Final = Limit(16_777_216, 1_048_576, 1_073_741_824,
    "bytes per connection that its socket does not take, without deliveries: confirms and answers",
    GUARD, "broker/actors/output",
    "the connection is not read until its peer has taken nearly all of them")
PARKED_BYTES: Final = Limit(50_331_648, 0, 1_073_741_824,
    "bytes of publishes per connection that wait for queues which take nothing", KEY,
    "broker/channel/parking_lot", "what parked_full says: stop reading, nack, or close the channel")
PARKED_NODE_BYTES: Final = Limit(536_870_912, 0, 68_719_476_736, "bytes parked by all connections",
    KEY, "broker/channel/parking_lot", "a connection has room for as much as is free, at most")
PARKED_DISK_BYTES: Final = Limit(1_073_741_824, 0, 1_099_511_627_776,
    "bytes on the disk for publishes parked by all connections; 0 for none", KEY,
    "broker/channel/parking_disk", "a connection has room for as much as is free, at most")
PARKED_PIECE_BYTES: Final = Limit(262_144, 1024, 16_777_216,
    "bytes of parked publishes for one queue that go to the disk and come back together", GUARD,
    "broker/channel/parking_disk", "more are another piece; one publish goes whatever its size")
PARKED_WRITE_BYTES: Final = Limit(1_048_576, 1024, 67_108_864,
    "bytes of parked publishes of a connection that are being written", GUARD,
    "broker/channel/parking_disk", "the rest waits in memory, in its room")
PARKED_METHODS: Final = Limit(1024, 16, 65_536,
    "methods per channel behind a basic.get whose message is being read from the disk", GUARD,
    "broker/channel/inbox", "the connection is not read until the message is there")
PARKED_METHODS_BYTES: Final = Limit(1_048_576, 131_072, 16_777_216,
    "bytes of such methods per channel", GUARD, "broker/channel/inbox",
    "the connection is not read until half of them are done")
UNCONFIRMED_MAX: Final = Limit(1_000_000, 1, 100_000_000, "publishes per channel", GUARD,
    "broker/actors/confirms", "the publisher's gate closes until confirms go out")
CONSUMERS_PER_CHANNEL: Final = Limit(65_535, 1, 1_000_000, "consumers", GUARD,
    "broker/session/consume", "530 NOT_ALLOWED closes the connection")
TX_MESSAGES_MAX: Final = Limit(100_000, 1, 10_000_000, "publishes and settles per transaction",
    GUARD, "broker/channel/transactions", "406 PRECONDITION_FAILED closes the channel")
TX_BYTES_MAX: Final = Limit(134_217_728, 0, 4_294_967_296, "bytes per transaction", GUARD,
    "broker/channel/transactions", "406 PRECONDITION_FAILED closes the channel")

# Links between nodes, and clients that come to a node which does not lead.
CLUSTER_LINK_FRAME_BYTES: Final = Limit(134_217_728, 1_048_576, 1_073_741_824,
    "bytes of one frame between two nodes", GUARD, "server/cluster/link_frames",
    "the link is closed, and made again")
CLUSTER_LINK_BYTES: Final = Limit(134_217_728, 1_048_576, 4_294_967_296,
    "bytes that wait to be sent to one node", GUARD, "server/cluster/links",
    "the link is closed, and the node catches up when it is there again")
CLUSTER_LINK_SILENCE_MS: Final = Limit(5000, 500, 600_000,
    "milliseconds in which a node says nothing over its link", GUARD, "server/cluster/links",
    "the link is closed, and made again")
CLUSTER_CLOCK_MS: Final = Limit(60_000, 1000, 86_400_000,
    "milliseconds that the clocks of two nodes are apart", GUARD, "server/cluster/admission",
    "the link is refused in words")
CLUSTER_FORWARD_WAIT_MS: Final = Limit(30_000, 0, 600_000,
    "milliseconds that a client waits until a node leads", GUARD, "server/cluster/forward",
    "it is closed")
CLUSTER_FORWARD_BYTES: Final = Limit(65_536, 4096, 1_048_576,
    "bytes of a forwarded client that a node reads at once, and about as many that wait on either "
    "way", PACE, "server/cluster/forward", "the side they come from is not read")
CLUSTER_KEPT_BYTES: Final = Limit(16_777_216, 65_536, 1_073_741_824,
    "bytes that a node keeps of one client whom it forwards: publishes that are not confirmed, and "
    "what he has declared and consumes", GUARD, "forwarding/asked",
    "publishes are not kept: they are refused (basic.nack) when the leader is gone")
CLUSTER_KEPT_NODE_BYTES: Final = Limit(268_435_456, 65_536, 68_719_476_736,
    "bytes that a node keeps of all clients whom it forwards", GUARD, "forwarding/asked",
    "publishes are not kept: they are refused (basic.nack) when the leader is gone")
CLUSTER_SEEN_RUNS: Final = Limit(65_536, 1024, 16_777_216,
    "runs of publishes through other nodes that a node knows to be in the log; a publisher mostly "
    "has one", GUARD, "replication/seen",
    "the publisher that has been silent for longest is forgotten: what it has sent again after a "
    "failover may be there twice")
CLUSTER_RESYNC_BYTES_PER_S: Final = Limit(67_108_864, 1_048_576, 10_737_418_240,
    "bytes a second of a copy of a leader's directory", PACE, "server/cluster/member",
    "the copy rests, so that links and disks are left to entries")

# What a client is told, and how long it is waited for.
CHANNEL_FLOW_REPLY_MS: Final = Limit(10_000, 100, 600_000, "milliseconds", GUARD,
    "broker/connection/client_notifier",
    "the missing flow-ok is taken as read, and logged once a connection")
CHANNEL_FLOW_GRACE_MS: Final = Limit(60_000, 1000, 3_600_000, "milliseconds", GUARD,
    "broker/connection/client_notifier",
    "503 COMMAND_INVALID closes a connection that published after its flow-ok(false)")
CHANNEL_FLOW_STALL_MS: Final = Limit(2000, 100, 600_000, "milliseconds",
    argument("opting in to channel.flow or not"), "broker/connection/client_notifier",
    "channel.flow tells a client that has opted in")
NOTIFY_BLOCKED_MS: Final = Limit(0, 0, 86_400_000, "milliseconds", KEY,
    "broker/connection/client_notifier", "connection.blocked names the queue; 0 never does")
ALERT_PAUSE_MS: Final = Limit(300_000, 0, 86_400_000, "milliseconds between two alerts", KEY,
    "broker/alarm/alerts", "an alert is not sent, and the next one says how many were not")
ALERT_TIMEOUT_MS: Final = Limit(10_000, 100, 600_000, "milliseconds", KEY,
    "server/recorder/alert_sender",
    "the alert's command is killed, its request is given up, and the log says so")
CONSUMER_TIMEOUT_MS: Final = Limit(1_800_000, 0, 31_536_000_000, "milliseconds", KEY,
    "broker/connection/consumer_timeout",
    "406 PRECONDITION_FAILED closes the channel, its deliveries are requeued; 0 never does")

# Virtual hosts, routing, definitions, policies.
VHOSTS_MAX: Final = Limit(10_000, 1, 1_000_000, "virtual hosts", GUARD,
    "broker/admin/definitions_import", "definitions that would make more are refused as a whole")
USERS_MAX: Final = Limit(10_000, 1, 1_000_000, "users", GUARD,
    "broker/admin/definitions_import", "definitions that would make more are refused as a whole")
QUEUES_PER_VHOST: Final = Limit(1_000_000, 1, 100_000_000, "queues", GUARD, "broker/vhost/vhost",
    "406 PRECONDITION_FAILED closes the channel")
BINDINGS_PER_VHOST: Final = Limit(10_000_000, 1, 100_000_000, "bindings", GUARD,
    "broker/vhost/vhost", "406 PRECONDITION_FAILED closes the channel")
TOPIC_HASHES: Final = Limit(32, 1, 128, "words '#' of one pattern", KEY, "routing/topic",
    "406 PRECONDITION_FAILED refuses the binding and closes the channel")
TOPIC_POSITIONS: Final = Limit(500_000, 1, 10_000_000,
    "words of all patterns of one exchange that have a '#' before other words", KEY,
    "routing/topic", "406 PRECONDITION_FAILED refuses the binding and closes the channel")
HEADERS_VALUES: Final = Limit(256, 1, 65_536,
    "values in the arguments of one binding to a headers exchange, nested ones among them", KEY,
    "routing/headers", "406 PRECONDITION_FAILED refuses the binding and closes the channel")
HEADERS_EXCHANGE_VALUES: Final = Limit(100_000, 1, 10_000_000,
    "values in the arguments of all bindings to one headers exchange", KEY, "routing/headers",
    "406 PRECONDITION_FAILED refuses the binding and closes the channel")
MESSAGE_HEADERS: Final = Limit(65_536, 1, 1_048_576,
    "headers of a message that an exchange looks at", KEY, "broker/channel/publish",
    "406 PRECONDITION_FAILED closes the channel; one frame of frame_bytes_max has 21,800 at most")
EXCHANGE_HOPS_MAX: Final = Limit(1024, 1, 65_536, "exchanges visited by one publish", GUARD,
    "routing/router", "exchanges beyond it are not visited and the event is counted")
SUPER_STREAM_PARTITIONS: Final = Limit(256, 1, 256,
    "partitions of a super stream that commands make; one Spark query reads no more", GUARD,
    "server/control/questions_super_streams", "the command is refused")
ROUTE_CACHE_ENTRIES: Final = Limit(4096, 1, 1_048_576, "routes per channel", BOOKS,
    "broker/channel/publish", "the cache is emptied and refilled")
DEDUPLICATION_ENTRIES: Final = Limit(10_000_000, 1, 1_000_000_000,
    "entries in the cache of one message deduplication exchange",
    argument("x-cache-size of the exchange"), "routing/deduplication",
    "406 PRECONDITION_FAILED refuses a larger x-cache-size; a full cache drops its oldest entry")
CATALOGUE_CHANGES: Final = Limit(100_000, 1, 10_000_000,
    "changes to what is durable that wait for the disk", GUARD, "broker/vhost/metadata_store",
    "406 PRECONDITION_FAILED refuses what is to be kept and closes the channel; what is deleted "
    "is still taken")
POLICIES_PER_VHOST: Final = Limit(1000, 0, 100_000, "policies, and as many operator policies",
    GUARD, "broker/policy/policies", "the policy is refused")
PATTERN_BYTES: Final = Limit(1024, 1, 65_536, "bytes of one pattern", GUARD,
    "broker/vhost/patterns", "the pattern is refused")
PERMISSIONS_MAX: Final = Limit(100_000, 1, 10_000_000,
    "permissions, and as many topic permissions", GUARD, "broker/session/permissions",
    "the new one is refused")
RIGHTS_REMEMBERED: Final = Limit(1024, 1, 1_048_576,
    "names whose answer is remembered, of a user in a virtual host", BOOKS, "broker/vhost/rights",
    "all are forgotten, and searched for anew")
PATTERN_MEMORY_BYTES: Final = Limit(1_048_576, 65_536, 67_108_864,
    "bytes that one pattern may take", GUARD, "broker/vhost/patterns",
    "the pattern is refused, or matched more slowly")
POLICY_SWEEP_MATCHES: Final = Limit(512, 1, 1_000_000,
    "patterns matched in one slice of applying a changed policy", PACE,
    "broker/policy/policy_manager", "the rest follows in later slices, others' turns between them")

# Turns, flow control, rates.
TURN_MESSAGES: Final = Limit(1024, 1, 1_048_576, "messages per turn", KEY,
    "broker/actors/actor", "the actor goes to the end of the ready line")
UNSENT_DELIVERIES: Final = Limit(200, 1, 65_535, "deliveries per queue and channel", PACE,
    "queues/consumers", "the consumer leaves the ready list until its socket has taken them")
UNSENT_DELIVERIES_MAX: Final = Limit(2048, 1, 65_535, "deliveries per queue and channel", PACE,
    "queues/consumers", "as many while its socket takes them all; the consumer gets no more then")
WATCHDOG_MS: Final = Limit(60_000, 100, 3_600_000, "milliseconds", KEY, "flow/watchdog",
    "a hop that waited so long, its blocker finishing nothing, is reported; a lost grant is mended")
WATCHDOG_HOPS: Final = Limit(10_000, 100, 1_000_000, "hops per tick", PACE,
    "broker/settings/hop_watch", "the watchdog goes on with the next hops at its next tick")
ADAPTIVE_BYTES_MIN: Final = Limit(16_384, 1, 16_777_216, "bytes per hop", TUNED, "flow/adaptive",
    "the window is not cut any more")
ADAPTIVE_BYTES_MAX: Final = Limit(4_194_304, 65_536, 1_073_741_824, "bytes per hop", TUNED,
    "flow/adaptive", "the window is not raised any more")
ADAPTIVE_MESSAGES_MIN: Final = Limit(8, 1, 1_000_000, "messages per hop", TUNED, "flow/adaptive",
    "the window is not cut any more")
ADAPTIVE_MESSAGES_MAX: Final = Limit(6400, 16, 1_000_000, "messages per hop", TUNED,
    "flow/adaptive", "the window is not raised any more")
RATE_CONNECTION_MESSAGES: Final = Limit(0, 0, 1_000_000_000_000,
    "messages a second published by one connection", KEY, "broker/settings/rates",
    "publishes wait for the next token; 0 never")
RATE_CONNECTION_BYTES: Final = Limit(0, 0, 1_000_000_000_000,
    "bytes a second published by one connection", KEY, "broker/settings/rates",
    "publishes wait for the next token; 0 never")
RATE_BURST_MS: Final = Limit(50, 10, 60_000, "milliseconds of a rate limit's tokens", KEY,
    "flow/rate", "no more tokens gather")
RATE_LIMITS: Final = Limit(10_000, 1, 1_000_000,
    "users, virtual hosts and queues with a rate limit set while running", GUARD,
    "broker/settings/rates", "the change is refused")
DEPTH_MARKS: Final = Limit(10_000, 1, 1_000_000,
    "queues with a depth mark set while running", GUARD, "broker/policy/depth_marks",
    "the change is refused")
SETTING_REVERTS: Final = Limit(64, 1, 10_000, "changes of settings that wait to be taken back",
    GUARD, "broker/settings/settings", "the change is refused")
KEPT_SETTINGS: Final = Limit(2048, 1, 65_536,
    "settings changed while running that several workers, or a cluster, keep for brokers that "
    "begin later", BOOKS, "server/cluster/kept_settings",
    "the change is in force, and the answer says that it is not kept")
KEPT_SETTINGS_BYTES: Final = Limit(1_048_576, 4096, 1_048_576,
    "bytes of them as JSON; etcd takes a value of a megabyte and a half", BOOKS,
    "server/cluster/kept_settings",
    "the change is in force, and the answer says that it is not kept")

# Queues, dead letters, delayed messages.
QUEUE_DEPTH_BYTES: Final = Limit(0, 0, 1_099_511_627_776,
    "bytes of one queue, 0 for a fifth of the memory mark", KEY, "broker/queue/classic_actor",
    "publishers of the queue are held until it has shrunk")
RABBIT_IO_BATCH: Final = Limit(4096, 1, 1_000_000,
    "positions, in profiles that emulate RabbitMQ; 2048 in rabbitmq-3.5",
    argument("`msg_store_io_batch_size`, whose default is the profile's"),
    "queues/rabbit_paging", "fewer positions than this stay in memory, more leave together")
RABBIT_EMBED_BELOW: Final = Limit(4096, 0, 536_870_912,
    "bytes of body and properties, in profiles that emulate RabbitMQ; 0 for none",
    argument("`queue_index_embed_msgs_below`, whose default is the profile's"),
    "broker/store/durability",
    "a smaller message costs no credit to the store, and stays in memory until its place leaves")
SOFT_LIMIT: Final = Limit(0, 0, 1_000_000,
    "publishes of one channel on their way to one quorum queue, 0 for no limit; 32 in rabbitmq-4",
    argument("`quorum_commands_soft_limit`, whose default is the profile's"),
    "flow/pending", "publishes for that queue wait until fewer are on their way")
PAGED_MARKS: Final = Limit(4096, 2, 65_536,
    "times of arrival remembered for the paged messages of one queue, 100 bytes each", BOOKS,
    "queues/message_ttl",
    "they become coarser: messages die late by a 2000th of the time they span")
PAGED_PAYERS: Final = Limit(256, 1, 65_536, "causes remembered for one stretch of paged messages",
    BOOKS, "queues/delta", "the first of the stretch pays for the messages of the second")
DEAD_LETTER_WINDOW: Final = Limit(32, 1, 100_000, "dead letters of one queue under way", PACE,
    "broker/dead_letter/dead_letters",
    "nothing more expires: what is dead stays at the head of its queue")
DEAD_LETTER_WINDOW_BYTES: Final = Limit(1_048_576, 1, 1_073_741_824, "bytes of one queue under way",
    PACE, "broker/dead_letter/dead_letters",
    "nothing more expires: what is dead stays at the head of its queue")
DEAD_LETTER_BACKLOG: Final = Limit(100_000, 0, 10_000_000, "dead letters of one queue", GUARD,
    "broker/dead_letter/dead_letters",
    "what is rejected or is too much is lost and counted as overflow")
DEAD_LETTER_BACKLOG_BYTES: Final = Limit(67_108_864, 0, 10_737_418_240, "bytes of one queue", GUARD,
    "broker/dead_letter/dead_letters",
    "what is rejected or is too much is lost and counted as overflow")
DEAD_LETTER_RETRY_MS: Final = Limit(1000, 10, 600_000, "milliseconds", PACE,
    "broker/dead_letter/dead_letters",
    "a dead letter that has to be confirmed and was not is published again")
DELAYED_MESSAGES_MAX: Final = Limit(1_000_000, 1, 100_000_000,
    "messages held by one delayed message exchange", KEY, "broker/dead_letter/delay_store",
    "its publishers wait until some are released")
DELAYED_BYTES_MAX: Final = Limit(268_435_456, 1, 1_099_511_627_776,
    "bytes of memory held by one delayed message exchange", KEY, "broker/dead_letter/delay_store",
    "its publishers wait until some are released")

# The message store and the disk.
STORE_SEGMENT_BYTES: Final = Limit(16_777_216, 1024, 1_073_741_824, "bytes of one segment", KEY,
    "storage/log/log", "the next message begins a new segment; a larger message has one to itself")
STORE_SPARE_SEGMENTS: Final = Limit(4, 0, 64,
    "files of removed segments that one store keeps to write over", KEY, "storage/log/recycled",
    "further ones are removed; all are when nothing was written for 3 s, or when room runs out")
STORE_SYNC_INTERVAL_MS: Final = Limit(200, 1, 60_000,
    "milliseconds from a write to its sync, in the mode interval", KEY, "broker/actors/syncing",
    "everything written since the last sync is synced")
STORE_GATHER_US: Final = Limit(1000, 0, 100_000,
    "microseconds for which a batch waits for messages that are about to come", PACE,
    "broker/store/gathering", "the batch goes to the disk as it is")
STORE_GATHER_MESSAGES: Final = Limit(2048, 1, 1_000_000,
    "messages for which a batch waits where no publisher's window is seen", PACE,
    "broker/store/gathering", "the batch goes to the disk")
STORE_OPEN_FILES: Final = Limit(64, 2, 4096, "open segments of one store", PACE,
    "storage/log/handles", "the one unused for longest is closed, unless it waits for a sync")
STORE_FREEING_FILES: Final = Limit(16, 0, 4096, "removed files whose room is being given back",
    PACE, "server/disk/disk_files", "the disk's thread gives the room of further ones back itself")
STORE_TABLE_CACHE_BYTES: Final = Limit(8_388_608, 0, 1_073_741_824,
    "bytes of one store's tables read from footers", BOOKS, "storage/log/reading",
    "the one unused for longest is forgotten, and read again when it is needed")
STORE_COPY_BYTES: Final = Limit(262_144, 1024, 16_777_216,
    "bytes copied at a time while a segment is compacted", PACE, "storage/log/compaction",
    "the rest is copied in the next slices")
STORE_COPY_RECORDS: Final = Limit(500, 1, 1_000_000,
    "messages copied at a time while a segment is compacted", PACE, "storage/log/compaction",
    "the rest is copied in the next slices")
STORE_READ_PATIENCE_MS: Final = Limit(60_000, 0, 86_400_000,
    "milliseconds for which a read that fails with EIO is tried again", GUARD,
    "broker/paging/read_again",
    "what it was for is lost: the queue is paused, and listed as damaged")
STORE_FINDINGS: Final = Limit(1000, 1, 1_000_000, "findings of one `penstock store check`", BOOKS,
    "storage/check/findings", "further ones are counted, not kept")
HANDLES_KEPT: Final = Limit(256, 16, 65_536, "open files of the process that are not for clients",
    GUARD, "server/net/listener",
    "a socket beyond is closed at once and counted; of fewer than 1,024 files it is a quarter")
DISK_RESERVE_BYTES: Final = Limit(0, 0, 1_099_511_627_776, "bytes", KEY,
    "server/machine/reserve_file",
    "the disk alarm is set and the reserve given up, so that the broker itself can still write")

# Streams.
STREAM_SEGMENT_BYTES: Final = Limit(500_000_000, 1024, 3_000_000_000,
    "bytes of one segment of a stream, without x-stream-max-segment-size-bytes",
    argument("x-stream-max-segment-size-bytes"), "streams/log",
    "the next chunk begins a new segment, and retention looks at the oldest ones")
STREAM_MEMORY_BYTES: Final = Limit(67_108_864, 65_536, 1_073_741_824,
    "bytes of one stream of a broker that keeps everything in memory",
    GUARD, "broker/node/stream_registry",
    "the oldest segments go; a segment is an eighth of it at most")
STREAM_READ_BYTES: Final = Limit(262_144, 4096, 16_777_216,
    "bytes read ahead for one consumer of a stream; a larger chunk is read alone", PACE,
    "streams/reading", "the next read waits until these messages are delivered")
STREAM_CHUNK_READ_BYTES: Final = Limit(1_048_576, 4096, 16_777_216,
    "bytes read ahead and delivered at once to a consumer that takes whole chunks; a larger chunk"
    " is read alone", PACE, "broker/stream/chunk_cursor",
    "the next read waits until these chunks are delivered")
STREAM_OPEN_FILES: Final = Limit(64, 2, 4096, "open segments of the streams of one virtual host",
    PACE, "streams/handles", "the one unused for longest is closed, unless it waits for a sync")
STREAM_GROUPS: Final = Limit(64, 64, 64, "reader groups of one stream", GUARD,
    "broker/stream/stream_groups", "406 PRECONDITION_FAILED, naming those there are")
STREAM_GROUP_LAG_BYTES: Final = Limit(10_000_000_000, 1, 1_000_000_000_000_000,
    "bytes that a reader group may be behind when neither it nor the stream has a bound of its own",
    argument("max_lag_bytes of the group, x-max-lag-bytes"), "broker/stream/stream_groups",
    "publishers to the stream are given no credit until the group has caught up to three quarters")
STREAM_ORIGIN_SPANS: Final = Limit(128, 128, 128,
    "spans of offsets for which one stream knows who published what its reader groups keep", BOOKS,
    "streams/origins", "each two become one: the count gets coarser")
STREAM_ORIGINS: Final = Limit(32, 32, 32, "publishers that are told apart in one such span", BOOKS,
    "streams/origins", "what others published is on the page of the virtual host")
EVENT_STREAM_BYTES: Final = Limit(256_000_000, 1_000_000, 1_000_000_000_000,
    "bytes of the broker's stream of its own flow events (event_stream)", KEY,
    "broker/stream/internal_stream",
    "the oldest eighth goes; what a reader group pins beyond it is not written, and counted")

# Leases and staged transactions.
LEASE_GROUPS: Final = Limit(16, 1, 1024, "groups that lease messages of one queue", GUARD,
    "broker/lease/lease_manager",
    "another group is refused (406) until one of them is released with forget")
LEASE_MESSAGES: Final = Limit(100_000, 1, 1_000_000, "messages that one group leases of one queue",
    argument("max_messages of the request"), "broker/lease/lease_manager",
    "what was leased is answered; the next ones come with the next lease")
LEASE_BYTES: Final = Limit(134_217_728, 65_536, 4_294_967_296,
    "bytes of messages that one group leases of one queue; one message may have more",
    argument("max_bytes of the request"), "broker/lease/lease_manager",
    "what was leased is answered; the next ones come with the next lease")
LEASE_RUNS: Final = Limit(4096, 1, 65_536,
    "gaps in what one group leases of one queue, where others hold messages in between", PACE,
    "broker/lease/lease_actor",
    "what was leased is answered; the next ones come with the next lease")
LEASE_WAITING: Final = Limit(4, 1, 64, "requests that wait for another one of the same group",
    GUARD, "broker/lease/lease_manager", "a further request is refused (406)")
LEASE_TIMEOUT_MS: Final = Limit(900_000, 100, 86_400_000,
    "milliseconds a group keeps its messages without a sign of life, unless it says otherwise",
    argument("timeout_ms of the request"), "broker/lease/lease_manager",
    "its messages go back to the queue, where they were")
TRANSACTION_BYTES: Final = Limit(67_108_864, 1024, 536_870_912,
    "bytes that one staged transaction may reserve", argument("max_bytes of the request"),
    "broker/transaction/transaction_manager",
    "406 PRECONDITION_FAILED refuses the beginning, or the publish that does not fit")
TRANSACTIONS_BYTES: Final = Limit(268_435_456, 1024, 1_073_741_824,
    "bytes that all staged transactions of a broker may reserve together", GUARD,
    "broker/transaction/transaction_manager",
    "406 PRECONDITION_FAILED refuses the beginning of one more; no client is kept waiting")
TRANSACTIONS_STAGED: Final = Limit(4096, 1, 1_000_000, "staged transactions of a broker", GUARD,
    "broker/transaction/transaction_manager",
    "406 PRECONDITION_FAILED refuses the beginning of one more")
TRANSACTION_TTL_MS: Final = Limit(600_000, 1000, 86_400_000,
    "milliseconds a transaction may live before it is committed", argument("ttl_ms of the request"),
    "broker/transaction/transaction_manager",
    "it is rolled back, and a commit of it is refused as a whole with 404")
TRANSACTION_APPS: Final = Limit(1000, 1, 100_000,
    "apps of a virtual host whose last batch is remembered", GUARD,
    "broker/transaction/transaction_manager",
    "406 PRECONDITION_FAILED refuses the first batch of one more, until one is forgotten")
TRANSACTION_WAITING: Final = Limit(16, 1, 1024,
    "commits of one app that wait for another one of it", GUARD,
    "broker/transaction/transaction_manager", "a further one is refused (406)")

# Several nodes with one log.
CLUSTER_ENTRY_BYTES: Final = Limit(1_048_576, 65_536, 16_777_216,
    "bytes of operations in one entry of the replicated log; one operation may be larger", PACE,
    "replication/operations", "what follows goes into another entry")
CLUSTER_WINDOW_BYTES: Final = Limit(67_108_864, 1_048_576, 1_073_741_824,
    "bytes of entries that a leader has sent and no majority has on its disks", GUARD,
    "server/cluster/child_pipe",
    "the leader's disk waits, so its stores give no credit and publishers are held")
CLUSTER_FRAME_BYTES: Final = Limit(134_217_728, 1_048_576, 1_073_741_824,
    "bytes of one frame between a member and its broker", GUARD, "server/cluster/pipe",
    "the pipe is closed, and the broker stops")
CLUSTER_STOP_MS: Final = Limit(5000, 0, 600_000,
    "milliseconds that a leader's clean stop waits for a majority", GUARD,
    "server/cluster/committed_disk", "it stops; what was not confirmed is not confirmed any more")
CLUSTER_APPLY_BYTES: Final = Limit(67_108_864, 2_097_152, 1_073_741_824,
    "bytes of entries that wait for a follower's disk", GUARD, "server/cluster/applier",
    "no more are taken until some are applied; the link is not read meanwhile")
CLUSTER_JOURNAL_BYTES: Final = Limit(8_388_608, 524_288, 1_073_741_824,
    "bytes of entries that a follower has in its journal, and whose files are not synced", PACE,
    "server/cluster/applier", "the files are synced, and the journal begins anew")
CLUSTER_JOURNAL_ENTRY_BYTES: Final = Limit(262_144, 1024, 16_777_216,
    "bytes of an entry that goes into a follower's journal", PACE, "server/cluster/applier",
    "a larger one is synced in its files")
CLUSTER_APPLY_FILES: Final = Limit(64, 4, 4096, "files a follower keeps open", PACE,
    "server/cluster/follower_files", "the one unused longest is synced and closed")
CLUSTER_APPLY_ENTRIES: Final = Limit(64, 1, 65_536,
    "entries after which a follower writes down how far it is", PACE, "server/cluster/applier",
    "it writes its position, and tells its leader")
RESYNC_RANGE_BYTES: Final = Limit(1_048_576, 65_536, 16_777_216,
    "bytes of a file that are compared and copied as one", PACE, "server/cluster/resync_rows",
    "the next range begins")
RESYNC_HASHED_BYTES: Final = Limit(33_554_432, 1_048_576, 1_073_741_824,
    "bytes that are read for one page of a directory's manifest", PACE,
    "server/cluster/resync_source", "the rest is for the next page")
RESYNC_PAGE_ROWS: Final = Limit(1000, 1, 100_000, "files in one page of a directory's manifest",
    PACE, "server/cluster/resync_source", "the rest is for the next page")

# The flight recorder, the control socket.
RECORDER_EVENTS: Final = Limit(65_536, 0, 16_777_216, "events", KEY, "telemetry/recorder",
    "the oldest event is dropped and counted; 0 records nothing")
RECORD_BYTES: Final = Limit(67_108_864, 1_048_576, 1_073_741_824,
    "bytes of one saved flight record, compressed", BOOKS, "server/recorder/service",
    "what does not fit is left out, the oldest events first, and counted in the record")
INCIDENTS_KEPT: Final = Limit(2, 0, 16, "flight records frozen by an alarm or by throttling", BOOKS,
    "server/recorder/service", "the oldest is dropped")
BLOCK_ENTRIES: Final = Limit(64, 1, 4096, "(peer, reason) pairs per actor", BOOKS,
    "telemetry/accounting", "the pair opened longest ago is folded into 'others'")
WINDOW_SNAPSHOTS: Final = Limit(61, 2, 3601, "snapshots", BOOKS, "telemetry/flight",
    "the oldest snapshot is dropped")
HISTORY_CHANGES: Final = Limit(100_000, 1000, 10_000_000, "snapshots of single actors per history",
    BOOKS, "telemetry/window", "the oldest quarter of the history is dropped")
CONTROL_CLIENTS: Final = Limit(16, 1, 1024, "connections to the control socket", GUARD,
    "server/control/control_socket", "the socket is closed at once")
CONTROL_REQUEST_BYTES: Final = Limit(33_554_432, 65_536, 1_073_741_824,
    "bytes of one request on the control socket", GUARD, "server/control/control_socket",
    "the socket is closed; `definitions import` says so before it sends anything")

# The management process.
MANAGEMENT_ASKERS: Final = Limit(4, 1, 16, "questions to the broker at a time", GUARD,
    "management/broker_link", "a request over HTTP waits for its turn")
MANAGEMENT_GUESSES: Final = Limit(6, 1, 64, "logins at a time that were not right before",
    GUARD, "management/access", "a login over HTTP waits for its turn")
MANAGEMENT_WRITERS: Final = Limit(8, 1, 256, "changes over AMQP at a time", GUARD,
    "management/amqp_writes", "a request over HTTP waits for its turn")
MANAGEMENT_MOVERS: Final = Limit(2, 1, 64, "requests at a time that move messages", GUARD,
    "management/amqp_writes", "a request over HTTP waits for its turn")
MANAGEMENT_LISTING_MS: Final = Limit(1000, 0, 60_000, "milliseconds", PACE,
    "management/broker_link", "a listing is asked of the broker again; a long one later")
MANAGEMENT_LOGINS: Final = Limit(1024, 1, 65_536, "logins that are remembered for 5 s", BOOKS,
    "management/access", "the oldest one is forgotten")
MANAGEMENT_SESSIONS: Final = Limit(256, 1, 65_536, "sessions of people with a browser", BOOKS,
    "management/pages/sessions", "the one longest without a request is logged out")
MANAGEMENT_HISTORIES: Final = Limit(64, 1, 4096, "objects whose last ten minutes are drawn", BOOKS,
    "management/pages/samples", "the one that no page has shown for longest is forgotten")
MANAGEMENT_BODY_BYTES: Final = Limit(33_554_432, 4096, 1_073_741_824,
    "bytes of the body of a request", GUARD, "management/requests", "the answer is 413")
MANAGEMENT_CONNECTIONS: Final = Limit(512, 1, 65_536, "connections over HTTP", GUARD,
    "management/process", "the answer is 503")

# Members of a cluster.
CLUSTER_HEARTBEAT_MS: Final = Limit(500, 20, 60_000, "milliseconds", KEY, "replication/member",
    "each member tells every other one that it is there")
CLUSTER_SILENCE_MS: Final = Limit(5000, 100, 600_000, "milliseconds", KEY, "replication/member",
    "a leader that was not heard is suspected; a majority of suspicions begins an election")
CLUSTER_QUORUM_MS: Final = Limit(4000, 100, 600_000, "milliseconds", KEY, "replication/leading",
    "a leader that has not heard a majority gives leadership up and confirms nothing more")
CLUSTER_ELECTION_MS: Final = Limit(3000, 100, 600_000, "milliseconds", KEY, "replication/election",
    "an election that came to nothing is begun anew, after up to twice as long")
CLUSTER_LINK_GRACE_MS: Final = Limit(300, 0, 60_000, "milliseconds without a link to the leader",
    KEY, "replication/member", "the leader is suspected; at once when its port refuses")
CLUSTER_DISK_STALL_MS: Final = Limit(10_000, 100, 600_000, "milliseconds", KEY,
    "replication/leading", "a leader whose disk ends nothing gives leadership up")
CLUSTER_IN_SYNC_MS: Final = Limit(5000, 100, 600_000,
    "milliseconds in which a member that is in sync has not on its disk what it was sent",
    KEY, "replication/leading", "it is in sync no more, and mirrored queues go on without it")
CLUSTER_RETENTION_BYTES: Final = Limit(67_108_864, 65_536, 68_719_476_736,
    "bytes of committed entries that a member keeps in memory", KEY, "replication/ring",
    "the oldest are given up; a follower that needs them is copied anew")
CLUSTER_RESYNC_BACKLOG_BYTES: Final = Limit(268_435_456, 65_536, 68_719_476_736,
    "bytes of committed entries that a leader keeps in memory while a follower is copied", KEY,
    "replication/leading", "the oldest are given up, and the copy is made again")
CLUSTER_FOLLOWER_BYTES: Final = Limit(16_777_216, 65_536, 1_073_741_824,
    "bytes of entries under way to one follower that are not on its disk", PACE,
    "replication/leading", "it is sent no more until some are")
CLUSTER_VOTERS: Final = Limit(7, 1, 9, "members of a cluster that vote", GUARD,
    "replication/leading", "further ones follow without a vote")
CLUSTER_FORGOTTEN: Final = Limit(64, 1, 1024, "identities of forgotten members", BOOKS,
    "replication/member", "the one forgotten first is known no longer")

# Spark's source and sink.
CONNECTOR_PREFETCH: Final = Limit(20_000, 1, 65_535,
    "messages of a queue that a Spark query has not acknowledged", argument("option prefetch"),
    "spark/connector/common/options",
    "the broker delivers nothing more to the query until a batch is committed")
CONNECTOR_BUFFERED_BYTES: Final = Limit(67_108_864, 65_536, 1_099_511_627_776,
    "bytes of deliveries in the driver of a Spark query", argument("option maxBufferedBytes"),
    "spark/connector/queue/feed",
    "the query's consumer is cancelled until half of them are committed")
CONNECTOR_IN_FLIGHT: Final = Limit(10_000, 1, 65_535, "unconfirmed publishes of a Spark task",
    argument("option maxInFlight"), "spark/connector/sink/publisher", "the task waits for confirms")
CONNECTOR_IN_FLIGHT_BYTES: Final = Limit(16_777_216, 16_777_216, 16_777_216,
    "bytes of publishes that a Spark task keeps until they are confirmed", PACE,
    "spark/connector/sink/publisher", "the task waits for confirms")
CONNECTOR_TASK_BYTES: Final = Limit(16_777_216, 16_777_216, 16_777_216,
    "bytes of deliveries that a Spark task is sent", PACE, "spark/connector/queue/queue_source",
    "the batch is divided into more tasks")
CONNECTOR_QUEUES: Final = Limit(256, 256, 256,
    "queues that one Spark query reads, each over a connection of its own", GUARD,
    "spark/connector/common/options", "the query is refused")
CONNECTOR_STAGED_BYTES: Final = Limit(16_777_216, 1024, 67_108_864,
    "bytes that a Spark task reserves for the rows it stages", argument("option maxStagedBytes"),
    "spark/connector/common/options", "the task fails and names maxStagedBytes")
# fmt: on


def _named() -> tuple[Limit, ...]:
    rows = []
    for constant, row in tuple(globals().items()):
        if isinstance(row, Limit):
            object.__setattr__(row, "name", constant.lower())
            rows.append(row)
    return tuple(rows)


LIMITS: Final = _named()
"""The rows in their order."""
