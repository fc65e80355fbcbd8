"""The ledger as rows: every page, what reader groups keep, and who caused one queue's content.

Every message carries the page of the connection that published it, so a lane, a queue and a stream
can each say for whom they work (seed S4; scenario 102).
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from penstock.base.cause import Cause
from penstock.base.errors import OperatorError
from penstock.broker.admin.answers import AccountRow, Accounts, CauseRow, QueueCauses
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor, QueueClient
from penstock.broker.settings.ledger import level_of
from penstock.broker.stream.stream_actor import stream_of
from penstock.broker.stream.stream_groups import StreamGroups
from penstock.explain.naming import Names
from penstock.flow.account import REASON, Account
from penstock.protocol.content import Message
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.streams.reader_groups import ReaderGroup, lowest

Kept = dict[Cause, tuple[int, int]]
"""Messages and bytes, by cause."""


def kept_by(groups: StreamGroups, group: ReaderGroup) -> Kept:
    """What `group` has not passed. Where the publisher is not known, the virtual host is it:
    from before the last start, or before there were groups."""
    return _kept_from(groups, int(group.position), int(group.lag_bytes(groups.log)))


def kept_in(queue: QueueActor) -> Kept:
    """What the group of a stream keeps that is furthest behind; nothing of other queues."""
    stream = stream_of(queue)
    groups = None if stream is None else stream.groups
    if groups is None or not groups.groups:
        return {}
    position = int(lowest(groups.groups))
    bytes_ = max(int(one.lag_bytes(groups.log)) for one in groups.groups.values())
    return _kept_from(groups, position, bytes_)


def _kept_from(groups: StreamGroups, position: int, disk_bytes: int) -> Kept:
    log = groups.log
    found = {} if log.origins is None else log.origins.kept_from(position)
    known = sum(messages for messages, _ in found.values())
    unknown = int(log.next) - position - known
    if unknown > 0:
        bytes_ = max(0, disk_bytes - sum(size for _, size in found.values()))
        messages, before = found.get(groups.rest, (0, 0))
        found[groups.rest] = (messages + unknown, before + bytes_)
    return {origin: amounts for origin, amounts in found.items() if amounts[0] > 0}


def kept_by_page(broker: Broker) -> Kept:
    """Everything that is kept, for each page of the ledger with all below it. What a connection
    has left behind whose page is gone is on its user's."""
    found: Kept = {}
    for vhost in broker.vhosts.values():
        for queue in vhost.queues.values():
            for origin, amounts in kept_in(queue).items():
                page: Account | None = listed(origin, broker.node_account)
                while page is not None:
                    messages, bytes_ = found.get(page, (0, 0))
                    found[page] = (messages + amounts[0], bytes_ + amounts[1])
                    page = page.parent
    return found


def listed(origin: Cause, node: Account) -> Account:
    """The page that has to answer for `origin`: its own, or the first above that is there."""
    page = origin if isinstance(origin, Account) else node
    while not page.is_listed and page.parent is not None:
        page = page.parent
    return page


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
    """`origin` has so much outstanding at `place`.

    kind: lane (in a mailbox), stored (ready in a queue), unanswered (delivered, not settled) or
    kept (on the disk, for the reader group `place`).
    is_estimate: counted from a part of a long queue.
    """

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


