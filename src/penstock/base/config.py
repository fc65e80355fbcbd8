"""The broker's settings: one frozen tree, parsed once and handed down; safe on a laptop."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.base import limits
from penstock.base.policy import Policy

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("text", "json")


@dataclass(frozen=True, slots=True)
class UserConfig:
    """One user. `is_loopback_only`: refused from anywhere but this machine (guest);
    `password_hash`, `hashing`: instead of a password, in RabbitMQ's form, see
    broker/session/passwords."""

    name: str
    password: str = field(repr=False)
    is_loopback_only: bool = False
    tags: tuple[str, ...] = ()
    password_hash: str = field(default="", repr=False)
    hashing: str = ""


@dataclass(frozen=True, slots=True)
class AlarmAction:
    """What happens to publishes of `user` in `vhost`, "" for any: under an alarm (block, nack or
    close), or when there is no room to park them (stop, nack or close)."""

    action: str
    vhost: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class RateRow:
    """Messages and bytes a second, 0 for no limit, of every `scope` (user, vhost or queue) whose
    name is matched by `pattern`, with * and ?; a queue's name is VHOST/QUEUE, /QUEUE in vhost /."""

    scope: str
    pattern: str
    messages: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class EntryLimits:
    """How many there may be of what, by RabbitMQ's keys. kind: vhost or user; limits: max-queues
    (vhost), max-channels (user), max-connections (either)."""

    kind: str
    name: str
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PermissionConfig:
    """What a user of the configuration may do in a virtual host of it: patterns of names."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


@dataclass(frozen=True, slots=True)
class TopicPermissionConfig:
    """Patterns for the routing keys of an exchange that a user of the configuration may use."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


