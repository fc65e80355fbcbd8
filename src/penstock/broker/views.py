"""Snapshots of the broker for whoever asks: actors with their time, blocks and numbers."""

from penstock.broker.broker import Broker
from penstock.broker.channel import Channel
from penstock.broker.queue_actor import QueueActor
from penstock.broker.reader import Connection
from penstock.flow.hop import Hop
from penstock.queues.consumers import (
    REASON_CHANNEL_PREFETCH,
    REASON_PREFETCH,
    REASON_SOCKET,
    REASON_UNSENT,
    Consumer,
)
from penstock.telemetry.snapshots import ActorSnapshot, BlockedTotals, Times


def actor_snapshots(broker: Broker) -> dict[str, ActorSnapshot]:
    """Every connection, channel, queue and alarm, by id. Cost: a few microseconds an actor."""
    now_ns = broker.clock.monotonic_ns()
    found: dict[str, ActorSnapshot] = {}
    for connection in list(broker.connections.values()):
        _add(found, _connection(broker, connection, now_ns))
        for channel in connection.channels.values():
            _add(found, _channel(channel, now_ns))
    for vhost in broker.vhosts.values():
        for queue in vhost.queues.values():
            _add(found, _queue(queue, now_ns))
            if queue.consumers:
                _add(found, _consumers(queue, found[queue.identity]))
            for consumer in queue.consumers:
                _add(found, _consumer(queue, consumer, now_ns))
    for source in broker.alarms:
        _add(
            found,
            ActorSnapshot(
                source,
                "alarm",
                "set",
                numbers={
                    "used_bytes": float(broker.memory_used_bytes),
                    "limit_bytes": float(broker.memory_high_bytes),
                },
            ),
        )
    return found


def _add(found: dict[str, ActorSnapshot], snapshot: ActorSnapshot) -> None:
    found[snapshot.actor] = snapshot


def _times(totals: tuple[int, int, int, int]) -> Times:
    return Times(totals[0], totals[1], totals[2], totals[3])


def _blocked(actor: Connection | Channel | QueueActor, now_ns: int) -> BlockedTotals:
    blocked = actor.ledger.snapshot(now_ns)
    actor.ledger.begin_period()
    return blocked


def _connection(broker: Broker, connection: Connection, now_ns: int) -> ActorSnapshot:
    negotiator = broker.negotiators.get(connection.name)
    published = 0
    confirmed = 0
    for channel in connection.channels.values():
        publisher = channel.publisher
        if publisher is not None:
            published += int(publisher.publish_count)
            if publisher.confirms is not None:
                confirmed += int(publisher.confirms.base + publisher.confirms.head - 1)
    labels = {"peer": connection.name}
    if negotiator is not None and negotiator.session is not None:
        labels["user"] = negotiator.session.user
        labels["vhost"] = negotiator.session.vhost.name
        product = negotiator.client_properties.get("product")
        version = negotiator.client_properties.get("version")
        labels["client"] = f"{product if isinstance(product, str) else 'unknown client'} " + (
            version if isinstance(version, str) else ""
        )
        given = negotiator.client_properties.get("connection_name")
        if isinstance(given, str):
            labels["name"] = given
    numbers = {
        "published": float(int(connection.receive_count)),
        "routed": float(published),
        "confirmed": float(confirmed),
        "channels": float(len(connection.channels)),
        "debt_messages": float(int(connection.account.debt_messages)),
        "debt_bytes": float(int(connection.account.debt_bytes)),
    }
    for channel in connection.channels.values():
        if channel.upstream is not None:
            _credit(numbers, channel.upstream)
    return ActorSnapshot(
        connection.identity,
        "conn",
        connection.state(now_ns),
        started_ns=connection.time.start_ns,
        times=_times(connection.time.totals(now_ns)),
        blocked=_blocked(connection, now_ns),
        numbers=numbers,
        labels=labels,
    )


def _channel(channel: Channel, now_ns: int) -> ActorSnapshot:
    publisher = channel.publisher
    numbers = {
        "unacked": float(int(channel.table.count)),
        "consumers": float(len(channel.consumers)),
        "published": 0.0,
        "returned": 0.0,
        "forced": float(int(channel.escapes)),
    }
    if publisher is not None:
        numbers["published"] = float(int(publisher.publish_count))
        numbers["returned"] = float(int(publisher.return_count))
        for lane in publisher.lanes.values():
            _credit(numbers, lane)
    state = "flow" if channel.is_stalled else channel.gate.state(now_ns)
    return ActorSnapshot(
        channel.identity,
        "chan",
        state,
        started_ns=channel.time.start_ns,
        times=_times(channel.time.totals(now_ns)),
        blocked=_blocked(channel, now_ns),
        numbers=numbers,
    )


