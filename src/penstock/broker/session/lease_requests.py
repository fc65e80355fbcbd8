"""Requests about leases, and reading what is leased; docs/requests.md."""

from typing import Final

from penstock.base.errors import ChannelFault
from penstock.base.limits import LEASE_BYTES, LEASE_MESSAGES, LEASE_TIMEOUT_MS
from penstock.broker.lease.lease_manager import GROUP_ARGUMENT, LeaseManager, Order
from penstock.broker.lease.lease_reader import LeaseReader
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.tickets import Ask, refused
from penstock.broker.vhost.stream_arguments import (
    CHUNK_FORMAT,
    FORMAT_KEY,
    QUERY_CHARACTERS_MAX,
    wants_chunks,
)
from penstock.protocol.values import Table
from penstock.queues.consumers import Consumer

NUMBER_MAX: Final = (1 << 62) - 1
FROM_ARGUMENT: Final = "x-lease-from"
TO_ARGUMENT: Final = "x-lease-to"
QUERY_ARGUMENT: Final = "x-lease-query"
GROUP_BYTES_MAX: Final = 200


def lease_acquire(ask: Ask) -> None:
    """lease.acquire {queue, group, start, max_messages, max_bytes, timeout_ms, query, accept_loss,
    forgettable} -> {acked_to, end, count, bytes, ready, lost}: done with all below `start`, and
    holding start..end-1. Answered when the disk has it.

    Raises: ChannelFault 404, 405, 406; 406 with STALE or LEASE_LOST, see LeaseManager."""
    queue = _ordinary(ask.queue("queue"))
    order = Order(
        ask.ticket.settle,
        ask.ticket.refuse,
        _group(ask),
        ask.number_of("start", 0, NUMBER_MAX),
        ask.number_of("max_messages", 0, LEASE_MESSAGES.default, LEASE_MESSAGES.default),
        ask.number_of("max_bytes", 1, LEASE_BYTES.default, LEASE_BYTES.default),
    )
    order.timeout_ms = ask.number_of(
        "timeout_ms", LEASE_TIMEOUT_MS.lowest, LEASE_TIMEOUT_MS.highest, LEASE_TIMEOUT_MS.default
    )
    order.query = ask.text("query", "")[:QUERY_CHARACTERS_MAX]
    order.accepts_loss = _flag(ask, "accept_loss")
    order.is_forgettable = _flag(ask, "forgettable")
    order.holder = ask.session.connection.identity
    ask.session.host.leases.acquire(queue, order)


def lease_state(ask: Ask) -> None:
    """lease.state {queue, group, first, stop} -> {acked_to, end, count, bytes, ready, runs, query,
    held_ns}: runs are what is held of first..stop-1, as first, stop, first, stop ... A sign of
    life. A group that never was is one that holds nothing. held_ns: how long the queue has taken
    nothing because its consumers, and this group among them, took too little.

    Raises: ChannelFault 404, 405, 406."""
    queue = _ordinary(ask.queue("queue"))
    first = ask.number_of("first", 0, NUMBER_MAX, 0)
    stop = ask.number_of("stop", 0, NUMBER_MAX, NUMBER_MAX)
    manager = ask.session.host.leases
    name = _group(ask)
    queue.used()
    ready = int(queue.messages.ready_count())
    book = manager.book_of(queue)
    group = None if book is None else book.groups.get(name)
    if book is None or group is None:
        nothing: Table = {"acked_to": 0, "end": 0, "count": 0, "bytes": 0, "ready": ready}
        ask.ticket.settle({**nothing, "runs": [], "query": "", "held_ns": 0})
        return
    manager.renew(book, group)
    ask.ticket.settle(
        {
            "acked_to": int(group.acked_to),
            "end": int(group.end()),
            "count": int(group.held_count),
            "bytes": int(group.held_bytes),
            "ready": ready,
            "runs": [number for run in group.held_runs(first, stop) for number in run],
            "query": group.query,
            "held_ns": queue.held_ns(queue.consumers_id()),
        }
    )


