"""Snapshots of the broker: its actors with their time, blocks and numbers, and pages with sums."""

from collections.abc import Iterable, Iterator
from sys import intern

from penstock.broker.admin.page_sums import PageSums, Sum, is_of_connection
from penstock.broker.admin.view_letters import letters_snapshot
from penstock.broker.admin.view_loads import (
    answer_loads,
    compact,
    credit_loads,
    output_loads,
    parked_loads,
)
from penstock.broker.admin.view_memory import PARTS_MAX, ViewMemory, connection_stamp, queue_stamp
from penstock.broker.admin.view_queues import blocked, parked, queue_and_consumers, times
from penstock.broker.admin.view_store import store_snapshot, stream_store_snapshot
from penstock.broker.broker import Broker
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.alarm_action import ACTION_NACK
from penstock.broker.connection.connection import Connection
from penstock.broker.queue.queue_actor import QueueActor
from penstock.explain.asking import ACCOUNTING
from penstock.explain.memory_forecast import BASE, PAGING_BUDGET, PEAK
from penstock.explain.naming import spark_words
from penstock.explain.remarks import CONFIRMS
from penstock.flow.account import Account
from penstock.flow.rate import Meter
from penstock.telemetry.actor_window import REFUSED_BY
from penstock.telemetry.row import row_of
from penstock.telemetry.snapshots import NO_LABELS, ActorSnapshot, Times


def actor_snapshots(broker: Broker) -> dict[str, ActorSnapshot]:
    """Every actor by id, in one go. Cost: about ten microseconds an actor."""
    return {snapshot.actor: snapshot for snapshot in each_snapshot(broker)}


def each_snapshot(broker: Broker, memory: ViewMemory | None = None) -> Iterator[ActorSnapshot]:
    """Every connection, channel, queue, consumer, alarm and account, and the node, one by one."""
    return (one for one in snapshot_steps(broker, memory) if one is not None)


def snapshot_steps(
    broker: Broker, memory: ViewMemory | None = None
) -> Iterator[ActorSnapshot | None]:
    """The same in steps that are short however many there are; None for one without a snapshot.

    The broker may work between two of them. Guaranteed: each snapshot is of one moment, which it
    carries; an actor that is there from the walk's beginning to its end comes exactly once; one
    that comes up meanwhile may be missing until the next walk. A connection comes with its
    channels.
    memory: of the walk before; actors that have rested since come as they were then, dated so.
    """
    if memory is not None:
        memory.begin_round()
    sums = PageSums()
    for connection in list(broker.connections.values()):
        if connection.is_alive:
            sums.met(connection.account)
            if memory is not None and len(connection.channels) <= PARTS_MAX:
                yield from _remembered(broker, connection, memory)
            else:
                yield from _with_channels(broker, connection)
    for vhost in list(broker.vhosts.values()):
        for queue in list(vhost.queues.values()):
            if queue.is_alive:
                yield from letters_snapshot(queue)
            if queue.is_alive and memory is not None and len(queue.consumers) <= PARTS_MAX:
                yield from _remembered_queue(broker, queue, memory)
            elif queue.is_alive:
                yield from queue_and_consumers(broker, queue)
    for store in list(broker.stores.by_name.values()):
        yield store_snapshot(broker, store)
    for streams in list(broker.streams.stores.values()):
        yield stream_store_snapshot(broker, streams)
    for source in list(broker.alarms):
        yield _alarm(broker, source)
    for meter in broker.rates.meters():
        # One at which nobody stands at this moment may have held somebody all the time. Those of
        # single connections, of which there may be many, come once they have held it.
        if meter.waits > 0 or not meter.name.startswith("rate:conn:"):
            yield _rate(broker, meter)
    yield from _pages(broker, sums)
    if memory is not None:
        yield from memory.forgetting()


def _pages(broker: Broker, sums: PageSums) -> Iterator[ActorSnapshot | None]:
    """Users, virtual hosts and the node, when every connection was met."""
    vhosts: list[Sum] = []
    for page in list(broker.node_account.children.values()):
        if is_of_connection(page):
            continue
        users: list[Sum] = []
        for below in list(page.children.values()):
            if not is_of_connection(below):
                yield from sums.ended(below)
                users.append(sums.whole(below, []))
                yield _account(broker, below, users[-1])
        yield from sums.ended(page)
        vhosts.append(sums.whole(page, users))
        yield _account(broker, page, vhosts[-1])
    yield from sums.ended(broker.node_account)
    yield _node(broker, sums.whole(broker.node_account, vhosts))


