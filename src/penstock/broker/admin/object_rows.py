"""Rows of connections, channels, consumers, queues, exchanges and bindings, in the words and types
of RabbitMQ's HTTP API, each with a `flow` object of ours.

Rates are messages a second over the last ten seconds, from the flight recorder's windows. A value
that Penstock does not keep is left out where readers allow it, and 0 where they need a number.
Source: RabbitMQ 3.10, rabbit_mgmt_format and rabbit_mgmt_data; which readers need which field is in
docs/http-api.md.
"""

from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import quote

from penstock.base.clock import Clock
from penstock.broker.actors.deliver import ChannelSink
from penstock.broker.admin.definitions_export import plain_table
from penstock.broker.admin.definitions_rows import Row
from penstock.broker.admin.pending_views import pending_commands
from penstock.broker.admin.replica_rows import mirrors_of, replicas_of
from penstock.broker.broker import Broker
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.connection.phases import PHASE_CLOSING, PHASE_OPEN
from penstock.broker.paging.paged_view import paged_of
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.node_counts import passed
from penstock.broker.store.durability import StoreDurability
from penstock.broker.vhost.queue_arguments import type_of
from penstock.queues.applied import names_of
from penstock.queues.consumers import Consumer
from penstock.routing.bindings import Binding
from penstock.routing.exchange import Exchange
from penstock.telemetry.actor_window import ActorWindow

NS_PER_MS: Final = 1_000_000
DEFAULT_PROPERTIES_KEY: Final = "~"
CONSUMER_DETAILS_MAX: Final = 1_000
"""Consumers that the view of one queue lists."""


class Windows(Protocol):
    """What every actor did in the last seconds, by its id."""

    def get(self, actor: str, /) -> ActorWindow | None: ...


def details(rate: float) -> Row:
    """A rate as every `X_details` has it."""
    return {"rate": round(rate, 2)}


def stats(
    counts: Mapping[str, int], rates: Mapping[str, float], names: Mapping[str, tuple[str, str]]
) -> Row:
    """`message_stats`: each count with its rate. names: of our count and rate, by RabbitMQ's."""
    found: Row = {}
    for name, (count, rate) in names.items():
        if count in counts:
            found[name] = counts[count]
            found[f"{name}_details"] = details(rates.get(rate, 0.0))
    return found


def flow_of(window: ActorWindow | None, state: str) -> Row:
    """How long an actor was held in the window, by whom and why, the longest first."""
    if window is None:
        return {"state": state, "blocked_share": 0.0, "stops": 0, "longest_ms": 0, "blocks": []}
    return {
        "state": state,
        "blocked_share": round(window.blocked_share(), 4),
        "stops": window.stops,
        "longest_ms": window.longest_ns // NS_PER_MS,
        "blocks": [
            {
                "peer": one.peer,
                "reason": one.reason,
                "ms": one.ns // NS_PER_MS,
                "is_now": one.since_ns is not None,
            }
            for one in window.blocks[:8]
        ],
    }


def wall_ms(clock: Clock, started_ns: int) -> int:
    """When something began, as milliseconds since 1970. started_ns: monotonic."""
    return (clock.wall_ns() - (clock.monotonic_ns() - started_ns)) // NS_PER_MS


# -- connections ---------------------------------------------------------------------------------


