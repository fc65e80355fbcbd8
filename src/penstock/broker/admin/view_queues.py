"""Snapshots of queues, their consumers and reader groups; see broker/admin/views.

A consumer waits while its prefetch window or its socket holds it, and is idle otherwise.
"""

from collections.abc import Iterator
from typing import Final

from penstock.broker.actors.actor import Actor
from penstock.broker.actors.deliver import ChannelSink
from penstock.broker.admin.view_loads import queue_loads
from penstock.broker.broker import Broker
from penstock.broker.lease.lease_view import note_lease
from penstock.broker.paging.paged_view import note_paged
from penstock.broker.queue.expiry_and_limits import note_limit, note_limits
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.stream.stream_actor import StreamActor, stream_of
from penstock.explain.causes import DEPTH_LIMIT
from penstock.explain.consumer_causes import (
    LAG_BYTES,
    LAG_BYTES_MAX,
    LAG_MESSAGES,
    LAG_MESSAGES_MAX,
    NO_WINDOW,
    PAUSED,
    POSITION,
    SINGLE_ACTIVE,
    STILL_NS,
)
from penstock.explain.root_causes import FULL_STORE, MIRRORS, UNCOMMITTED
from penstock.protocol.content import SHARED_BYTES, Message, SharedMessage
from penstock.queues.consumers import Consumer
from penstock.queues.hold_reasons import (
    REASON_CHANNEL_FLOW,
    REASON_CHANNEL_PREFETCH,
    REASON_NAMES,
    REASON_PREFETCH,
    REASON_SOCKET,
    REASON_UNSENT,
)
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.rules import NEVER
from penstock.telemetry.actor_window import BOTH_NS
from penstock.telemetry.row import row_of
from penstock.telemetry.snapshots import NEVER_BLOCKED, ActorSnapshot, BlockedTotals, Times
from penstock.telemetry.words import duration, size


def has_groups(queue: QueueActor) -> bool:
    """Whether groups read it, which move without a trace in its own counts."""
    stream = stream_of(queue)
    return stream is not None and stream.groups is not None and bool(stream.groups.groups)


def group_snapshots(queue: QueueActor) -> Iterator[ActorSnapshot]:
    """Each group of a stream; none of other queues."""
    stream = stream_of(queue)
    if stream is None or stream.groups is None:
        return
    groups = stream.groups
    now_ns = queue.line.clock.monotonic_ns()
    for group in list(groups.groups.values()):
        yield ActorSnapshot(
            groups.identity_of(group),
            "group",
            "lagging" if group.is_holding else "",
            started_ns=queue.time.start_ns,
            numbers={
                POSITION: float(int(group.position)),
                LAG_MESSAGES: float(int(group.lag_messages(groups.log))),
                LAG_BYTES: float(int(group.lag_bytes(groups.log))),
                LAG_MESSAGES_MAX: float(int(group.bound.messages)),
                LAG_BYTES_MAX: float(int(group.bound.bytes)),
                STILL_NS: float(now_ns - int(group.since_ns)),
            },
            labels={"queue": queue.identity, "vhost": queue.vhost},
            taken_ns=now_ns,
        )


def groups_in_words(queue: StreamActor) -> str:
    """Each group, where it is and since when; "" without groups."""
    groups = queue.groups
    if groups is None:
        return ""
    now_ns = queue.line.clock.monotonic_ns()
    return "; ".join(
        f"{name} at {int(group.position)}, {int(group.lag_messages(groups.log))} behind, "
        f"still for {duration(now_ns - int(group.since_ns))}"
        + (", holds publishers" if group.is_holding else "")
        for name, group in sorted(groups.groups.items())
    )


OF_ALL_CONSUMERS: Final = (
    "unacked",
    "delivered",
    "acked",
    "prefetch_full_share",
    "socket_blocked",
    "flow_paused",
    "held_ns",
    "redelivered",
    "consumers",
    "ready",
)
"""Numbers of a queue that are those of its consumers together."""


def times(totals: tuple[int, int, int, int]) -> Times:
    """The four totals of a TimeAccount."""
    return Times(totals[0], totals[1], totals[2], totals[3])


def blocked(actor: Actor, now_ns: int) -> BlockedTotals:
    """Who has held it until now; the longest hold of the next period begins here."""
    if actor.ledger is None:
        return NEVER_BLOCKED
    blocked = actor.ledger.snapshot(now_ns)
    actor.ledger.begin_period()
    return blocked


def parked(actor: Actor, now_ns: int, numbers: dict[str, float]) -> BlockedTotals:
    """The same of its parked publishes; what both have in common is added to `numbers`."""
    books = None if actor.ledger is None else actor.ledger.parked
    if books is None:
        return NEVER_BLOCKED
    numbers[BOTH_NS] = float(books.both_ns(now_ns))
    return books.snapshot(now_ns)


