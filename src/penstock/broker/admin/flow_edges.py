"""Every hop of the broker as rows: what is under way on it, what is left, who holds its sender."""

from collections.abc import Iterator
from heapq import nsmallest
from typing import Final

from msgspec import Struct

from penstock.broker.actors.lane import Lane
from penstock.broker.broker import Broker
from penstock.broker.connection.connection import Connection
from penstock.flow.hop import KIND_NAMES

Hold = tuple[str, str, int]
"""(peer, reason, since_ns), as Gate.snapshot."""

SORTS: Final = ("blocked", "in-flight", "stops", "name")


class EdgeRow(Struct, frozen=True):
    """One hop. kind: KIND_NAMES; window_*, balance_*: 0 and 0 without credit in that dimension;
    is_blocked: its sender may hand over nothing; by, reason: who holds the sender longest, "" if
    nobody does; blocked_for_ns: since then; stops: how often credit ran out; blocked_ns: how long
    the hop's gate was closed in all, the present hold included. What holds a whole connection
    (rate, debt, alarm, socket) holds each hop from it. In a profile without parking all hops of a
    channel share one gate, and so the last four."""

    sender: str
    receiver: str
    vhost: str
    kind: str
    window_messages: int
    balance_messages: int
    window_bytes: int
    balance_bytes: int
    in_flight_messages: int
    in_flight_bytes: int
    deferred_messages: int
    deferred_bytes: int
    is_blocked: bool
    by: str
    reason: str
    blocked_for_ns: int
    stops: int
    blocked_ns: int


class Edges(Struct, frozen=True):
    """edges: the first of the `matching` ones that were asked for; total, blocked: of all hops in
    the vhost."""

    edges: list[EdgeRow]
    matching: int
    total: int
    blocked: int


def edges(
    broker: Broker, names: dict[str, str], vhost: str, is_blocked_only: bool, sort: str, limit: int
) -> Edges:
    """The hops of `vhost` ("" for all), by one of SORTS, at most `limit`. names: what connections
    are called, by address."""
    now_ns = broker.clock.monotonic_ns()
    total = 0
    blocked = 0
    found: list[EdgeRow] = []
    for row in _rows(broker, names, vhost, now_ns):
        total += 1
        blocked += row.is_blocked
        if row.is_blocked or not is_blocked_only:
            found.append(row)
    rows = nsmallest(limit, found, key=lambda row: (_rank(row, sort), row.sender, row.receiver))
    return Edges(rows, len(found), total, blocked)


def _rank(row: EdgeRow, sort: str) -> tuple[int, int]:
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


def _rows(broker: Broker, names: dict[str, str], vhost: str, now_ns: int) -> Iterator[EdgeRow]:
    for connection in broker.connections.values():
        negotiator = broker.negotiators.get(connection.name)
        session = None if negotiator is None else negotiator.session
        if session is None or (vhost != "" and session.vhost.name != vhost):
            continue
        shown = names.get(connection.name, connection.name)
        held = _holds_of(connection)
        for hop in connection.hops():
            holds = list(hop.sender_gate.snapshot())
            if hop.sender == connection.identity:
                holds += held
            yield _row(hop, holds, connection.name, shown, session.vhost.name, now_ns)


def _holds_of(connection: Connection) -> list[Hold]:
    """What holds all hops of a connection, whether it is read meanwhile or not."""
    ledger = connection.ledger.snapshot(connection.line.clock.monotonic_ns())
    return [
        (one.peer, one.reason, one.since_ns) for one in ledger.blocks if one.since_ns is not None
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
    return EdgeRow(
        hop.sender.replace(address, shown),
        hop.receiver.replace(address, shown),
        vhost,
        KIND_NAMES[int(hop.kind)],
        int(hop.window),
        int(hop.balance),
        int(hop.window_bytes),
        int(hop.balance_bytes),
        int(hop.in_flight),
        int(hop.in_flight_bytes),
        int(hop.deferred),
        int(hop.deferred_bytes),
        hop.is_closed or len(holds) > 0,
        by.replace(address, shown),
        reason,
        now_ns - since_ns if by != "" else 0,
        int(hop.blocks),
        int(gate.held_ns) + running_ns,
    )
