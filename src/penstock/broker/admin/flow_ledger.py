"""The ledger as the command shows it, and who caused what rests in one queue."""

from dataclasses import asdict

from penstock.base.errors import OperatorError
from penstock.broker.admin.answers import AccountRow, Accounts, CauseRow, QueueCauses
from penstock.broker.admin.kept_rows import kept_in, listed
from penstock.broker.admin.ledger_rows import LedgerRow, OwedRow, ledger_rows, stored_rows
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor, QueueClient
from penstock.explain.naming import Names
from penstock.protocol.content import Message
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES


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
            + (f"those that anybody has used: {known}" if known else "nobody has connected yet")
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
