"""What commands show of a running broker: every answer, for the broker and the commands alike.

The control socket writes these as JSON, and commands read them back as the same classes. A field is
called as RabbitMQ's management interface calls it where it has the same thing. Listings come in
pages (broker/admin/paging): `total` counts all rows that were asked for, `next` is where the next
page begins, "" where none does. Rows of `flow edges` and `flow top` stand beside what makes them,
broker/admin/flow_edges and flow_top.
"""

from typing import Final

from msgspec import Struct

QUEUE_SORTS: Final = ("ready", "bytes", "rate", "name")


class QueueRow(Struct, frozen=True):
    """One queue or stream.

    bytes: of memory that ready, unacknowledged, uncommitted and waiting dead-lettered ones take.
    messages_paged_out: ready ones whose bodies are on the disk alone.
    in_rate, out_rate: messages a second, over the last ten seconds.
    drops: messages given up, by reason, only those that happened.
    dead_letters: what became of dead-lettered messages, in words.
    messages_uncommitted: taken by a quorum queue, and not ready before its store answers.
    """

    name: str
    vhost: str
    state: str
    messages_ready: int
    messages_unacknowledged: int
    bytes: int
    messages_paged_out: int
    message_bytes_paged_out: int
    consumers: int
    in_rate: float
    out_rate: float
    durable: bool
    rules: dict[str, str]
    policy: str
    operator_policy: str
    effective_policy_definition: dict[str, object]
    drops: dict[str, int]
    dead_letters: dict[str, int]
    messages_uncommitted: int = 0


class DeduplicatingRow(Struct, frozen=True):
    """An exchange that drops duplicates.

    duplicates: dropped since the declaration.
    known, known_max: values that are remembered.
    """

    name: str
    vhost: str
    duplicates: int
    known: int
    known_max: int


class QueueListing(Struct, frozen=True):
    """exchanges: of the first page."""

    queues: list[QueueRow]
    total: int
    exchanges: list[DeduplicatingRow]
    next: str = ""


class Paused(Struct, frozen=True):
    """A queue after it was paused or resumed."""

    queue: str
    is_paused: bool
    was_paused: bool


class GroupEnded(Struct, frozen=True):
    """A reader group that has ended. given_back: messages that are ready again."""

    queue: str
    group: str
    given_back: int


class ReaderRow(Struct, frozen=True):
    """One reader that keeps its place with the broker: a lease of a queue or a group of a stream.

    query: what people know it by, "" where nobody has said.
    kind: lease or stream.
    position: everything before it is done with.
    lag_*: what lies behind that: messages, bytes of their frames (of streams on the disk), and how
    long the first of them has been there.
    lag_is_longer: it was there before anything is known of the queue.
    in_rate, out_rate: messages a second that come, and that it is done with, over the last 10 s.
    held_seconds: how long the queue has taken nothing from publishers because its consumers (of a
    lease) or this group were behind, since the queue is there.
    is_holding: so it is now.
    """

    queue: str
    vhost: str
    group: str
    query: str
    kind: str
    position: int
    lag_messages: int
    lag_bytes: int
    lag_seconds: float
    lag_is_longer: bool
    in_rate: float
    out_rate: float
    held_seconds: float
    is_holding: bool


class ReaderListing(Struct, frozen=True):
    """A page of readers."""

    readers: list[ReaderRow]
    total: int
    next: str = ""


class ConnectionRow(Struct, frozen=True):
    """A connection. name: the client's address; called: what it calls itself, "" for nothing."""

    name: str
    called: str
    user: str
    vhost: str
    state: str
    channels: int


class ConnectionListing(Struct, frozen=True):
    """Connections, by name."""

    connections: list[ConnectionRow]
    total: int
    next: str = ""


class QueueCounts(Struct, frozen=True):
    """What all queues hold together. count: of queues."""

    count: int
    messages_ready: int
    messages_unacknowledged: int
    bytes: int
    consumers: int


class WorkerRow(Struct, frozen=True):
    """One process of a broker that is several (serve --cores). is_serving: False while it starts;
    vhosts: that it has, by name."""

    worker: int
    pid: int
    is_serving: bool
    memory_bytes: int
    vhosts: list[str]


class Status(Struct, frozen=True):
    """The broker as a whole.

    workers: its processes, none where it is one.

    certificate: whom that of TLS is for and until when, "" without TLS.
    sync: when what was written is synced, "" where nothing is kept on disk.
    failure: why nothing is kept any more, "" while everything is.
    connections: how many there are, by their state.
    """

    version: str
    build: str
    profile: str
    sync: str
    failure: str
    connections: dict[str, int]
    queues: QueueCounts
    alarms: dict[str, str]
    memory_bytes: int
    memory_high_bytes: int
    turns: int
    events_dropped: int
    certificate: str = ""
    workers: list[WorkerRow] = []