def _with_channels(
    broker: Broker, connection: Connection, now_ns: int | None = None
) -> Iterator[ActorSnapshot]:
    """now_ns: of all of them, where they are made in one go; None where the broker may work in
    between."""
    clock = broker.clock
    yield _connection(broker, connection, now_ns or clock.monotonic_ns())
    for channel in list(connection.channels.values()):
        if channel.is_alive:
            yield _channel(broker, channel, now_ns or clock.monotonic_ns())


def _remembered(
    broker: Broker, connection: Connection, memory: ViewMemory
) -> Iterable[ActorSnapshot]:
    now_ns = broker.clock.monotonic_ns()
    known = memory.recall(connection.identity, connection_stamp(connection, now_ns))
    if known is not None:
        return known
    made = tuple(_with_channels(broker, connection, now_ns))
    memory.keep(connection.identity, connection_stamp(connection, now_ns), made)
    return made


def _remembered_queue(
    broker: Broker, queue: QueueActor, memory: ViewMemory
) -> Iterable[ActorSnapshot]:
    now_ns = broker.clock.monotonic_ns()
    known = memory.recall(queue.identity, queue_stamp(queue, now_ns))
    if known is not None:
        return known
    made = tuple(queue_and_consumers(broker, queue))
    memory.keep(queue.identity, queue_stamp(queue, now_ns), made)
    return made


def _node(broker: Broker, total: Sum) -> ActorSnapshot:
    """The broker as a whole: its memory, and what its records have lost."""
    now_ns = broker.clock.monotonic_ns()
    numbers = _level(broker, "memory") or {
        "used_bytes": float(broker.memory_used_bytes),
        "limit_bytes": float(broker.memory_high_bytes),
    }
    _page(numbers, broker.node_account, total)
    used, held = int(numbers["used_bytes"]), int(numbers["stored_bytes"])
    if used > 0:
        # What is under way is left out: it comes and goes faster than memory is looked at.
        numbers[BASE] = float(broker.context.memory_base.add(now_ns, max(0, used - held)))
        numbers[PEAK] = -float(broker.context.memory_peak.add(now_ns, -held))
    paging = broker.stores.paging
    if paging is not None and broker.stores.stores:
        numbers[PAGING_BUDGET] = broker.memory_high_bytes * paging.paging_ratio
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
    return ActorSnapshot(
        source,
        "alarm",
        "set",
        numbers=_level(broker, resource),
        labels={
            "who": broker.alarm_manager.who(resource),
            "mode": broker.alarm_manager.mode_of(resource),
        },
        taken_ns=broker.clock.monotonic_ns(),
    )


def _rate(broker: Broker, meter: Meter) -> ActorSnapshot:
    """A rate limit that publishes have waited at."""
    messages, bytes_ = meter.messages, meter.bytes
    now_ns = broker.clock.monotonic_ns()
    return ActorSnapshot(
        meter.name,
        "rate",
        started_ns=meter.began_ns,
        times=Times(idle_ns=now_ns - meter.began_ns),
        numbers={
            "messages_per_s": 0.0 if messages is None else float(messages.per_second),
            "bytes_per_s": 0.0 if bytes_ is None else float(bytes_.per_second),
            "waiting": float(len(meter.waiting)),
            "published": float(meter.passed),
        },
        taken_ns=now_ns,
    )


def _level(broker: Broker, resource: str) -> dict[str, float]:
    level = broker.alarm_manager.levels.get(resource)
    if level is None:
        return {}
    return {
        "used_bytes": float(level.now_bytes),
        "limit_bytes": float(level.limit_bytes),
        "clear_bytes": float(level.clear_bytes),
    }