@dataclass(frozen=True, slots=True)
class Config:
    """Units are in the names; 0 for port and tls_port means any free port, -1 none.

    login_delay_ms: see limits; upgrade_passwords: whether RabbitMQ's hashes of
    passwords are replaced by argon2id at the next login;
    tls_cert: PEM file with the certificate and those between it and its authority, "" for no TLS;
    tls_key: PEM file with the private key, "" for one in tls_cert; tls_key_password: of an
    encrypted key;
    tls_verify: whether clients show certificates, none, peer (when they have one) or require;
    tls_ca: PEM file with the authorities of those certificates;
    tls_min_version: 1.2 or 1.3; tls_ciphers: of TLS 1.2, as OpenSSL writes lists, "" for its own;
    tls_user_from: where in a certificate the user's name is, see docs/security.md;
    tls_handshake_ms: see limits;
    oauth_resource_server_id: what tokens name as their audience, "" for no logins by token;
    oauth_issuer: who issues them, "" for anybody who has a key; oauth_jwks_file, oauth_jwks_url:
    where keys are; oauth_jwks_ca: PEM file with the authorities of that address, "" for the
    system's; oauth_secret: of HS256, "" for none; oauth_algorithms: that are accepted;
    oauth_verify_aud, oauth_require_exp: whether tokens need an audience and an end;
    oauth_scope_prefix: of scopes; oauth_additional_scopes_key: claims that hold more of them, paths
    with dots, separated by spaces; oauth_scope_aliases: scopes by the name that stands for them;
    oauth_preferred_username_claims: claims that name the user, before sub and client_id;
    oauth_jwks_*: see limits;
    profile: flow profile name; queue_depth_bytes: depth mark of one queue, 0 for a fifth of
    memory_high_bytes; queue_max_length, queue_max_bytes: ready messages, and bytes of their bodies,
    in a queue that has no limit of its own, 0 for none; queue_overflow: what it does there, see
    queues/rules; delayed_*: see limits;
    memory_high_bytes: memory alarm above it, 0 for memory_high;
    memory_high: the same as text, a share (40%, 0.4) of the machine or its cgroup, or a size
    (1.5GB), "" for 40%;
    paging_ratio: queues page so that they hold no more than this share of the memory mark together,
    0..1, 0 for never;
    data_dir: where everything durable is kept, "" for nowhere; store_segment_bytes,
    store_spare_segments: see limits;
    store_sync: when what was written is synced, always, interval or none, see docs/store.md;
    store_sync_interval_ms: see limits;
    disk_dir: whose file system must
    have room, "" for data_dir, or the current directory without one;
    disk_free_min: disk alarm below it, a size or mem:1.0, 0 for never;
    disk_reserve_bytes: room kept by a file in disk_dir for the broker itself, 0 for none;
    parked_*: see limits; parked_full, parked_full_actions: what happens to a publish that waits for
    a queue when there is no room to park it, stop, nack or close, and other ones by vhost and user;
    alarm_mode: targeted (those above their fair share of memory first) or all, "" as the profile
    has it; alarm_action, alarm_actions: block, nack or close, and other ones by vhost and user;
    alert_command: started without a shell when an alarm begins or is near, "" for none;
    alert_webhook: the address that is told the same by HTTP, "" for none; alert_pause_ms,
    alert_timeout_ms: see limits;
    audit_log: file of the audit log, "" for the one in the data directory, or none in memory;
    log_file: file of the log, "" for standard error; log_level: the lowest that is written, debug,
    info, warning or error; log_format: of its lines, text or json; log_lines: see limits;
    events_dir: where flow event files are written, "" for nowhere;
    event_stream: the virtual host in whose stream amq.flow.telemetry flow events are, "" for none;
    event_stream_bytes: see limits;
    management: whether a process beside the broker serves HTTP, on, off, or auto: when what it
    needs is installed and the broker is on its usual port; management_host, management_port,
    metrics_port: where, -1 for no metrics; management_cert, management_key: PEM files, "" for plain
    HTTP;
    cluster_spread: whether nodes of a cluster of shards spread leaders once, when it begins;
    cluster_coordinator: addresses of an etcd, with commas between them, "" for a single node;
    cluster_name, cluster_node: names of the cluster and of this node; cluster_listen: HOST:PORT
    where other nodes come in; cluster_advertise: how they reach it, "" for the same;
    cluster_cert, cluster_key, cluster_ca: PEM files of TLS between nodes; cluster_plain: without
    TLS, at 127.0.0.1 only; cluster_etcd_*: PEM files of TLS to etcd;
    recorder_events: events the flight recorder keeps, 0 for none; time_accounting: whether actors
    keep books of their time and of who held them, without which `why` knows nothing;
    channel_flow: which clients are sent channel.flow, off, capability (those that ask for it) or
    known (and those known to obey); immediate_publish: whether basic.publish may ask for
    `immediate`, 540 closes the connection otherwise; notify_blocked_ms, watchdog_ms: see limits;
    rate_connection_*: messages and bytes a second of each connection, 0 for no limit; rates: the
    same by user, vhost and queue; rate_burst_ms: see limits;
    credit_*: windows by kind of hop as INITIAL/MORE_AFTER or off, "" for the profile's own;
    msg_store_io_batch_size, queue_index_embed_msgs_below: numbers, see limits, "" for the
    profile's own; only in profiles that emulate RabbitMQ; quorum_commands_soft_limit: a number, see
    limits, 0 for none, "" for the profile's own;
    policies, operator_policies: rules for queues and exchanges by name, see docs/policies.md;
    permissions: of `users`; whoever has one may do nothing else, whoever has none everything;
    vhost_limits, user_limits: how many connections, queues and channels there may be of each;
    cluster_*: of a member of a cluster, see limits;
    account_*_high, account_*_high_messages: debt above which a connection, user, vhost or the node
    is held, as HIGH, HIGH/LOW or off, "" for the profile's own.
    """

    host: str = "127.0.0.1"
    port: int = 5672
    tls_port: int = 5671
    tls_cert: str = ""
    tls_key: str = ""
    tls_key_password: str = field(default="", repr=False)
    tls_ca: str = ""
    tls_verify: str = "none"
    tls_min_version: str = "1.2"
    tls_ciphers: str = ""
    tls_user_from: str = "common_name"
    tls_handshake_ms: int = limits.TLS_HANDSHAKE_MS.default
    oauth_resource_server_id: str = ""
    oauth_issuer: str = ""
    oauth_jwks_file: str = ""
    oauth_jwks_url: str = ""
    oauth_jwks_ca: str = ""
    oauth_jwks_age_s: int = limits.OAUTH_JWKS_AGE_S.default
    oauth_jwks_timeout_ms: int = limits.OAUTH_JWKS_TIMEOUT_MS.default
    oauth_secret: str = field(default="", repr=False)
    oauth_algorithms: tuple[str, ...] = ("RS256", "ES256", "HS256")
    oauth_verify_aud: bool = True
    oauth_require_exp: bool = True
    oauth_scope_prefix: str = "{resource_server_id}."
    oauth_additional_scopes_key: str = ""
    oauth_scope_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    oauth_preferred_username_claims: tuple[str, ...] = ()
    profile: str = "penstock"
    vhosts: tuple[str, ...] = ("/",)
    users: tuple[UserConfig, ...] = (UserConfig("guest", "guest", True, ("administrator",)),)
    upgrade_passwords: bool = True
    product: str = "Penstock"
    product_version: str = ""
    frame_bytes_max: int = limits.FRAME_BYTES_MAX.default
    channels_max: int = limits.CHANNELS_MAX.default
    heartbeat_s: int = limits.HEARTBEAT_S.default
    handshake_ms: int = limits.HANDSHAKE_MS.default
    login_delay_ms: int = limits.LOGIN_DELAY_MS.default
    linger_ms: int = limits.LINGER_MS.default
    parked_bytes: int = limits.PARKED_BYTES.default
    parked_node_bytes: int = limits.PARKED_NODE_BYTES.default
    parked_disk_bytes: int = limits.PARKED_DISK_BYTES.default
    parked_full: str = "stop"
    parked_full_actions: tuple[AlarmAction, ...] = ()
    body_bytes_max: int = limits.BODY_BYTES_MAX.default
    unfinished_bytes: int = limits.UNFINISHED_BYTES.default
    unfinished_node_bytes: int = limits.UNFINISHED_NODE_BYTES.default
    topic_hashes: int = limits.TOPIC_HASHES.default
    topic_positions: int = limits.TOPIC_POSITIONS.default
    headers_values: int = limits.HEADERS_VALUES.default
    headers_exchange_values: int = limits.HEADERS_EXCHANGE_VALUES.default
    message_headers: int = limits.MESSAGE_HEADERS.default
    connections_max: int = limits.CONNECTIONS_MAX.default
    cores: int = limits.CORES.default
    socket_output_high_bytes: int = limits.SOCKET_OUTPUT_HIGH_BYTES.default
    turn_messages: int = limits.TURN_MESSAGES.default
    recorder_events: int = limits.RECORDER_EVENTS.default
    time_accounting: bool = True
    queue_depth_bytes: int = limits.QUEUE_DEPTH_BYTES.default
    queue_max_length: int = 0
    queue_max_bytes: int = 0
    queue_overflow: str = "backpressure"
    delayed_messages_max: int = limits.DELAYED_MESSAGES_MAX.default
    delayed_bytes_max: int = limits.DELAYED_BYTES_MAX.default
    memory_high_bytes: int = 0
    memory_high: str = ""
    paging_ratio: float = 0.5
    data_dir: str = ""
    store_segment_bytes: int = limits.STORE_SEGMENT_BYTES.default
    store_spare_segments: int = limits.STORE_SPARE_SEGMENTS.default
    store_sync: str = "always"
    store_sync_interval_ms: int = limits.STORE_SYNC_INTERVAL_MS.default
    disk_dir: str = ""
    disk_free_min: str = "50MB"
    disk_reserve_bytes: int = limits.DISK_RESERVE_BYTES.default
    alarm_mode: str = ""
    alarm_action: str = "block"
    alarm_actions: tuple[AlarmAction, ...] = ()
    alert_command: str = ""
    alert_webhook: str = ""
    alert_pause_ms: int = limits.ALERT_PAUSE_MS.default
    alert_timeout_ms: int = limits.ALERT_TIMEOUT_MS.default
    channel_flow: str = "capability"
    immediate_publish: bool = False
    notify_blocked_ms: int = limits.NOTIFY_BLOCKED_MS.default
    consumer_timeout_ms: int = limits.CONSUMER_TIMEOUT_MS.default
    watchdog_ms: int = limits.WATCHDOG_MS.default
    credit_connection_channel: str = ""
    credit_connection_channel_bytes: str = ""
    credit_channel_queue: str = ""
    credit_channel_queue_bytes: str = ""
    credit_queue_store: str = ""
    credit_queue_store_bytes: str = ""
    msg_store_io_batch_size: str = ""
    queue_index_embed_msgs_below: str = ""
    quorum_commands_soft_limit: str = ""
    account_connection_high: str = ""
    account_connection_high_messages: str = ""
    account_user_high: str = ""
    account_user_high_messages: str = ""
    account_vhost_high: str = ""
    account_vhost_high_messages: str = ""
    account_node_high: str = ""
    account_node_high_messages: str = ""
    rate_connection_messages: int = limits.RATE_CONNECTION_MESSAGES.default
    rate_connection_bytes: int = limits.RATE_CONNECTION_BYTES.default
    rate_burst_ms: int = limits.RATE_BURST_MS.default
    rates: tuple[RateRow, ...] = ()
    policies: tuple[Policy, ...] = ()
    operator_policies: tuple[Policy, ...] = ()
    permissions: tuple[PermissionConfig, ...] = ()
    topic_permissions: tuple[TopicPermissionConfig, ...] = ()
    vhost_limits: tuple[EntryLimits, ...] = ()
    user_limits: tuple[EntryLimits, ...] = ()
    audit_log: str = ""
    cluster_coordinator: str = ""
    cluster_name: str = "penstock"
    cluster_node: str = ""
    cluster_listen: str = ""
    cluster_advertise: str = ""
    cluster_cert: str = ""
    cluster_key: str = ""
    cluster_ca: str = ""
    cluster_plain: bool = False
    cluster_spread: bool = True
    cluster_etcd_ca: str = ""
    cluster_etcd_cert: str = ""
    cluster_etcd_key: str = ""
    log_file: str = ""
    log_level: str = "info"
    log_format: str = "text"
    log_lines: int = limits.LOG_LINES.default
    events_dir: str = ""
    event_stream: str = ""
    management: str = "auto"
    management_host: str = "127.0.0.1"
    management_port: int = 15672
    metrics_port: int = 15692
    management_cert: str = ""
    management_key: str = ""
    event_stream_bytes: int = limits.EVENT_STREAM_BYTES.default
    control_socket: str = ""
    cluster_heartbeat_ms: int = limits.CLUSTER_HEARTBEAT_MS.default
    cluster_silence_ms: int = limits.CLUSTER_SILENCE_MS.default
    cluster_quorum_ms: int = limits.CLUSTER_QUORUM_MS.default
    cluster_election_ms: int = limits.CLUSTER_ELECTION_MS.default
    cluster_link_grace_ms: int = limits.CLUSTER_LINK_GRACE_MS.default
    cluster_disk_stall_ms: int = limits.CLUSTER_DISK_STALL_MS.default
    cluster_in_sync_ms: int = limits.CLUSTER_IN_SYNC_MS.default
    cluster_retention_bytes: int = limits.CLUSTER_RETENTION_BYTES.default
    cluster_resync_backlog_bytes: int = limits.CLUSTER_RESYNC_BACKLOG_BYTES.default