class AccountRow(Struct, frozen=True):
    """One page of the ledger.

    debt_*, stored_*, kept_*: with everything below the page.
    high_*, low_*: 0 for no limit.
    depth: 0 for the node.
    is_held: by itself.
    held_by: pages that hold its connection, itself or above.
    is_closed: its connection has ended and something of it is left.
    kept_*: in streams, because reader groups have not passed it.
    held_for_ns: since the first of `held_by` began, 0 when none has.
    pending_messages: publishes on their way to quorum or mirrored queues that are not safe yet.
    pending_by: the stores that its own channels wait for, because that is too much.
    pending_for_ns: since the first of these waits began, 0 when none has.
    paged_*: of stored_*, what is on the disk and not in memory.
    """

    name: str
    level: str
    depth: int
    debt_messages: int
    debt_bytes: int
    stored_messages: int
    stored_bytes: int
    high_messages: int
    low_messages: int
    high_bytes: int
    low_bytes: int
    is_held: bool
    held_by: list[str]
    is_closed: bool
    kept_messages: int
    kept_bytes: int
    held_for_ns: int
    paged_messages: int = 0
    paged_bytes: int = 0
    parked_messages: int = 0
    parked_bytes: int = 0
    parked_disk_bytes: int = 0
    unfinished_bytes: int = 0
    pending_messages: int = 0
    pending_by: list[str] = []
    pending_for_ns: int = 0


class Accounts(Struct, frozen=True):
    """connections_more: how many connections are left out of the first page.

    By size, every page above connections is there; by name, they come in pages with the others.
    """

    accounts: list[AccountRow]
    connections_more: int
    total: int = 0
    next: str = ""


class CauseRow(Struct, frozen=True):
    """What `account` caused of one queue's content.

    waiting: messages in mailboxes of the queue.
    unanswered: delivered and not settled.
    kept: in a stream, for its reader groups.
    messages, bytes: together.
    share: of the bytes, 0..1.
    paged: of the ready ones, those whose bodies are on the disk alone.
    uncommitted: taken by a quorum queue, and not ready before its store answers.
    """

    account: str
    waiting: int
    ready: int
    unanswered: int
    kept: int
    messages: int
    bytes: int
    share: float
    paged: int = 0
    uncommitted: int = 0


class QueueCauses(Struct, frozen=True):
    """Whose messages are in `queue`, most first.

    is_estimate: the queue is long, and counted by a sample of its messages.
    more: accounts that are left out.
    """

    queue: str
    is_estimate: bool
    rows: list[CauseRow]
    more: int
    total: int = 0
    next: str = ""


class AlarmRow(Struct, frozen=True):
    """An alarm of one node, set or not.

    set_for_ns: 0 while it is not set.
    now_bytes, limit_bytes, clear_bytes: None if never measured.
    stopped: connections that it stops now.
    """

    resource: str
    node: str
    is_set: bool
    set_for_ns: int
    now_bytes: int | None
    limit_bytes: int | None
    clear_bytes: int | None
    stopped: list[str]
    mode: str
    action: str


class AlarmsAnswer(Struct, frozen=True):
    """Every alarm there can be."""

    alarms: list[AlarmRow]


class SettingRow(Struct, frozen=True):
    """A setting. reverts_in_s: seconds until its value is taken back, 0 if it stays."""

    key: str
    value: str
    unit: str
    meaning: str
    reverts_in_s: float


class SettingRows(Struct, frozen=True):
    """Every setting."""

    settings: list[SettingRow]


class ChangeRow(Struct, frozen=True):
    """A changed setting. reverts_in_s: as in SettingRow."""

    key: str
    before: str
    after: str
    reverts_in_s: float


class Changes(Struct, frozen=True):
    """What was changed together. words: why a cluster has not kept it yet, "" for nothing."""

    changes: list[ChangeRow]
    words: str = ""


class LimitsOf(Struct, frozen=True):
    """The limits of one virtual host or user (kind)."""

    kind: str
    name: str
    limits: dict[str, int]


class LimitRow(LimitsOf, frozen=True):
    """Beside them what there is now, by the same keys."""

    used: dict[str, int]


class LimitListing(Struct, frozen=True):
    """Virtual hosts and users that have a limit, virtual hosts first."""

    limits: list[LimitRow]
    total: int = 0
    next: str = ""


class Changed(Struct, frozen=True):
    """What a change to users, permissions or virtual hosts has done, in words."""

    said: str


class PartitionRow(Struct, frozen=True):
    """A partition of a super stream. kind: the type of its exchange, x-super-stream where keys are
    hashed; partition: "" for a super stream without any; routing_key: its binding's; bytes: on the
    disk."""

    vhost: str
    super_stream: str
    kind: str
    partition: str
    routing_key: str
    messages: int
    bytes: int


class PartitionListing(Struct, frozen=True):
    """Partitions, in the order of virtual host, super stream and place."""

    partitions: list[PartitionRow]
    total: int = 0
    next: str = ""