def _credit(numbers: dict[str, float], hop: Hop) -> None:
    numbers[f"credit_now:{hop.receiver}"] = float(int(hop.balance))
    numbers[f"credit_initial:{hop.receiver}"] = float(int(hop.window))


def _queue(queue: QueueActor, now_ns: int) -> ActorSnapshot:
    messages = queue.messages
    consumers = queue.consumers
    full = 0
    stuck = 0
    for consumer in consumers:
        if not consumer.is_ready:
            if consumer.reason in (REASON_PREFETCH, REASON_CHANNEL_PREFETCH):
                full += 1
            elif consumer.reason in (REASON_SOCKET, REASON_UNSENT):
                stuck += 1
    count = max(1, len(consumers))
    numbers = {
        "ready": float(int(messages.ready_count())),
        "unacked": float(int(queue.unacked_count)),
        "bytes": float(int(messages.bytes_ready + queue.unacked_bytes)),
        "consumers": float(len(consumers)),
        "published": float(int(messages.publish_count)),
        "delivered": float(int(messages.deliver_count)),
        "acked": float(int(messages.ack_count)),
        "redelivered": float(int(messages.requeue_count)),
        "prefetch_full_share": full / count,
        "socket_blocked": stuck / count,
        "depth_bytes": float(int(queue.depth_bytes)),
    }
    for lane in queue.lanes:
        if lane.in_flight > 0:
            numbers[f"debt:{lane.origin.name}"] = numbers.get(
                f"debt:{lane.origin.name}", 0.0
            ) + float(int(lane.in_flight))
    labels = {"vhost": queue.vhost}
    return ActorSnapshot(
        queue.identity,
        "queue",
        queue.gate.state(now_ns),
        started_ns=queue.time.start_ns,
        times=_times(queue.time.totals(now_ns)),
        blocked=_blocked(queue, now_ns),
        numbers=numbers,
        labels=labels,
    )


def _consumer(queue: QueueActor, consumer: Consumer, now_ns: int) -> ActorSnapshot:
    """A consumer waits while it is held by its prefetch window or its socket; else it is idle."""
    held_ns = int(consumer.full_ns)
    if consumer.is_held:
        held_ns += now_ns - int(consumer.held_since_ns)
    age_ns = now_ns - int(consumer.started_ns)
    is_full = consumer.is_held and consumer.reason in (REASON_PREFETCH, REASON_CHANNEL_PREFETCH)
    is_stuck = consumer.is_held and consumer.reason == REASON_SOCKET
    return ActorSnapshot(
        f"consumer:{consumer.tag}@{consumer.holder}",
        "consumer",
        "flow" if consumer.is_held else "running",
        started_ns=int(consumer.started_ns),
        times=Times(idle_ns=max(0, age_ns - held_ns), waiting_ns=held_ns),
        numbers={
            "prefetch": float(int(consumer.prefetch)),
            "unacked": float(int(consumer.unacked)),
            "delivered": float(int(consumer.delivered)),
            "acked": float(int(consumer.delivered - consumer.unacked)),
            "prefetch_full_share": 1.0 if is_full else 0.0,
            "socket_blocked": 1.0 if is_stuck else 0.0,
        },
        labels={"queue": queue.identity, "vhost": queue.vhost},
    )


def _consumers(queue: QueueActor, snapshot: ActorSnapshot) -> ActorSnapshot:
    """All consumers of a queue together: what a queue above its depth mark waits for."""
    prefetch = sum(float(int(consumer.prefetch)) for consumer in queue.consumers)
    taken = ("unacked", "delivered", "acked", "prefetch_full_share", "socket_blocked", "consumers")
    numbers = {name: snapshot.numbers[name] for name in taken}
    numbers["prefetch"] = prefetch
    return ActorSnapshot(
        "consumers:" + queue.identity[6:],
        "consumer",
        started_ns=snapshot.started_ns,
        times=Times(waiting_ns=snapshot.times.total_ns()),
        numbers=numbers,
        labels=snapshot.labels,
    )
