"""Every hop of the broker as rows: what is under way on it, what is left, who holds its sender.

    connection -> channel -> queue     publishes
    queue -> store -> disk             what durable queues and streams keep, and what is paged
    dead letters of a queue -> queue   and what a delayed exchange lets go
    queue -> lease, stream -> group    what a reader has taken, or has not passed

What consumers have is not here: it is theirs to answer, and in `flow top`.
"""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from penstock.broker.actors.cooperative import Steps
from penstock.broker.actors.lane import Lane
from penstock.broker.admin.answers_flow import EdgeRow, Edges, rank
from penstock.broker.admin.paging import Pager
from penstock.broker.broker import Broker
from penstock.broker.channel.channel import Channel
from penstock.broker.channel.parked_line import ParkedLine
from penstock.broker.connection.connection import Connection
from penstock.broker.dead_letter.dead_letters import DeadLane, DeadLetters, dead_letters_of
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.settings.hop_watch import lanes_of
from penstock.broker.store.group_commit import BATCH_BYTES, GroupCommit
from penstock.broker.store.write_request import WriteLane
from penstock.broker.stream.stream_actor import stream_of
from penstock.flow.hop import KIND_NAMES
from penstock.flow.room import Room

Hold = tuple[str, str, int]
"""(peer, reason, since_ns), as Gate.snapshot."""

STEP_EDGES: Final = 64
"""Rows, or queues, that are looked at in one step."""

STORE_DISK: Final = "store_disk"
DEAD_LETTERS: Final = "dead_letters"
QUEUE_LEASE: Final = "queue_lease"
STREAM_GROUP: Final = "stream_group"


def edges(
    broker: Broker,
    names: dict[str, str],
    vhost: str,
    is_blocked_only: bool,
    sort: str,
    pager: Pager[EdgeRow],
) -> Steps[Edges]:
    """A page of the hops of `vhost` ("" for all), by one of EDGE_SORTS. names: what connections are
    called, by address. In steps; what ends meanwhile may be there or not."""
    now_ns = broker.clock.monotonic_ns()
    total = 0
    blocked = 0
    for row in _rows(broker, names, vhost, now_ns):
        if row is None:
            yield 0.0
            continue
        total += 1
        blocked += row.is_blocked
        if row.is_blocked or not is_blocked_only:
            pager.offer((*rank(row, sort), row.sender, row.receiver, row.kind), row)
        if total % STEP_EDGES == 0:
            yield 0.0
    return Edges(pager.rows(), pager.total, total, blocked, pager.next())


def _rows(
    broker: Broker, names: dict[str, str], vhost: str, now_ns: int
) -> Iterator[EdgeRow | None]:
    """Every hop; None now and then, where there are many queues without any."""
    for connection in list(broker.connections.values()):
        negotiator = broker.negotiators.get(connection.name)
        session = None if negotiator is None else negotiator.session
        if session is None or (vhost != "" and session.vhost.name != vhost):
            continue
        shown = names.get(connection.name, connection.name)
        held = _holds_of(connection)
        for hop in list(lanes_of(connection)):
            holds = list(hop.sender_gate.snapshot())
            if hop.sender == connection.identity:
                holds += held
            row = _row(hop, holds, connection.name, shown, session.vhost.name, now_ns)
            yield _with_parked(row, connection.lot.lines.get(hop), now_ns)
    for channel in list(broker.parking.rests):
        if isinstance(channel, Channel) and vhost in ("", channel.publisher.vhost.name):
            yield from _rest_rows(channel, names, now_ns)
    for name, stores in list(_stores(broker)):
        if vhost in ("", name):
            for store in stores:
                yield from _store_rows(store, name, now_ns)
    for name in list(broker.vhosts):
        if vhost in ("", name):
            for index, queue in enumerate(broker.queues_in(name)):
                yield from _queue_rows(broker, queue, now_ns)
                if index % STEP_EDGES == STEP_EDGES - 1:
                    yield None


def _with_parked(row: EdgeRow, line: ParkedLine | None, now_ns: int) -> EdgeRow:
    if line is None:
        return row
    return replace(
        row,
        parked_messages=int(line.count()),
        parked_bytes=int(line.bytes),
        parked_disk_bytes=int(line.disk_bytes),
        parked_for_ns=now_ns - int(line.since_ns),
    )