def connection_row(broker: Broker, connection: Connection, windows: Windows, wire: Row) -> Row:
    """One connection. wire: name, host, port, bytes and TLS of its socket, which the broker does
    not know."""
    now_ns = broker.clock.monotonic_ns()
    negotiator = broker.negotiators.get(connection.name)
    session = None if negotiator is None else negotiator.session
    state = connection.state(now_ns)
    if connection.phase != PHASE_OPEN:
        state = "closing" if connection.phase >= PHASE_CLOSING else "starting"
    row: Row = {
        "node": broker.node_name,
        "type": "network",
        "protocol": "AMQP 0-9-1",
        "state": state,
        "vhost": "" if session is None else session.vhost.name,
        "user": "" if session is None else session.user,
        "user_who_performed_action": "" if session is None else session.user,
        "channels": len(connection.channels),
        "connected_at": wall_ms(broker.clock, int(connection.time.start_ns)),
        "recv_cnt": int(connection.receive_count),
        "last_blocked_by": connection.blocked_by or "none",
        "flow": flow_of(windows.get(connection.identity), state),
    }
    if negotiator is not None:
        properties = plain_table(negotiator.client_properties, "", [])
        given = properties.get("connection_name")
        row |= {
            "peer_host": negotiator.peer_host,
            "auth_mechanism": negotiator.mechanism,
            "timeout": negotiator.tuning.heartbeat_s,
            "frame_max": negotiator.tuning.frame_bytes_max,
            "channel_max": negotiator.tuning.channel_max,
            "user_provided_name": given if isinstance(given, str) else "",
            "client_properties": properties,
        }
    window = windows.get(connection.identity)
    rates = {} if window is None else window.rates
    row["message_stats"] = stats(
        {"published": int(connection.receive_count)},
        rates,
        {"publish": ("published", "published")},
    )
    return row | wire


# -- channels ------------------------------------------------------------------------------------


CHANNEL_STATS: Final = {
    "publish": ("published", "published"),
    "confirm": ("confirmed", "confirmed"),
    "return_unroutable": ("returned", "returned"),
    "deliver_get": ("delivered", "delivered"),
    "deliver": ("delivered", "delivered"),
}


def channel_row(
    broker: Broker, connection: Connection, channel: Channel, windows: Windows, wire: Row
) -> Row:
    """One channel. wire: see connection_row."""
    negotiator = broker.negotiators.get(connection.name)
    session = None if negotiator is None else negotiator.session
    publisher = channel.publisher
    confirms = None if publisher is None else publisher.confirms
    is_confirming = confirms is not None and confirms.commits is None
    counts = {"delivered": sum(int(one.delivered) for one in channel.consumers.values())}
    unconfirmed = 0
    if publisher is not None:
        counts["published"] = int(publisher.publish_count)
        counts["returned"] = int(publisher.return_count)
    if confirms is not None and is_confirming:
        counts["confirmed"] = int(confirms.base + confirms.head - 1)
        unconfirmed = max(0, counts["published"] - counts["confirmed"])
    transaction = channel.transaction
    window = windows.get(channel.identity)
    state = "flow" if channel.is_stalled else channel.gate.state(broker.clock.monotonic_ns())
    prefetch = int(channel.sink.prefetch)
    return {
        "name": f"{wire['name']} ({int(channel.number)})",
        "number": int(channel.number),
        "node": broker.node_name,
        "vhost": "" if session is None else session.vhost.name,
        "user": "" if session is None else session.user,
        "state": state,
        "connection_details": {
            "name": wire["name"],
            "user_provided_name": wire["user_provided_name"],
            "peer_host": wire["peer_host"],
            "peer_port": wire["peer_port"],
        },
        "consumer_count": len(channel.consumers),
        "confirm": is_confirming,
        "transactional": transaction is not None,
        "prefetch_count": int(channel.prefetch),
        "global_prefetch_count": prefetch,
        "messages_unacknowledged": int(channel.table.count),
        "messages_unconfirmed": unconfirmed,
        "messages_uncommitted": 0 if transaction is None else len(transaction.messages),
        "acks_uncommitted": 0 if transaction is None else len(transaction.settles),
        "pending_raft_commands": pending_commands(publisher),
        "client_flow_blocked": not channel.sink.is_flow_active,
        "message_stats": stats(counts, {} if window is None else window.rates, CHANNEL_STATS),
        "flow": flow_of(window, state),
    }


# -- consumers -----------------------------------------------------------------------------------