def lease_release(ask: Ask) -> None:
    """lease.release {queue, group, forget} -> {count}: what the group holds is ready again, in its
    old order; with forget nothing is known of the group any more.

    Raises: ChannelFault 404 also for a group there is not, 405, 406."""
    queue = _ordinary(ask.queue("queue"))
    count = ask.session.host.leases.release(queue, _group(ask), _flag(ask, "forget"))
    ask.ticket.settle({"count": count})


def read_lease(manager: LeaseManager, queue: QueueActor, consumer: Consumer) -> None:
    """Give what `consumer` asks for by its arguments: numbers from x-lease-from to x-lease-to, not
    with it, of the group x-lease-group, which is called x-lease-query from then on; in chunks with
    x-penstock-format. A sign of life of the group.

    Raises: ChannelFault 406, with LEASE_LOST if one of them is not held."""
    arguments = consumer.arguments
    name = arguments[GROUP_ARGUMENT]
    first = _number(arguments.get(FROM_ARGUMENT), FROM_ARGUMENT)
    stop = _number(arguments.get(TO_ARGUMENT), TO_ARGUMENT)
    if stop < first:
        text = f"invalid arg '{TO_ARGUMENT}': {stop} is below {FROM_ARGUMENT}, which is {first}"
        raise ChannelFault(406, text, 60, 20)
    book = manager.book_of(queue)
    group = None if book is None or not isinstance(name, str) else book.groups.get(name)
    if book is None or group is None:
        raise refused(
            f"LEASE_LOST: no group '{name}' leases messages of queue '{queue.name}' in vhost "
            f"'{queue.vhost}'; was the queue made anew, or the broker started without its data?"
        )
    if FORMAT_KEY in arguments and not wants_chunks(arguments):
        raise ChannelFault(406, f"invalid arg '{FORMAT_KEY}': it takes '{CHUNK_FORMAT}'", 60, 20)
    lost = group.first_lost(first, stop)
    if lost >= 0:
        raise refused(
            f"LEASE_LOST: group '{name}' of queue '{queue.name}' in vhost '{queue.vhost}' does not "
            f"hold {lost} of {first}..{stop - 1}; it holds {group.held_count} messages of "
            f"{group.acked_to}..{group.end() - 1}"
        )
    query = arguments.get(QUERY_ARGUMENT, "")
    if isinstance(query, str) and query != "":
        group.query = query[:QUERY_CHARACTERS_MAX]
    manager.renew(book, group)
    consumer.queue = book.actor.reads
    has_chunks = wants_chunks(arguments)
    book.actor.read(LeaseReader(consumer, group, first, stop, has_chunks, queue.name))


def _ordinary(queue: QueueActor) -> QueueActor:
    """`queue`, if its messages can be leased. Raises: ChannelFault 405, 406."""
    where = f"queue '{queue.name}' in vhost '{queue.vhost}'"
    refusal = queue.lease_refusal()
    if refusal != "":
        raise refused(f"{where} {refusal}")
    if queue.auto_delete:
        raise refused(f"{where} is auto-delete: it would go when a query has read it to its end")
    if queue.exclusive_consumer is not None:
        raise refused(f"{where} in exclusive use", 405)
    if queue.choice is not None and queue.choice.is_single:
        raise refused(f"{where} has x-single-active-consumer; a lease is not one of its consumers")
    return queue


def _group(ask: Ask) -> str:
    name = ask.text("group")
    if name == "" or len(name.encode()) > GROUP_BYTES_MAX:
        raise refused(f"argument 'group' is a name of 1 to {GROUP_BYTES_MAX} bytes")
    return name


def _flag(ask: Ask, name: str) -> bool:
    value = ask.arguments.get(name, False)
    if not isinstance(value, bool):
        raise refused(f"argument '{name}' is {value!r}, neither true nor false")
    return value


def _number(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= NUMBER_MAX:
        raise ChannelFault(406, f"invalid arg '{name}': {value!r} is no number from 0 on", 60, 20)
    return value
