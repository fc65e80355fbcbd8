"""What the control socket answers about readers that keep their place with the broker: leases of
queues and reader groups of streams, of which a Spark query is one for each queue it reads.

One request is {"op": "queues", "do": "readers", ...}. Nothing is counted for it while messages go
through: how far behind a reader is follows from its place and the queue's counts, and for how long
from the rounds that are kept anyway.
"""

from collections.abc import Iterator
from typing import Final

from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.answers import ReaderListing, ReaderRow
from penstock.broker.broker import Broker
from penstock.broker.lease.lease_manager import LeaseBook
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.stream.stream_actor import stream_of
from penstock.broker.stream.stream_groups import StreamGroups
from penstock.explain.consumer_causes import LEASE_DONE, POSITION
from penstock.queues.leases import LeaseGroup
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.server.control.request import Keyed, Request
from penstock.streams.reader_groups import ReaderGroup
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.snapshots import NS_PER_S

SORTS: Final = ("lag", "name")
STEP_QUEUES: Final = 256
PUBLISHED: Final = "published"
RATE_NS: Final = 10 * NS_PER_S
"""Rates are those of this last time."""


def readers(request: Request) -> Steps[Keyed]:
    """A ReaderListing: those that are furthest behind first, or by name; in steps."""
    sort, wanted = request.one_of("sort", SORTS), request.vhost()
    pager = request.pager(sort)
    broker = request.broker
    for name in list(broker.vhosts):
        if wanted not in ("", name):
            continue
        for index, queue in enumerate(broker.queues_in(name)):
            if index % STEP_QUEUES == STEP_QUEUES - 1:
                yield 0.0
            for row in _readers_of(broker, request.history, queue):
                lag = (-row.lag_seconds, -row.lag_messages) if sort == "lag" else (0, 0)
                pager.offer((*lag, row.queue, row.group, row.kind), row)
                yield 0.0
    return request.keyed(ReaderListing(pager.rows(), pager.total, pager.next()), pager)


def _readers_of(broker: Broker, history: FlightHistory, queue: QueueActor) -> Iterator[ReaderRow]:
    book = broker.leases.book_of(queue)
    if book is not None:
        for lease in list(book.groups.values()):
            yield _of_lease(history, book, lease)
    stream = stream_of(queue)
    if stream is not None and stream.groups is not None:
        for group in list(stream.groups.groups.values()):
            yield _of_stream(history, queue, stream.groups, group)


def _of_lease(history: FlightHistory, book: LeaseBook, group: LeaseGroup) -> ReaderRow:
    """What is ready may go to this group or to others; it counts as behind for each."""
    queue = book.actor.queue
    ready = int(queue.messages.ready_count())
    count = ready + int(group.held_count)
    bytes_ = int(queue.messages.bytes_ready) + int(queue.messages.paged_bytes())
    bytes_ += int(group.held_bytes) - count * MESSAGE_OVERHEAD_BYTES
    consumer = group.consumer
    return _row(
        history,
        queue,
        (group.name, group.query, "lease"),
        (int(group.acked_to), count, max(0, bytes_)),
        (f"consumer:{consumer.tag}@{consumer.holder}", LEASE_DONE),
        (queue.consumers_id(), queue.stop_reason() != ""),
    )


def _of_stream(
    history: FlightHistory, queue: QueueActor, groups: StreamGroups, group: ReaderGroup
) -> ReaderRow:
    identity = groups.identity_of(group)
    lag = max(0, int(group.lag_messages(groups.log)))
    return _row(
        history,
        queue,
        (group.name, group.query, "stream"),
        (int(group.position), lag, int(group.lag_bytes(groups.log))),
        (identity, POSITION),
        (identity, group.is_holding),
    )


def _row(
    history: FlightHistory,
    queue: QueueActor,
    named: tuple[str, str, str],
    place: tuple[int, int, int],
    moves: tuple[str, str],
    holds: tuple[str, bool],
) -> ReaderRow:
    """named: group, query, kind; place: position, messages and bytes behind it; moves: actor and
    number that say how it goes on; holds: who holds publishers for it, and whether now."""
    now_ns = queue.line.clock.monotonic_ns()
    position, lag, lag_bytes = place
    came = history.course(queue.identity, PUBLISHED)
    seconds, is_longer = 0.0, False
    if lag > 0:
        # The message behind its place was the first that made the count greater than this.
        reached = came.passed(float(int(queue.messages.publish_count) - lag))
        if reached is not None:
            seconds, is_longer = (now_ns - reached.at_ns) / NS_PER_S, reached.is_latest
        elif came.points:
            seconds = (now_ns - came.points[-1][0]) / NS_PER_S
    group, query, kind = named
    since_ns = now_ns - RATE_NS
    return ReaderRow(
        queue=queue.identity.removeprefix("queue:"),
        vhost=queue.vhost,
        group=group,
        query=query,
        kind=kind,
        position=position,
        lag_messages=lag,
        lag_bytes=lag_bytes,
        lag_seconds=round(max(0.0, seconds), 3),
        lag_is_longer=is_longer,
        in_rate=came.per_second(since_ns),
        out_rate=history.course(*moves).per_second(since_ns),
        held_seconds=round(queue.held_ns(holds[0]) / NS_PER_S, 3),
        is_holding=holds[1],
    )
