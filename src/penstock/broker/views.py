"""Snapshots of the broker for whoever asks: actors with their time, blocks and numbers."""

from collections.abc import Iterator
from typing import Final

from penstock.broker.alarm_desk import MEMORY, MODE_ALL
from penstock.broker.broker import Broker
from penstock.broker.channel import Channel
from penstock.broker.queue_actor import QueueActor
from penstock.broker.reader import Connection
from penstock.flow.account import Account
from penstock.flow.hop import Hop
from penstock.flow.rate import Meter
from penstock.queues.consumers import (
    REASON_CHANNEL_FLOW,
    REASON_CHANNEL_PREFETCH,
    REASON_NAMES,
    REASON_PREFETCH,
    REASON_SOCKET,
    REASON_UNSENT,
    Consumer,
)
from penstock.telemetry.asking import ACCOUNTING
from penstock.telemetry.snapshots import OTHERS, ActorSnapshot, BlockedTotals, Times

LOADS_MAX: Final = 64
"""Accounts a queue names in a snapshot."""

OF_ALL_CONSUMERS: Final = (
    "unacked",
    "delivered",
    "acked",
    "prefetch_full_share",
    "socket_blocked",
    "flow_paused",
    "held_ns",
    "consumers",
    "ready",
)
"""Numbers of a queue that are those of its consumers together."""


def actor_snapshots(broker: Broker) -> dict[str, ActorSnapshot]:
    """Every actor by id, in one go. Cost: about ten microseconds an actor."""
    return {snapshot.actor: snapshot for snapshot in each_snapshot(broker)}


def each_snapshot(broker: Broker) -> Iterator[ActorSnapshot]:
    """Every connection, channel, queue, consumer, alarm and account, and the node, one by one.

    The broker may work between two of them. Guaranteed: each snapshot is of one moment, which it
    carries; whoever was there when the walk began and still is comes exactly once; who comes up
    meanwhile may be missing until the next walk. A connection comes with its channels.
    """
    yield _node(broker)
    for connection in list(broker.connections.values()):
        if connection.is_alive:
            yield _connection(broker, connection)
            for channel in list(connection.channels.values()):
                if channel.is_alive:
                    yield _channel(broker, channel)
    for vhost in list(broker.vhosts.values()):
        for queue in list(vhost.queues.values()):
            if queue.is_alive:
                yield from _queue_and_consumers(broker, queue)
    for source in list(broker.alarms):
        yield _alarm(broker, source)
    for meter in broker.rates.meters():
        if meter.waiting:
            yield _rate(broker, meter)
    for page in list(broker.node_account.children.values()):
        if not page.name.startswith("conn:"):
            yield _account(broker, page)
            for below in list(page.children.values()):
                if not below.name.startswith("conn:"):
                    yield _account(broker, below)


def _queue_and_consumers(broker: Broker, queue: QueueActor) -> Iterator[ActorSnapshot]:
    consumers = list(queue.consumers)
    now_ns = broker.clock.monotonic_ns()
    snapshot = _queue(queue, now_ns)
    yield snapshot
    if consumers or queue.is_deep:
        yield _consumers(queue, snapshot, now_ns)
    for consumer in consumers:
        yield _consumer(queue, consumer, broker.clock.monotonic_ns())


def _node(broker: Broker) -> ActorSnapshot:
    """The broker as a whole: its memory, and what its records have lost."""
    now_ns = broker.clock.monotonic_ns()
    numbers = _level(broker, "memory") or {
        "used_bytes": float(broker.memory_used_bytes),
        "limit_bytes": float(broker.memory_high_bytes),
    }
    _page(numbers, broker.node_account)
    numbers["events"] = float(broker.recorder.next_seq)
    numbers["events_dropped"] = float(broker.recorder.dropped)
    return ActorSnapshot(
        "node",
        "node",
        started_ns=broker.started_ns,
        taken_ns=now_ns,
        times=Times(idle_ns=now_ns - broker.started_ns),
        numbers=numbers,
        labels={
            "profile": broker.profile.name,
            ACCOUNTING: "on" if broker.scheduler.is_accounting else "off",
        },
    )


def _alarm(broker: Broker, source: str) -> ActorSnapshot:
    resource = source.removeprefix("alarm:")
    mode = broker.desk.mode if resource == MEMORY else MODE_ALL
    return ActorSnapshot(
        source,
        "alarm",
        "set",
        numbers=_level(broker, resource),
        labels={"who": broker.desk.who(resource), "mode": mode},
        taken_ns=broker.clock.monotonic_ns(),
    )


def _rate(broker: Broker, meter: Meter) -> ActorSnapshot:
    """A rate limit that somebody waits at."""
    messages, bytes_ = meter.messages, meter.bytes
    return ActorSnapshot(
        meter.name,
        "rate",
        numbers={
            "messages_per_s": 0.0 if messages is None else float(messages.per_second),
            "bytes_per_s": 0.0 if bytes_ is None else float(bytes_.per_second),
            "waiting": float(len(meter.waiting)),
        },
        taken_ns=broker.clock.monotonic_ns(),
    )


def _level(broker: Broker, resource: str) -> dict[str, float]:
    level = broker.desk.levels.get(resource)
    if level is None:
        return {}
    return {
        "used_bytes": float(level.now_bytes),
        "limit_bytes": float(level.limit_bytes),
        "clear_bytes": float(level.clear_bytes),
    }


def _times(totals: tuple[int, int, int, int]) -> Times:
    return Times(totals[0], totals[1], totals[2], totals[3])


def _blocked(actor: Connection | Channel | QueueActor, now_ns: int) -> BlockedTotals:
    blocked = actor.ledger.snapshot(now_ns)
    actor.ledger.begin_period()
    return blocked


