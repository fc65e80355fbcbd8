"""The ledger as plain rows, and who owes what where: the ultimate cause of any outstanding work.

Every message carries the page of the connection that published it, so a lane, a queue and a
socket's output can each say for whom they work (seed S4; scenario 102).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.base.cause import Cause
from penstock.broker.actors.lane import Lane
from penstock.broker.admin.kept_rows import Kept, kept_by, kept_by_page, listed
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor, QueueClient
from penstock.broker.settings.ledger import level_of
from penstock.broker.stream.stream_actor import stream_of
from penstock.flow.account import REASON, Account
from penstock.protocol.content import Message
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES

LOOKED_AT = 20_000
"""Messages of one queue looked at; of a longer one every so-manieth is, and the row says so."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One page. debt_*, stored_*: with everything below; high_*, low_*: 0 for no limit;
    depth: 0 for the node; is_held: by itself; held_by: pages that hold its connection, itself or
    above; since_ns: monotonic, when the first of them began, 0 when none; is_closed: its
    connection has ended and something of it is left; kept_*: in streams, because reader groups
    have not passed it, with everything below."""

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
    held_by: tuple[str, ...]
    since_ns: int
    is_closed: bool
    kept_messages: int = 0
    kept_bytes: int = 0


@dataclass(frozen=True, slots=True)
class OwedRow:
    """`origin` has so much outstanding at `place`. kind: lane (in a mailbox), stored (ready in a
    queue), unanswered (delivered, not settled), socket (not taken by the peer yet) or kept (on the
    disk, for the reader group `place`); is_estimate: counted from a part of a long queue."""

    place: str
    kind: str
    origin: str
    messages: int
    bytes_: int
    is_estimate: bool = False


def ledger_rows(broker: Broker) -> list[LedgerRow]:
    """The whole tree, a parent before its children, those who owe most first."""
    rows: list[LedgerRow] = []
    _add(rows, broker.node_account, 0, kept_by_page(broker))
    return rows


def _add(rows: list[LedgerRow], page: Account, depth: int, kept: Kept) -> None:
    held_by: tuple[str, ...] = (page.name,) if page.is_held else ()
    since_ns = page.held_since_ns if page.is_held else 0
    if page.gate is not None:
        held = [(peer, since) for peer, reason, since in page.gate.snapshot() if reason == REASON]
        held_by = tuple(peer for peer, _ in held)
        since_ns = min((since for _, since in held), default=0)
    rows.append(
        LedgerRow(
            page.name,
            level_of(page),
            depth,
            page.total_messages(),
            page.total_bytes(),
            page.total_stored_messages(),
            page.total_stored_bytes(),
            int(page.high_messages),
            int(page.low_messages),
            int(page.high_bytes),
            int(page.low_bytes),
            page.is_held,
            held_by,
            since_ns,
            page.is_closed,
            *kept.get(page, (0, 0)),
        )
    )
    sized = [(-child.memory_bytes(), child.name, child) for child in page.children.values()]
    for _, _, child in sorted(sized, key=lambda one: one[:2]):
        _add(rows, child, depth + 1, kept)


def owed_rows(broker: Broker) -> list[OwedRow]:
    """Everything outstanding, by place and first cause. Cost: a look at each lane and output, and
    at up to LOOKED_AT messages of each queue."""
    rows: list[OwedRow] = []
    unanswered: dict[str, list[Message]] = {}
    for connection in list(broker.connections.values()):
        for channel in connection.channels.values():
            if channel.upstream is not None:
                rows.extend(_lane(channel.upstream))
            if channel.publisher is not None:
                for lane in channel.publisher.lanes.values():
                    rows.extend(_lane(lane))
            for entries in (channel.table.old.values(), channel.table.entries):
                for delivery in entries:
                    client = None if delivery is None else delivery.queue
                    # What is read of a lease is counted with the lease.
                    if delivery is not None and isinstance(client, QueueClient):
                        place = client.actor.identity
                        unanswered.setdefault(place, []).append(delivery.message)
        rows.extend(_socket(f"socket:{connection.name}", connection.output.debt.by_origin()))
    for queue, leased in broker.leases.held():
        unanswered.setdefault(queue.identity, []).extend(one.message for one in leased)
    for place, messages in unanswered.items():
        rows.extend(_by_origin(place, "unanswered", messages))
    for vhost in broker.vhosts.values():
        for queue in vhost.queues.values():
            rows.extend(stored_rows(queue))
            rows.extend(_kept_rows(queue, broker.node_account))
    return rows


def _kept_rows(queue: QueueActor, node: Account) -> list[OwedRow]:
    """What each reader group of a stream keeps there."""
    stream = stream_of(queue)
    groups = None if stream is None else stream.groups
    if groups is None:
        return []
    return [
        OwedRow(groups.identity_of(group), "kept", listed(origin, node).name, *amounts)
        for group in groups.groups.values()
        for origin, amounts in kept_by(groups, group).items()
    ]


def stored_rows(queue: QueueActor) -> list[OwedRow]:
    """Whose messages are ready in `queue`."""
    messages = queue.messages
    count = int(messages.ready_count())
    if count == 0:
        return []
    step = -(-count // LOOKED_AT)
    return _by_origin(queue.identity, "stored", messages.ready_messages(step), step)


def _lane(lane: Lane) -> list[OwedRow]:
    if lane.in_flight == 0:
        return []
    return [
        OwedRow(lane.name, "lane", lane.origin.name, int(lane.in_flight), int(lane.in_flight_bytes))
    ]


def _socket(place: str, owed: dict[Cause, tuple[int, int]]) -> list[OwedRow]:
    return [
        OwedRow(place, "socket", origin.name, messages, bytes_)
        for origin, (messages, bytes_) in owed.items()
    ]


def _by_origin(place: str, kind: str, messages: Iterable[Message], step: int = 1) -> list[OwedRow]:
    """One row per cause; `messages` is every `step`th there is."""
    sums: dict[Cause, tuple[int, int]] = {}
    for message in messages:
        count, bytes_ = sums.get(message.origin, (0, 0))
        size = len(message.raw) + MESSAGE_OVERHEAD_BYTES
        sums[message.origin] = (count + 1, bytes_ + size)
    return [
        OwedRow(place, kind, origin.name, count * step, bytes_ * step, step > 1)
        for origin, (count, bytes_) in sums.items()
    ]