def queue_and_consumers(broker: Broker, queue: QueueActor) -> Iterator[ActorSnapshot]:
    """A queue, its consumers together where publishers may wait for them, and each of them."""
    consumers = list(queue.consumers)
    now_ns = broker.clock.monotonic_ns()
    snapshot = _queue(queue, now_ns)
    yield snapshot
    if queue.delays:
        yield _exchange(queue, snapshot)
    elif consumers or queue.stop_reason() != "":
        yield _consumers(queue, snapshot, now_ns)
    for consumer in consumers:
        yield _consumer(broker, queue, consumer)
    yield from group_snapshots(queue)


SAMPLE: Final = 64
"""Messages of a queue that are looked at for how many others share them."""
FEW: Final = 4
"""The same of a queue at rest."""


def sharers(queue: QueueActor) -> int:
    """Changes when others begin or end to hold what `queue` holds, as far as a few messages
    tell."""
    return sum(
        int(one.holders)
        for one in queue.messages.some_messages(FEW)
        if isinstance(one, SharedMessage)
    )


def memory_of(queue: QueueActor) -> int:
    """Bytes that `queue` holds in memory, what waits for its store included: what it shares with
    other queues is split between those that hold it now. Exact where its messages are alike, else
    by a sample of SAMPLE."""
    held = _part(
        int(queue.messages.bytes_ready + queue.unacked_bytes), queue.messages.some_messages(SAMPLE)
    )
    if queue.uncommitted is not None:
        held += _part(int(queue.uncommitted.bytes), queue.uncommitted.some(SAMPLE))
    return held


def _part(whole: int, sample: list[Message]) -> int:
    """Of `whole` bytes what is one queue's, if all of it is as `sample`."""
    has = part = 0.0
    is_shared = False
    for message in sample:
        size = len(message.raw)
        has += size + MESSAGE_OVERHEAD_BYTES
        part += size + MESSAGE_OVERHEAD_BYTES
        if isinstance(message, SharedMessage) and message.holders > 1:
            is_shared = True
            part -= (size + SHARED_BYTES) * (1 - 1 / int(message.holders))
    return round(whole * part / has) if is_shared else whole


def _queue(queue: QueueActor, now_ns: int) -> ActorSnapshot:
    messages = queue.messages
    consumers = queue.consumers
    full = 0
    stuck = 0
    paused = 0
    for consumer in consumers:
        if not consumer.is_ready:
            if consumer.reason in (REASON_PREFETCH, REASON_CHANNEL_PREFETCH):
                full += 1
            elif _is_stuck(consumer):
                stuck += 1
            elif consumer.reason == REASON_CHANNEL_FLOW:
                paused += 1
    count = max(1, len(consumers))
    numbers = {
        "ready": float(int(messages.ready_count())),
        "unacked": float(int(queue.unacked_count)),
        "bytes": float(int(messages.bytes_ready + queue.unacked_bytes + queue.uncommitted_bytes())),
        "memory_bytes": float(memory_of(queue)),
        "consumers": float(len(consumers)),
        "published": float(int(messages.publish_count)),
        "delivered": float(int(messages.deliver_count)),
        "acked": float(int(messages.ack_count)),
        "redelivered": float(int(messages.requeue_count)),
        "prefetch_full_share": full / count,
        "socket_blocked": stuck / count,
        "flow_paused": paused / count,
        "held_ns": float(sum(_held_ns(consumer, now_ns) for consumer in consumers)),
        "depth_bytes": float(int(queue.depth_bytes)),
    }
    if queue.uncommitted is not None and queue.uncommitted.count > 0:
        numbers[UNCOMMITTED] = float(int(queue.uncommitted.count))
    queue_loads(queue, numbers)
    labels = {"vhost": queue.vhost}
    full_store = queue.full_store()
    if full_store != "":
        labels[FULL_STORE] = full_store
    late = "" if queue.durability is None else queue.durability.late_mirrors()
    if late:
        labels[MIRRORS] = late
    note_paged(queue, numbers, labels)
    if queue.is_paused:
        labels[PAUSED] = "yes"
    if queue.choice is not None and queue.choice.is_single:
        labels[SINGLE_ACTIVE] = "yes"
    if queue.damaged_count > 0:
        labels["damaged"] = str(queue.damaged_count)
    if queue.depth_source != "":
        mark = size(float(int(queue.depth_bytes))) if queue.depth_bytes > 0 else "off"
        labels[DEPTH_LIMIT] = f"depth mark {mark} ({queue.depth_source})"
    if queue.queue_limits is not None:
        note_limits(queue.queue_limits, numbers, labels)
        note_limit(queue.queue_limits.rules, queue.applied, labels)
    return ActorSnapshot(
        queue.identity,
        "queue",
        queue.gate.state(now_ns),
        started_ns=queue.time.start_ns,
        times=times(queue.time.totals(now_ns)),
        blocked=blocked(queue, now_ns),
        numbers=numbers,
        labels=labels,
        taken_ns=now_ns,
    )


