"""What `penstock flow edges` and `flow top` show, and in which orders; see answers."""

from typing import Final

from msgspec import Struct

EDGE_SORTS: Final = ("blocked", "in-flight", "stops", "name")
TOP_SORTS: Final = ("blocked", "rate", "name")


class EdgeRow(Struct, frozen=True):
    """One hop.

    kind: KIND_NAMES, or store_disk, dead_letters, queue_lease or stream_group; window_*, balance_*:
    0 and 0 without credit in that dimension; is_blocked: its sender may hand over nothing; by,
    reason: who holds the sender longest, "" if nobody does; blocked_for_ns: since then; stops: how
    often credit ran out; blocked_ns: how long the hop's gate was closed in all, the present hold
    included. What holds a whole connection (rate, debt, alarm, socket) holds each hop from it. In a
    profile without parking all hops of a channel share one gate, and so the last four. Of hops that
    are not lanes with credit `stops` and `blocked_ns` are 0. free_messages: of a hop to a store,
    those that ever cost no credit, because they are small (profiles that emulate RabbitMQ).
    depth_bytes: depth mark of the queue it leads to, 0 for none; room_bytes: what is free of that
    for all its senders together, below 0 where it was forced past. parked_*: publishes that the
    sender keeps aside because the hop is closed, their bytes in memory and on the disk, and for how
    long some have waited; the sender may have ended meanwhile.
    """

    sender: str
    receiver: str
    vhost: str
    kind: str
    window_messages: int = 0
    balance_messages: int = 0
    window_bytes: int = 0
    balance_bytes: int = 0
    in_flight_messages: int = 0
    in_flight_bytes: int = 0
    deferred_messages: int = 0
    deferred_bytes: int = 0
    is_blocked: bool = False
    by: str = ""
    reason: str = ""
    blocked_for_ns: int = 0
    stops: int = 0
    blocked_ns: int = 0
    free_messages: int = 0
    parked_messages: int = 0
    parked_bytes: int = 0
    parked_disk_bytes: int = 0
    parked_for_ns: int = 0
    depth_bytes: int = 0
    room_bytes: int = 0


class Edges(Struct, frozen=True):
    """edges: a page of the `matching` ones that were asked for; total, blocked: of all hops in the
    vhost; next: see answers."""

    edges: list[EdgeRow]
    matching: int
    total: int
    blocked: int
    next: str = ""


def rank(row: EdgeRow, sort: str) -> tuple[int, int]:
    """Smallest first, as `sort` wants it."""
    if sort == "in-flight":
        return -row.in_flight_messages, -row.in_flight_bytes
    if sort == "stops":
        return -row.stops, -row.blocked_ns
    if sort == "name":
        return 0, 0
    if row.is_blocked:
        return -1, -row.blocked_for_ns
    return 0, -row.in_flight_messages


class PublisherRow(Struct, frozen=True):
    """rate: publishes a second; blocked_share: 0..1 of the window; longest_ms: longest single hold
    in it; cause: what held it most, "" if nothing did."""

    name: str
    state: str
    rate: float
    blocked_share: float
    longest_ms: float
    cause: str


class TopQueue(Struct, frozen=True):
    """in_rate, out_rate: messages a second; busy_share, blocked_share, waiting_share: of the
    window, 0..1; cause: what keeps its messages, "" if nothing does."""

    name: str
    ready: int
    unacked: int
    in_rate: float
    out_rate: float
    busy_share: float
    blocked_share: float
    waiting_share: float
    cause: str


class ConsumerRow(Struct, frozen=True):
    """unacked of prefetch (0 for unlimited); is_full: no delivery until it acks; ack_ms: mean time
    to its ack, 0.0 if unknown; held_share: of the window, in which it could be given nothing."""

    connection: str
    tag: str
    queue: str
    out_rate: float
    unacked: int
    prefetch: int
    is_full: bool
    ack_ms: float
    held_share: float


class Frame(Struct, frozen=True):
    """in_rate, out_rate: of the whole node; used_bytes, limit_bytes: memory; alarms: what is set;
    *_more: rows that are left out; window_s: seconds looked at, 0.0 before the first."""

    profile: str
    uptime_s: float
    window_s: float
    connections: int
    throttled: int
    in_rate: float
    out_rate: float
    used_bytes: int
    limit_bytes: int
    alarms: list[str]
    publishers: list[PublisherRow]
    publishers_more: int
    queues: list[TopQueue]
    queues_more: int
    consumers: list[ConsumerRow]
    consumers_more: int
