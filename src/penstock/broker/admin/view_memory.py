"""Which snapshots of the last round still hold, so that those at rest are not made again.

Most of thousands of connections do nothing from one second to the next. A snapshot holds as long as
its actors have had no turn since (their books of time were not touched) and what others may change
without giving them a turn stands as it did: their account, credit, deliveries, confirms, mailboxes.
The snapshot that holds says so by its own date: a reader that has one idle since then takes it as
such.
"""

from collections.abc import Iterator
from typing import Final, cast

from penstock.broker.admin.view_queues import has_groups, sharers
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.queue.queue_actor import QueueActor
from penstock.telemetry.snapshots import ActorSnapshot

PARTS_MAX: Final = 16
"""Channels of a connection, lanes or consumers of a queue, above which nothing is remembered: to
compare them would cost as much as to look at them."""

STEP_ACTORS: Final = 256
"""Actors that are forgotten in one step."""

SHAPES_MAX: Final = 256
"""Shapes of stamps that are known at once; with another one they are all forgotten."""

Stamp = tuple[object, ...]
"""A moment, and behind it a shape: a tuple of everything else, which thousands of idle connections
have in common and keep once."""


class ViewMemory:
    """The last snapshots of connections with their channels and of queues with their consumers.
    Owner: who walks once a period. Bounded by the actors there are: `end_round` forgets others."""

    __slots__ = ("_before", "_now", "_shapes", "made", "reused")

    def __init__(self) -> None:
        # The stamp, and behind it the snapshots: one tuple for thousands of actors each.
        self._before: dict[str, tuple[object, ...]] = {}
        self._now: dict[str, tuple[object, ...]] = {}
        self._shapes: dict[object, object] = {}
        self.made = 0
        self.reused = 0

    def begin_round(self) -> None:
        """What the round before has not met is forgotten."""
        self._before, self._now = self._now, {}

    def forgetting(self) -> Iterator[None]:
        """The same at the end of a round, a step for each of many: actors that have gone."""
        while self._before:
            self._before.popitem()
            if len(self._before) % STEP_ACTORS == 0:
                yield None

    def recall(self, identity: str, stamp: Stamp | None) -> tuple[ActorSnapshot, ...] | None:
        """The snapshots kept under `identity`, if they still hold by `stamp`."""
        # Taken out, so that what does not hold any more goes with its actor's step, and not all at
        # once with the next round.
        kept = self._before.pop(identity, None)
        if kept is None or stamp is None or kept[: len(stamp)] != stamp:
            return None
        self._now[identity] = kept
        snapshots = cast(tuple[ActorSnapshot, ...], kept[len(stamp) :])
        self.reused += len(snapshots)
        return snapshots

    def keep(
        self, identity: str, stamp: Stamp | None, snapshots: tuple[ActorSnapshot, ...]
    ) -> None:
        """`snapshots` were just made, and `stamp` after them."""
        self.made += len(snapshots)
        if stamp is not None and not any(_is_moving(one) for one in snapshots):
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
            moment, shape = stamp
            shape = self._shapes.setdefault(shape, shape)
            self._now[identity] = (moment, shape, *snapshots)


def connection_stamp(connection: Connection, now_ns: int) -> Stamp | None:
    """What its snapshot and those of its channels say, as far as it may change; None while it
    cannot be told cheaply."""
    channels = connection.channels
    if (
        not connection.line.is_accounting
        or not connection.gate.is_open
        or connection.is_held()
        or len(channels) > PARTS_MAX
        or connection.output.runs
        or connection.output.times.is_waiting()
    ):
        return None
    account = connection.account
    # A page with limits of its own shows them, and they may change.
    # Of all of them one sum: none of these moments ever goes back.
    rested_ns = connection.time.rests_since()
    shape: list[object] = [
        connection.state(now_ns),
        connection.receive_count,
        account.debt_messages,
        account.debt_bytes,
        account.stored_messages,
        account.stored_bytes,
        account.shared_bytes,
        account.high_messages,
        account.high_bytes,
    ]
    for channel in channels.values():
        if not _add_channel(shape, channel, now_ns):
            return None
        rested_ns += channel.time.rests_since()
    return rested_ns, tuple(shape)


def _add_channel(shape: list[object], channel: Channel, now_ns: int) -> bool:
    if not channel.is_alive or not channel.gate.is_open or channel.is_held():
        return False
    if channel.parking.lines:
        # How long its publishes have waited changes although it rests.
        return False
    shape += (
        channel.number,
        channel.gate.state(now_ns),
        channel.is_stalled,
        channel.table.count,
        len(channel.consumers),
        channel.escapes,
    )
    if channel.upstream is not None:
        shape += (channel.upstream.balance, channel.upstream.window)
    publisher = channel.publisher
    if publisher is not None:
        if len(publisher.lanes) > PARTS_MAX:
            return False
        shape += (publisher.publish_count, publisher.return_count)
        if publisher.confirms is not None:
            shape.append(publisher.confirms.base + publisher.confirms.head)
        for lane in publisher.lanes.values():
            shape += (lane.balance, lane.window)
    return True


def queue_stamp(queue: QueueActor, now_ns: int) -> Stamp | None:
    """The same of a queue and its consumers; one with rules may change as time goes by."""
    if (
        not queue.line.is_accounting
        or not queue.gate.is_open
        or queue.queue_limits is not None
        or has_groups(queue)
        or len(queue.lanes) > PARTS_MAX
        or len(queue.consumers) > PARTS_MAX
    ):
        return None
    messages = queue.messages
    shape: list[object] = [
        queue.gate.state(now_ns),
        messages.ready_count(),
        messages.bytes_ready,
        messages.publish_count,
        messages.deliver_count,
        messages.ack_count,
        messages.requeue_count,
        queue.unacked_count,
        queue.unacked_bytes,
        queue.depth_bytes,
        queue.depth_source,
        sharers(queue),
        queue.uncommitted_count(),
        queue.uncommitted_bytes(),
    ]
    for lane in queue.lanes:
        shape += (lane.sender, lane.in_flight, lane.granted, lane.deferred, lane.done)
    for consumer in queue.consumers:
        if consumer.is_held:
            return None
        shape += (
            consumer.tag,
            consumer.holder,
            consumer.started_ns,
            consumer.delivered,
            consumer.unacked,
            consumer.prefetch,
            consumer.full_ns,
            consumer.is_ready,
            consumer.reason,
        )
    return queue.time.rests_since(), tuple(shape)


def _is_moving(one: ActorSnapshot) -> bool:
    """Whether something in it changes by itself as time goes by."""
    blocked = one.blocked
    return blocked.since_ns is not None or blocked.longest_ns > 0