def stored_rows(queue: QueueActor) -> list[OwedRow]:
    """Whose messages are ready in `queue`."""
    messages = queue.messages
    count = int(messages.ready_count())
    if count == 0:
        return []
    step = -(-count // LOOKED_AT)
    return by_origin(queue.identity, "stored", messages.ready_messages(step), step)


def by_origin(place: str, kind: str, messages: Iterable[Message], step: int = 1) -> list[OwedRow]:
    """One row a cause; `messages` is every `step`th there is."""
    sums: dict[Cause, tuple[int, int]] = {}
    for message in messages:
        count, bytes_ = sums.get(message.origin, (0, 0))
        size = len(message.raw) + MESSAGE_OVERHEAD_BYTES
        sums[message.origin] = (count + 1, bytes_ + size)
    return [
        OwedRow(place, kind, origin.name, count * step, bytes_ * step, step > 1)
        for origin, (count, bytes_) in sums.items()
    ]


def accounts(broker: Broker, vhost: str, limit: int, names: Names) -> Accounts:
    """The node, its vhosts and users, and the `limit` connections that have most outstanding,
    stored and kept; only of `vhost` unless that is "". names: what connections are called."""
    rows = ledger_rows(broker)
    if vhost != "":
        rows = _below(rows, f"vhost:{vhost}")
    connections = [row for row in rows if row.level == "connection"]
    connections.sort(
        key=lambda row: (-(row.debt_bytes + row.stored_bytes + row.kept_bytes), row.name)
    )
    shown = {row.name for row in connections[:limit]}
    now_ns = broker.clock.monotonic_ns()
    kept = [
        _shown(row, names, now_ns) for row in rows if row.level != "connection" or row.name in shown
    ]
    return Accounts(kept, len(connections) - len(shown))


def _shown(row: LedgerRow, names: Names, now_ns: int) -> AccountRow:
    values = asdict(row)
    since_ns = values.pop("since_ns")
    values["name"] = names.of(row.name)
    values["held_by"] = [names.of(peer) for peer in row.held_by]
    return AccountRow(**values, held_for_ns=now_ns - since_ns if since_ns > 0 else 0)


def _below(rows: list[LedgerRow], name: str) -> list[LedgerRow]:
    """The row called `name` with everything below it. Raises: OperatorError if there is none."""
    found: list[LedgerRow] = []
    depth = -1
    for row in rows:
        if row.name == name:
            depth = row.depth
        elif row.depth <= depth:
            depth = -1
        if depth >= 0:
            found.append(row)
    if not found:
        known = ", ".join(row.name.partition(":")[2] for row in rows if row.level == "vhost")
        raise OperatorError(
            f"no account of vhost '{name.partition(':')[2]}'; "
            + (f"those that have one: {known}" if known else "no client has connected yet")
        )
    return found


def queue_causes(broker: Broker, name: str, limit: int, names: Names) -> QueueCauses:
    """Who caused what is in the queue `name` (NAME in vhost /, or VHOST/NAME).

    Raises: OperatorError if there is no such queue."""
    queue = _queue(broker, name)
    owed = [*stored_rows(queue), *_waiting(queue), *_unanswered(broker, queue)]
    owed += _kept(broker, queue)
    counts: dict[str, dict[str, int]] = {}
    sizes: dict[str, int] = {}
    for row in owed:
        mine = counts.setdefault(row.origin, {"lane": 0, "stored": 0, "unanswered": 0, "kept": 0})
        mine[row.kind] += row.messages
        sizes[row.origin] = sizes.get(row.origin, 0) + row.bytes_
    total = max(1, sum(sizes.values()))
    rows = [
        CauseRow(
            names.of(origin),
            mine["lane"],
            mine["stored"],
            mine["unanswered"],
            mine["kept"],
            sum(mine.values()),
            sizes[origin],
            sizes[origin] / total,
        )
        for origin, mine in sorted(counts.items(), key=lambda one: (-sizes[one[0]], one[0]))
    ]
    is_estimate = any(row.is_estimate for row in owed)
    return QueueCauses(queue.identity, is_estimate, rows[:limit], max(0, len(rows) - limit))


def _queue(broker: Broker, name: str) -> QueueActor:
    wanted = (f"queue:{name}", f"queue:/{name}")
    for vhost in broker.vhosts.values():
        for queue in vhost.queues.values():
            if queue.identity in wanted:
                return queue
    raise OperatorError(f"no queue '{name}'; write NAME for one in vhost /, or VHOST/NAME")


def _waiting(queue: QueueActor) -> list[OwedRow]:
    return [
        OwedRow(
            queue.identity,
            "lane",
            lane.origin.name,
            int(lane.in_flight),
            int(lane.in_flight_bytes + lane.in_flight * MESSAGE_OVERHEAD_BYTES),
        )
        for lane in queue.lanes
        if lane.in_flight > 0
    ]


def _unanswered(broker: Broker, queue: QueueActor) -> list[OwedRow]:
    """Deliveries are kept by channels, so all of these are looked at, if there is anything."""
    if queue.unacked_count == 0:
        return []
    rows: list[OwedRow] = []
    for connection in broker.connections.values():
        for channel in connection.channels.values():
            for entries in (channel.table.old.values(), channel.table.entries):
                for delivery in entries:
                    if delivery is not None and _is_of(delivery.queue, queue):
                        rows.append(_row(queue, delivery.message))
    for leased_from, leased in broker.leases.held():
        if leased_from is queue:
            rows.extend(_row(queue, one.message) for one in leased)
    return rows


def _kept(broker: Broker, queue: QueueActor) -> list[OwedRow]:
    return [
        OwedRow(queue.identity, "kept", listed(origin, broker.node_account).name, *amounts)
        for origin, amounts in kept_in(queue).items()
    ]


def _is_of(client: object, queue: QueueActor) -> bool:
    return isinstance(client, QueueClient) and client.actor is queue


def _row(queue: QueueActor, message: Message) -> OwedRow:
    size = len(message.raw) + MESSAGE_OVERHEAD_BYTES
    return OwedRow(queue.identity, "unanswered", message.origin.name, 1, size)