def consumer_row(
    queue: QueueActor, consumer: Consumer, wire: Row, user: str, node: str, timeout_ms: int
) -> Row:
    """One consumer. wire: of its connection, see connection_row; timeout_ms: for deliveries that
    are not acknowledged, 0 for none."""
    sink = consumer.sink
    number = int(sink.number) if isinstance(sink, ChannelSink) else 0
    is_active = True
    status = "up"
    if queue.choice is not None and queue.choice.is_single:
        is_active = queue.choice.active is consumer
        status = "single_active" if is_active else "waiting"
    return {
        "consumer_tag": consumer.tag,
        "active": is_active,
        "activity_status": status,
        "ack_required": not consumer.is_no_ack,
        "exclusive": consumer.is_exclusive,
        "prefetch_count": int(consumer.prefetch),
        "arguments": plain_table(consumer.arguments, "", []),
        "consumer_timeout": timeout_ms,
        "messages_unacknowledged": int(consumer.unacked),
        "queue": {"name": queue.name, "vhost": queue.vhost},
        "channel_details": {
            "name": f"{wire['name']} ({number})",
            "number": number,
            "node": node,
            "connection_name": wire["name"],
            "user_provided_name": wire["user_provided_name"],
            "peer_host": wire["peer_host"],
            "peer_port": wire["peer_port"],
            "user": user,
        },
    }


# -- queues --------------------------------------------------------------------------------------


QUEUE_STATS: Final = {
    "publish": ("routed", "published"),
    "deliver_get": ("delivered", "delivered"),
    "deliver": ("acked_delivered", "delivered"),
    "deliver_no_ack": ("auto_delivered", ""),
    "get": ("got", ""),
    "get_no_ack": ("auto_got", ""),
    "get_empty": ("got_empty", ""),
    "ack": ("acked", "acked"),
    "redeliver": ("redelivered", "redelivered"),
}


def queue_row(broker: Broker, actor: QueueActor, windows: Windows, owner: str) -> Row:
    """One queue. owner: the name of the connection that alone may use it, "" for none."""
    window = windows.get(actor.identity)
    policy, operator_policy = names_of(actor.applied)
    kind = type_of(actor.arguments)
    state = "flow" if actor.stop_reason() == "depth" else "running"
    row: Row = {
        "name": actor.name,
        "vhost": actor.vhost,
        "type": kind,
        "durable": actor.durable,
        "auto_delete": actor.auto_delete,
        "exclusive": actor.owner != "",
        "arguments": plain_table(actor.arguments, "", []),
        "node": broker.node_name,
        "state": "stopped" if actor.is_paused else state,
        "policy": policy or None,
        "operator_policy": operator_policy or None,
        "effective_policy_definition": (
            {} if actor.applied is None else dict(actor.applied.definition)
        ),
        **_consumers_of(actor, window),
        **_contents_of(actor, window),
        "flow": flow_of(window, "stopped" if actor.stop_reason() else "running"),
    }
    if owner:
        row["owner_pid_details"] = {"name": owner}
    if kind in ("quorum", "stream"):
        row |= replicas_of(broker)
    else:
        row |= mirrors_of(broker, actor)
    return row


def _consumers_of(actor: QueueActor, window: ActorWindow | None) -> Row:
    """Who takes messages out of a queue. consumer_capacity: the share of its consumers, 0..1, that
    could be given a message."""
    full_share = 0.0 if window is None else window.numbers.get("prefetch_full_share", 0.0)
    capacity = 0.0 if not actor.consumers else 1.0 - full_share
    choice, exclusive = actor.choice, actor.exclusive_consumer
    is_single = choice is not None and choice.is_single
    active = choice.active if choice is not None and is_single else None
    return {
        "consumers": len(actor.consumers),
        "consumer_capacity": capacity,
        "consumer_utilisation": capacity,
        "exclusive_consumer_tag": None if exclusive is None else exclusive.tag,
        "single_active_consumer_tag": None if active is None else active.tag,
    }