def _exchange(store: QueueActor, snapshot: ActorSnapshot) -> ActorSnapshot:
    """A delayed message exchange, which holds its publishers while its store is full."""
    numbers = {name: snapshot.numbers[name] for name in ("ready", "bytes", "published")}
    next_ns = int(store.messages.next_expiry_ns())
    if next_ns != NEVER:
        numbers["next_due_ns"] = float(max(0, next_ns - snapshot.taken_ns))
    return ActorSnapshot(
        store.consumers_id(),
        "exchange",
        started_ns=snapshot.started_ns,
        times=Times(idle_ns=snapshot.times.total_ns()),
        numbers=numbers,
        labels={"vhost": store.vhost, "queue": store.identity, "overdue_for": store.overdue_for()},
        taken_ns=snapshot.taken_ns,
    )


def _consumer(broker: Broker, queue: QueueActor, consumer: Consumer) -> ActorSnapshot:
    """A consumer waits while it is held by its prefetch window or its socket; else it is idle."""
    now_ns = broker.clock.monotonic_ns()
    held_ns = _held_ns(consumer, now_ns)
    age_ns = now_ns - int(consumer.started_ns)
    is_full = consumer.is_held and consumer.reason in (REASON_PREFETCH, REASON_CHANNEL_PREFETCH)
    is_stuck = consumer.is_held and _is_stuck(consumer)
    is_paused = consumer.is_held and consumer.reason == REASON_CHANNEL_FLOW
    labels = {"queue": queue.identity, "vhost": queue.vhost}
    sink = consumer.sink
    if isinstance(sink, ChannelSink):
        labels["channel"] = str(int(sink.number))
    if not _has_window(consumer):
        labels[NO_WINDOW] = "yes"
    if consumer.is_held:
        labels["held_by"] = REASON_NAMES[int(consumer.reason)]
    numbers = {
        "prefetch": float(int(consumer.prefetch or consumer.sink.prefetch)),
        "unacked": float(int(consumer.unacked)),
        "delivered": float(int(consumer.delivered)),
        "acked": float(int(consumer.delivered - consumer.unacked)),
        "prefetch_full_share": 1.0 if is_full else 0.0,
        "socket_blocked": 1.0 if is_stuck else 0.0,
        "flow_paused": 1.0 if is_paused else 0.0,
        "held_ns": float(held_ns),
        "answer_ns": float(int(consumer.answer_ns)),
        "given_ns": float(int(consumer.given_ns)),
        "given_count": float(int(consumer.given_count)),
    }
    note_lease(broker.leases, queue, consumer, now_ns, numbers, labels)
    return ActorSnapshot(
        f"consumer:{consumer.tag}@{consumer.holder}",
        "consumer",
        "flow" if consumer.is_held else "running",
        started_ns=int(consumer.started_ns),
        times=Times(idle_ns=max(0, age_ns - held_ns), waiting_ns=held_ns),
        numbers=row_of(numbers),
        labels=labels,
        taken_ns=now_ns,
    )


def _is_stuck(consumer: Consumer) -> bool:
    """Whether it is given nothing because its socket does not take what was written for it."""
    if consumer.reason == REASON_UNSENT:
        return consumer.unsent.is_stuck
    return consumer.reason == REASON_SOCKET


def _has_window(consumer: Consumer) -> bool:
    """Whether what it has not answered can be too much, in messages or in bytes."""
    sink = consumer.sink
    if sink.prefetch > 0 or sink.prefetch_bytes > 0:
        return True
    return not consumer.is_no_ack and (consumer.prefetch > 0 or consumer.prefetch_bytes > 0)


def _held_ns(consumer: Consumer, now_ns: int) -> int:
    """How long it could be given nothing, since it came: prefetch, socket or channel.flow."""
    running_ns = now_ns - int(consumer.held_since_ns) if consumer.is_held else 0
    return int(consumer.full_ns) + running_ns


def _consumers(queue: QueueActor, snapshot: ActorSnapshot, now_ns: int) -> ActorSnapshot:
    """All consumers of a queue together: what a queue above its depth mark waits for."""
    prefetch = sum(float(int(consumer.prefetch)) for consumer in queue.consumers)
    numbers = {name: snapshot.numbers[name] for name in OF_ALL_CONSUMERS}
    numbers["prefetch"] = prefetch
    labels = {**snapshot.labels, "queue": queue.identity}
    if queue.consumers and not any(_has_window(consumer) for consumer in queue.consumers):
        labels[NO_WINDOW] = "yes"
    return ActorSnapshot(
        "consumers:" + queue.identity[6:],
        "consumer",
        started_ns=snapshot.started_ns,
        times=Times(idle_ns=snapshot.times.total_ns()),
        numbers=numbers,
        labels=labels,
        taken_ns=now_ns,
    )