def _connection(broker: Broker, connection: Connection, now_ns: int) -> ActorSnapshot:
    negotiator = broker.negotiators.get(connection.name)
    published = 0
    confirmed = 0
    for channel in connection.channels.values():
        publisher = channel.publisher
        if publisher is not None:
            published += int(publisher.publish_count)
            if publisher.confirms is not None and publisher.confirms.commits is None:
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
        if spark := spark_words(negotiator.client_properties):
            labels["client"] += f", {spark}"
        # Thousands of connections are of the same client.
        labels["client"] = intern(labels["client"])
        given = negotiator.client_properties.get("connection_name")
        if isinstance(given, str):
            labels["name"] = given
        platform = negotiator.client_properties.get("platform")
        if isinstance(platform, str):
            labels["platform"] = platform
    is_refusing = connection.alarm_action == ACTION_NACK and not connection.is_told_blocked
    if connection.alarms and is_refusing and confirmed > 0:
        labels[REFUSED_BY] = next(iter(connection.alarms))
    numbers = {
        "published": float(int(connection.receive_count)),
        "routed": float(published),
        "confirmed": float(confirmed),
        "channels": float(len(connection.channels)),
    }
    own = Sum()
    own.add_own(connection.account)
    _page(numbers, connection.account, own)
    for channel in connection.channels.values():
        if channel.upstream is not None:
            credit_loads(numbers, channel.upstream)
        parked_loads(channel, now_ns, numbers, labels)
    output_loads(connection, numbers)
    is_alike = not connection.lot.lines and not connection.output.runs
    answer_loads(connection.output.times, now_ns, numbers)
    return ActorSnapshot(
        connection.identity,
        "conn",
        connection.state(now_ns),
        started_ns=connection.time.start_ns,
        times=times(connection.time.totals(now_ns)),
        blocked=blocked(connection, now_ns),
        parked=parked(connection, now_ns, numbers),
        # Names of queues and of others' accounts are in few snapshots only.
        numbers=row_of(numbers, connection.name) if is_alike else compact(numbers),
        labels=labels,
        taken_ns=now_ns,
    )


def _page(numbers: dict[str, float], account: Account, total: Sum) -> None:
    """What one page of the ledger says, with everything below it."""
    numbers["debt_messages"] = float(total.debt_messages)
    numbers["debt_bytes"] = float(total.debt_bytes)
    numbers["stored_messages"] = float(total.stored_messages)
    numbers["stored_bytes"] = float(total.stored_bytes)
    numbers["parked_messages"] = float(total.parked_messages)
    numbers["parked_bytes"] = float(total.parked_bytes)
    numbers["unfinished_bytes"] = float(total.unfinished_bytes)
    numbers["memory_bytes"] = float(total.memory_bytes())
    if account.is_limited:
        numbers["high_messages"] = float(int(account.high_messages))
        numbers["high_bytes"] = float(int(account.high_bytes))


def _account(broker: Broker, account: Account, total: Sum) -> ActorSnapshot:
    """A user's or virtual host's page: who is held by a limit of one of these asks about it."""
    numbers: dict[str, float] = {}
    _page(numbers, account, total)
    numbers["ended_bytes"] = float(total.ended_bytes)
    return ActorSnapshot(
        account.name,
        account.name.partition(":")[0],
        "held" if account.is_held else "",
        numbers=numbers,
        taken_ns=broker.clock.monotonic_ns(),
    )


def _channel(broker: Broker, channel: Channel, now_ns: int) -> ActorSnapshot:
    publisher = channel.publisher
    labels: dict[str, str] = {}
    queues = [] if publisher is None else [lane.receiver for lane in publisher.lanes.values()]
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
            credit_loads(numbers, lane)
        parked_loads(channel, now_ns, numbers, labels)
    answer_loads(channel.times, now_ns, numbers)
    state = "flow" if channel.is_stalled else channel.gate.state(now_ns)
    confirms = None if publisher is None else publisher.confirms
    if confirms is not None and confirms.commits is None:
        labels[CONFIRMS] = "yes"
    return ActorSnapshot(
        channel.identity,
        "chan",
        state,
        started_ns=channel.time.start_ns,
        times=times(channel.time.totals(now_ns)),
        blocked=blocked(channel, now_ns),
        parked=parked(channel, now_ns, numbers),
        numbers=row_of(numbers, *queues) if len(queues) < 2 else compact(numbers),
        labels=labels or NO_LABELS,
        taken_ns=now_ns,
    )