def _rest_rows(channel: Channel, names: dict[str, str], now_ns: int) -> Iterator[EdgeRow]:
    """The hops of a channel that has ended with something on the disk."""
    name = channel.parking.lot.account.name.removeprefix("conn:")
    shown = names.get(name, name)
    for hop in list(channel.publisher.lanes.values()):
        holds = list(hop.sender_gate.snapshot())
        row = _row(hop, holds, name, shown, channel.publisher.vhost.name, now_ns)
        yield _with_parked(row, channel.parking.lot.lines.get(hop), now_ns)


def _holds_of(connection: Connection) -> list[Hold]:
    """What holds all hops of a connection, whether it is read meanwhile or not."""
    books = connection.books().snapshot(connection.line.clock.monotonic_ns())
    return [
        (one.peer, one.reason, one.since_ns) for one in books.blocks if one.since_ns is not None
    ]


def _row(
    hop: Lane, holds: list[Hold], address: str, shown: str, vhost: str, now_ns: int
) -> EdgeRow:
    gate = hop.sender_gate
    by, reason, since_ns = "", "", now_ns
    for peer, why, began_ns in holds:
        if began_ns < since_ns or by == "":
            by, reason, since_ns = peer, why, began_ns
    # What runs is added here, because the gate counts it when it opens.
    running_ns = 0 if gate.is_open else now_ns - gate.blocked_at_ns
    room = hop.room
    depth_bytes, room_bytes = 0, 0
    if isinstance(room, Room) and room.mark_bytes > 0:
        depth_bytes = int(room.mark_bytes)
        room_bytes = int(room.limit_bytes - room.in_flight_bytes)
    commands = hop.commands
    # To a quorum queue with what it has taken, until that is safe: so the soft limit counts.
    under_way = hop.in_flight if commands is None else commands.pending()
    return EdgeRow(
        hop.sender.replace(address, shown),
        hop.receiver.replace(address, shown),
        vhost,
        KIND_NAMES[int(hop.kind)],
        int(hop.window),
        int(hop.balance),
        int(hop.window_bytes),
        int(hop.balance_bytes),
        int(under_way),
        int(hop.in_flight_bytes),
        int(hop.deferred),
        int(hop.deferred_bytes),
        hop.is_closed or len(holds) > 0,
        by.replace(address, shown),
        reason,
        now_ns - since_ns if by != "" else 0,
        int(hop.blocks),
        int(gate.held_ns) + running_ns,
        depth_bytes=depth_bytes,
        room_bytes=room_bytes,
    )


def _stores(broker: Broker) -> Iterator[tuple[str, list[GroupCommit]]]:
    """The stores of each virtual host: of messages, of what is paged and not kept, of streams."""
    for name in broker.vhosts:
        found: list[GroupCommit] = []
        for store in (
            broker.stores.stores.get(name),
            broker.stores.scratch.get(name),
            broker.streams.stores.get(name),
        ):
            if store is not None:
                found.append(store)
        yield name, found


def _store_rows(store: GroupCommit, vhost: str, now_ns: int) -> Iterator[EdgeRow]:
    """What leads to `store`, and its own way to the disk: a batch is under way while the next one
    is made."""
    for lane in list(store.all_lanes()):
        yield _write_row(lane, vhost, now_ns)
    reason, since_ns = _disk_hold(store, now_ns)
    under_way = [*store.withheld, *store.under_way]
    yield EdgeRow(
        sender=store.identity,
        receiver="disk",
        vhost=vhost,
        kind=STORE_DISK,
        window_bytes=BATCH_BYTES,
        balance_bytes=BATCH_BYTES - int(store.open_bytes()),
        in_flight_messages=sum(len(request.messages) for request in under_way),
        in_flight_bytes=int(store.batch_bytes),
        is_blocked=reason != "",
        by="disk" if reason else "",
        reason=reason,
        blocked_for_ns=max(0, now_ns - since_ns),
    )


def _disk_hold(store: GroupCommit, now_ns: int) -> tuple[str, int]:
    """Why `store` takes nothing more, and since when; "" while it does."""
    times = store.sync_times
    if store.is_failed:
        return "failed", int(times.began_ns)
    if store.is_full:
        return "disk full", int(times.full_since_ns)
    if store.batch is not None and store.pending and store.open_bytes() >= BATCH_BYTES:
        return "sync", int(times.began_ns)
    return "", now_ns


