"""What is outstanding in a broker, by place and cause: the sum that accounts are held to."""

from dataclasses import dataclass

from penstock.base.cause import Cause
from penstock.broker.actors.lane import Lane
from penstock.broker.admin.flow_ledger import kept_from, listed
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor, QueueClient
from penstock.broker.stream.stream_actor import stream_of
from penstock.flow.account import Account
from penstock.protocol.content import Message
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class OwedRow:
    """`origin` has so much outstanding at `place`.

    kind: lane (in a mailbox), stored (in a queue, ready or not committed yet), unanswered
    (delivered, not settled), kept (on the disk, for the reader group `place`) or socket (what the
    peer has not taken yet).
    """

    place: str
    kind: str
    origin: str
    messages: int
    bytes_: int


def owed_rows(broker: Broker) -> list[OwedRow]:
    """Everything outstanding."""
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
        rows.extend(_socket(f"socket:{connection.name}", connection.output.debt_by_origin()))
    for queue, leased in broker.leases.held():
        unanswered.setdefault(queue.identity, []).extend(one.message for one in leased)
    for place, messages in unanswered.items():
        rows.extend(_by_origin(place, "unanswered", messages))
    for vhost in broker.vhosts.values():
        for queue in vhost.queues.values():
            waiting = queue.uncommitted
            stored = queue.messages.ready_messages() + ([] if waiting is None else waiting.every())
            rows.extend(_by_origin(queue.identity, "stored", stored))
            rows.extend(_kept_rows(queue, broker.node_account))
    return rows


def _by_origin(place: str, kind: str, messages: list[Message]) -> list[OwedRow]:
    sums: dict[Cause, tuple[int, int]] = {}
    for message in messages:
        count, bytes_ = sums.get(message.origin, (0, 0))
        size = len(message.raw) + MESSAGE_OVERHEAD_BYTES
        sums[message.origin] = (count + 1, bytes_ + size)
    return [OwedRow(place, kind, origin.name, *amounts) for origin, amounts in sums.items()]


def _kept_rows(queue: QueueActor, node: Account) -> list[OwedRow]:
    """What each reader group of a stream keeps there."""
    stream = stream_of(queue)
    groups = None if stream is None else stream.groups
    if groups is None:
        return []
    return [
        OwedRow(groups.identity_of(group), "kept", listed(origin, node).name, *amounts)
        for group in groups.groups.values()
        for origin, amounts in kept_from(
            groups, int(group.position), int(group.lag_bytes(groups.log))
        ).items()
    ]


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