def _contents_of(actor: QueueActor, window: ActorWindow | None) -> Row:
    """What is in a queue, and what has passed through it. Bytes of what is on the disk alone count,
    too, except where `ram` is said."""
    rates = {} if window is None else window.rates
    messages = actor.messages
    ready, unacked = int(messages.ready_count()), int(actor.unacked_count)
    ready_bytes, unacked_bytes = int(messages.bytes_ready), int(actor.unacked_bytes)
    paged, paged_bytes = paged_of(actor)
    bytes_ = ready_bytes + unacked_bytes + paged_bytes
    entered, delivered = rates.get("published", 0.0), rates.get("delivered", 0.0)
    left = rates.get("acked", 0.0)
    counts = passed(actor)
    others = counts["auto_delivered"] + counts["got"] + counts["auto_got"]
    counts["acked_delivered"] = counts["delivered"] - others
    persistent = _persistent_of(actor, ready + unacked)
    return {
        "messages": ready + unacked,
        "messages_details": details(entered - left),
        "messages_ready": ready,
        "messages_ready_details": details(entered - delivered),
        "messages_unacknowledged": unacked,
        "messages_unacknowledged_details": details(delivered - left),
        "messages_ram": ready - paged + unacked,
        "messages_ready_ram": ready - paged,
        "messages_unacknowledged_ram": unacked,
        "messages_persistent": persistent,
        "messages_paged_out": paged,
        "message_bytes": bytes_,
        "message_bytes_ready": ready_bytes + paged_bytes,
        "message_bytes_unacknowledged": unacked_bytes,
        "message_bytes_ram": ready_bytes + unacked_bytes,
        "message_bytes_persistent": bytes_ * persistent // max(1, ready + unacked),
        "message_bytes_paged_out": paged_bytes,
        "head_message_timestamp": None,
        "recoverable_slaves": None,
        "garbage_collection": {},
        "reductions": 0,
        "memory": 0 if window is None else int(window.numbers.get("memory_bytes", 0.0)),
        "message_stats": stats(counts, rates, QUEUE_STATS),
    }


def _persistent_of(actor: QueueActor, messages: int) -> int:
    """How many of the `messages` in a queue come back after a restart: those that its log has.
    Messages that are not persistent, and were paged, count there, too."""
    durability = actor.durability
    if isinstance(durability, StoreDurability) and durability.is_lasting:
        return min(messages, int(durability.index.live_count()))
    return messages if actor.durable else 0


# -- exchanges and bindings ----------------------------------------------------------------------


def exchange_row(broker: Broker, vhost: str, exchange: Exchange) -> Row:
    """One exchange; the default one has no name, and goes by no policy."""
    applied = broker.policies.for_exchange(vhost, exchange.name) if exchange.name else None
    policy, _ = names_of(applied)
    # As in RabbitMQ, an exchange without one has no such field.
    return ({"policy": policy} if policy else {}) | {
        "name": exchange.name,
        "vhost": vhost,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain_table(exchange.arguments, "", []),
        "user_who_performed_action": "rmq-internal" if exchange.name[:4] in ("", "amq.") else "",
    }


def binding_row(vhost: str, source: Exchange, binding: Binding) -> Row:
    """One binding."""
    destination = binding.destination
    kind = "exchange" if isinstance(destination, Exchange) else "queue"
    arguments = plain_table(binding.arguments, "", [])
    return {
        "source": source.name,
        "vhost": vhost,
        "destination": destination.name,
        "destination_type": kind,
        "routing_key": binding.routing_key,
        "arguments": arguments,
        "properties_key": properties_key(binding.routing_key, arguments),
    }


def properties_key(routing_key: str, arguments: Row) -> str:
    """What tells bindings of one pair apart in an address; opaque to those who use it."""
    if not arguments:
        return quote(routing_key, safe="") or DEFAULT_PROPERTIES_KEY
    # Any short text that differs where the arguments do: RabbitMQ has a hash here, too.
    said = ",".join(f"{key}={arguments[key]!r}" for key in sorted(arguments))
    return f"{quote(routing_key, safe='')}~{quote(said, safe='')}"