def _connection(broker: Broker, connection: Connection) -> ActorSnapshot:
    now_ns = broker.clock.monotonic_ns()
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
    }
    _page(numbers, connection.account)
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
        taken_ns=now_ns,
    )


def _page(numbers: dict[str, float], account: Account) -> None:
    """What one page of the ledger says, with everything below it."""
    if account.children:
        numbers["debt_messages"] = float(account.total_messages())
        numbers["debt_bytes"] = float(account.total_bytes())
        numbers["stored_messages"] = float(account.total_stored_messages())
        numbers["stored_bytes"] = float(account.total_stored_bytes())
    else:
        numbers["debt_messages"] = float(int(account.debt_messages))
        numbers["debt_bytes"] = float(int(account.debt_bytes))
        numbers["stored_messages"] = float(int(account.stored_messages))
        numbers["stored_bytes"] = float(int(account.stored_bytes))
    numbers["memory_bytes"] = numbers["debt_bytes"] + numbers["stored_bytes"]
    if account.is_limited:
        numbers["high_messages"] = float(int(account.high_messages))
        numbers["high_bytes"] = float(int(account.high_bytes))


def _account(broker: Broker, account: Account) -> ActorSnapshot:
    """A user's or virtual host's page: who is held by a limit of one of these asks about it."""
    numbers: dict[str, float] = {}
    _page(numbers, account)
    ended = [child for child in account.children.values() if child.is_closed]
    numbers["ended_bytes"] = float(sum(child.memory_bytes() for child in ended))
    return ActorSnapshot(
        account.name,
        account.name.partition(":")[0],
        "held" if account.is_held else "",
        numbers=numbers,
        taken_ns=broker.clock.monotonic_ns(),
    )


def _channel(broker: Broker, channel: Channel) -> ActorSnapshot:
    now_ns = broker.clock.monotonic_ns()
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
        taken_ns=now_ns,
    )


def _credit(numbers: dict[str, float], hop: Hop) -> None:
    numbers[f"credit_now:{hop.receiver}"] = float(int(hop.balance))
    numbers[f"credit_initial:{hop.receiver}"] = float(int(hop.window))


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
            elif consumer.reason in (REASON_SOCKET, REASON_UNSENT):
                stuck += 1
            elif consumer.reason == REASON_CHANNEL_FLOW:
                paused += 1
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
        "flow_paused": paused / count,
        "held_ns": float(sum(_held_ns(consumer, now_ns) for consumer in consumers)),
        "depth_bytes": float(int(queue.depth_bytes)),
    }
    _loads(queue, numbers)
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
        taken_ns=now_ns,
    )


def _loads(queue: QueueActor, numbers: dict[str, float]) -> None:
    """Who loads the queue, by account: `debt:` messages in its mailboxes, and `sent:` all that was
    handed over since. The LOADS_MAX accounts that sent most stand by name, the rest together."""
    debts: dict[str, int] = {}
    sent: dict[str, int] = {}
    for lane in queue.lanes:
        name = lane.origin.name
        waiting = int(lane.in_flight)
        debts[name] = debts.get(name, 0) + waiting
        passed = int(lane.granted + lane.deferred + lane.done) + waiting
        sent[name] = sent.get(name, 0) + passed
    names = sorted(sent, key=lambda name: (-sent[name], name))
    for index, name in enumerate(names):
        shown = name if index < LOADS_MAX else OTHERS
        for prefix, counts in (("debt:", debts), ("sent:", sent)):
            if counts[name] > 0:
                key = prefix + shown
                numbers[key] = numbers.get(key, 0.0) + float(counts[name])


def _consumer(queue: QueueActor, consumer: Consumer, now_ns: int) -> ActorSnapshot:
    """A consumer waits while it is held by its prefetch window or its socket; else it is idle."""
    held_ns = _held_ns(consumer, now_ns)
    age_ns = now_ns - int(consumer.started_ns)
    is_full = consumer.is_held and consumer.reason in (REASON_PREFETCH, REASON_CHANNEL_PREFETCH)
    is_stuck = consumer.is_held and consumer.reason == REASON_SOCKET
    is_paused = consumer.is_held and consumer.reason == REASON_CHANNEL_FLOW
    labels = {"queue": queue.identity, "vhost": queue.vhost}
    if consumer.is_held:
        labels["held_by"] = REASON_NAMES[int(consumer.reason)]
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
            "flow_paused": 1.0 if is_paused else 0.0,
            "held_ns": float(held_ns),
        },
        labels=labels,
        taken_ns=now_ns,
    )


def _held_ns(consumer: Consumer, now_ns: int) -> int:
    """How long it could be given nothing, since it came: prefetch, socket or channel.flow."""
    running_ns = now_ns - int(consumer.held_since_ns) if consumer.is_held else 0
    return int(consumer.full_ns) + running_ns


def _consumers(queue: QueueActor, snapshot: ActorSnapshot, now_ns: int) -> ActorSnapshot:
    """All consumers of a queue together: what a queue above its depth mark waits for."""
    prefetch = sum(float(int(consumer.prefetch)) for consumer in queue.consumers)
    numbers = {name: snapshot.numbers[name] for name in OF_ALL_CONSUMERS}
    numbers["prefetch"] = prefetch
    return ActorSnapshot(
        "consumers:" + queue.identity[6:],
        "consumer",
        started_ns=snapshot.started_ns,
        times=Times(waiting_ns=snapshot.times.total_ns()),
        numbers=numbers,
        labels={**snapshot.labels, "queue": queue.identity},
        taken_ns=now_ns,
    )