def _write_row(lane: WriteLane, vhost: str, now_ns: int) -> EdgeRow:
    """A queue's hop to its store. The queue's gate closes for other reasons as well, so what is
    shown is what its ledger has for the store alone."""
    closed_ns = 0
    for one in lane.queue.books().snapshot(now_ns).blocks:
        if one.peer == lane.receiver:
            closed_ns += one.closed_ns
    since_ns = now_ns
    for peer, _, began_ns in lane.sender_gate.snapshot():
        if peer == lane.receiver:
            since_ns = min(since_ns, began_ns)
    is_blocked = lane.is_closed
    return EdgeRow(
        sender=lane.sender,
        receiver=lane.receiver,
        vhost=vhost,
        kind=KIND_NAMES[int(lane.kind)],
        window_messages=int(lane.window),
        balance_messages=int(lane.balance),
        window_bytes=int(lane.window_bytes),
        balance_bytes=int(lane.balance_bytes),
        in_flight_messages=int(lane.in_flight),
        in_flight_bytes=int(lane.in_flight_bytes),
        deferred_messages=int(lane.deferred),
        deferred_bytes=int(lane.deferred_bytes),
        is_blocked=is_blocked,
        by=lane.receiver if is_blocked else "",
        reason="credit" if is_blocked else "",
        blocked_for_ns=now_ns - since_ns if is_blocked else 0,
        stops=int(lane.blocks),
        blocked_ns=closed_ns,
        free_messages=int(lane.free_count),
    )


def _queue_rows(broker: Broker, queue: QueueActor, now_ns: int) -> Iterator[EdgeRow]:
    """What leads away from `queue`, consumers left out."""
    letters = dead_letters_of(queue)
    if letters is not None:
        for lane in list(letters.lanes.values()):
            yield _letter_row(letters, lane, queue.vhost, now_ns)
    book = broker.leases.book_of(queue)
    if book is not None:
        for name, lease in list(book.groups.items()):
            yield EdgeRow(
                sender=queue.identity,
                receiver=f"lease:{lease.query or name}@{queue.identity[6:]}",
                vhost=queue.vhost,
                kind=QUEUE_LEASE,
                in_flight_messages=int(lease.held_count),
                in_flight_bytes=int(lease.held_bytes),
            )
    stream = stream_of(queue)
    groups = None if stream is None else stream.groups
    if groups is None:
        return
    for group in list(groups.groups.values()):
        lag = int(group.lag_messages(groups.log))
        lag_bytes = int(group.lag_bytes(groups.log))
        receiver = groups.identity_of(group)
        yield EdgeRow(
            sender=queue.identity,
            receiver=receiver,
            vhost=queue.vhost,
            kind=STREAM_GROUP,
            window_messages=int(group.bound.messages),
            balance_messages=int(group.bound.messages) - lag if group.bound.messages else 0,
            window_bytes=int(group.bound.bytes),
            balance_bytes=int(group.bound.bytes) - lag_bytes if group.bound.bytes else 0,
            in_flight_messages=lag,
            in_flight_bytes=lag_bytes,
            is_blocked=group.is_holding,
            by=receiver if group.is_holding else "",
            reason="lag" if group.is_holding else "",
            blocked_for_ns=max(0, now_ns - int(group.since_ns)) if group.is_holding else 0,
        )


def _letter_row(letters: DeadLetters, lane: DeadLane, vhost: str, now_ns: int) -> EdgeRow:
    """One way of a queue's dead letters. They share a window, so all ways of a queue stand still
    when the letters for one target have used it up."""
    is_blocked = not letters.has_room()
    by = ""
    if is_blocked:
        by = lane.receiver if lane.waits() else letters.waits_for() or lane.receiver
    window, window_bytes = int(letters.window), 0
    if window > 0:
        window_bytes = int(letters.manager.window_bytes)
    return EdgeRow(
        sender=lane.sender,
        receiver=lane.receiver,
        vhost=vhost,
        kind=DEAD_LETTERS,
        window_messages=window,
        balance_messages=window - int(letters.count) if window else 0,
        window_bytes=window_bytes,
        balance_bytes=window_bytes - int(letters.bytes) if window else 0,
        in_flight_messages=len(lane.under_way),
        in_flight_bytes=sum(int(one.size) for one in lane.under_way.values()),
        deferred_messages=len(lane.kept),
        deferred_bytes=sum(int(one.size) for one in lane.kept),
        is_blocked=is_blocked,
        by=by,
        reason="window" if is_blocked else "",
        blocked_for_ns=letters.full_for_ns(now_ns),
    )
