"""Definitions: the topology, users and rules of a broker as one JSON object of RabbitMQ's shape.

`importing` checks everything (broker/admin/definitions_plan), then does it; `exporting` writes
what there is, durable or not, but no exclusive queues. Internal exchanges are among it, which
RabbitMQ leaves out together with what its own import then needs.

Both go in steps, between which clients declare and delete. What they have declared or deleted since
the check is passed over with a note; of what comes while an export is written some is in it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from penstock.base.config import UserConfig
from penstock.base.errors import ChannelFault, OperatorError, PeerError
from penstock.base.limits import CATALOGUE_CHANGES
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.definitions_plan import Plan, plan_import
from penstock.broker.admin.definitions_rows import Row
from penstock.broker.admin.definitions_topology import RESERVED, BindingPlan, QueuePlan
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.entry_limits import USER
from penstock.broker.session.passwords import SALT_BYTES, SHA256, hash_password
from penstock.broker.vhost.queue_arguments import type_of
from penstock.broker.vhost.vhost import VirtualHost
from penstock.protocol.integers import Timestamp
from penstock.routing.destination import Destination
from penstock.routing.exchange import Exchange

VERSION_OF_FORMAT: Final = "3.10.8"
"""The release of RabbitMQ whose shape this is. Its import asks, to tell how old hashes were made.
"""
PERMISSION_ROWS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Imported:
    """How many of each were new or changed; notes: what was passed over, and why."""

    counts: Mapping[str, int]
    notes: tuple[str, ...]


def importing(broker: Broker, definitions: Row, vhost: str = "") -> Steps[Imported]:
    """Add what `definitions` say. vhost: of rows that name none. One at a time.

    Raises: OperatorError naming the place of the first fault, and then nothing has changed."""
    plan = yield from plan_import(broker, definitions, vhost)
    count = plan.topology.change_count() + len(plan.vhosts) + len(plan.users)
    count += len(plan.limits) + len(plan.policies)
    room = broker.catalogue.room()
    if count > room:
        raise OperatorError(
            f"definitions: {count} changes at once, and the disk has room for {room} "
            f"(catalogue_changes is {CATALOGUE_CHANGES.default}); split the file, or wait"
        )
    counts = yield from _apply(broker, plan)
    return Imported(
        {
            "vhosts": len(plan.vhosts),
            "users": len(plan.users),
            "limits": len(plan.limits),
            "policies": len(plan.policies),
            **counts,
        },
        tuple(plan.notes),
    )


def _apply(broker: Broker, plan: Plan) -> Steps[dict[str, int]]:
    """How many exchanges, queues and bindings were new."""
    for name in plan.vhosts:
        broker.add_vhost(name)
        yield 0.0
    for user in plan.users:
        broker.set_user(user)
    for limit in plan.limits:
        broker.limits.set(limit.kind, limit.name, limit.limits)
    for policy, is_operator in plan.policies:
        broker.policy_manager.set(policy, is_operator)
        yield 0.0
    counts = {"exchanges": 0, "queues": 0, "bindings": 0}
    for (vhost, _), exchange in plan.topology.exchanges.items():
        counts["exchanges"] += _done(plan, partial(_add_exchange, broker, vhost, exchange))
        yield 0.0
    for queue in plan.topology.queues.values():
        counts["queues"] += _done(plan, partial(_declare, broker, queue))
        yield 0.0
    for binding in plan.topology.bindings:
        counts["bindings"] += _done(plan, partial(_bind, broker, binding))
        yield 0.0
    return counts


def _done(plan: Plan, deed: Callable[[], bool]) -> bool:
    """Do one thing of the plan, which may have become impossible since it was checked."""
    try:
        return deed()
    except PeerError as error:
        plan.notes.append(f"while it was imported: {error.text}; passed over")
        return False


def _add_exchange(broker: Broker, name: str, exchange: Exchange) -> bool:
    vhost = broker.vhosts[name]
    if vhost.find_exchange(exchange.name) is not None:
        raise ChannelFault(406, f"exchange '{exchange.name}' was declared by another client")
    vhost.add_exchange(exchange)
    broker.exchange_made(vhost, exchange)
    return True


def _declare(broker: Broker, plan: QueuePlan) -> bool:
    vhost = broker.vhosts[plan.vhost]
    if plan.name in vhost.queues:
        raise ChannelFault(406, f"queue '{plan.name}' was declared by another client")
    vhost.check_room(plan.name)
    vhost.add_queue(
        broker.make_queue(
            vhost, plan.name, plan.is_durable, plan.is_auto_delete, "", plan.arguments
        )
    )
    return True


def _bind(broker: Broker, plan: BindingPlan) -> bool:
    """True if it is new."""
    vhost = broker.vhosts[plan.vhost]
    source = vhost.find_exchange(plan.source)
    destination: Destination | None
    if plan.is_to_exchange:
        destination = vhost.find_exchange(plan.destination)
    else:
        queue = vhost.queues.get(plan.destination)
        destination = None if queue is None else queue.target
    if source is None or destination is None:
        gone = plan.source if source is None else plan.destination
        raise ChannelFault(404, f"'{gone}', an end of a binding, is gone")
    before = source.binding_count
    vhost.bind(source, destination, plan.routing_key, plan.arguments, 50)
    return source.binding_count > before


# -- export ----------------------------------------------------------------------------------------


def exporting(broker: Broker, product_version: str) -> Steps[tuple[Row, list[str]]]:
    """The definitions, and notes on what JSON or RabbitMQ's shape cannot say."""
    notes: list[str] = []
    limits = broker.limits.export()
    policies = broker.policies.export()
    user_limits = {row.name: dict(row.limits) for row in broker.limits.rows() if row.kind == USER}
    vhosts = list(broker.vhosts.values())
    users = list(broker.access.users.values())
    queues: list[Row] = []
    exchanges: list[Row] = []
    bindings: list[Row] = []
    for vhost in vhosts:
        for queue in _queues(vhost):
            queues.append(_queue(queue, notes))
            yield 0.0
        for exchange in _exchanges(vhost):
            exchanges.append(_exchange(vhost.name, exchange, notes))
            yield 0.0
    there = {(False, row["vhost"], row["name"]) for row in queues}
    there.update((True, row["vhost"], row["name"]) for row in exchanges)
    for vhost in vhosts:
        yield from _write_bindings(vhost, there, bindings, notes)
    found: Row = {
        "rabbit_version": VERSION_OF_FORMAT,
        "rabbitmq_version": VERSION_OF_FORMAT,
        "product_name": "Penstock",
        "product_version": product_version,
        "users": [_user(broker, one, user_limits.get(one.name, {})) for one in users],
        "vhosts": [{"name": one.name} for one in vhosts],
        "permissions": _permissions(users, vhosts, notes),
        "topic_permissions": [],
        "parameters": [*limits["parameters"], *policies["parameters"]],
        "global_parameters": [],
        "policies": policies["policies"],
        "queues": queues,
        "exchanges": exchanges,
        "bindings": bindings,
    }
    return found, notes


def _user(broker: Broker, user: UserConfig, limits: Mapping[str, int]) -> Row:
    hashed, hashing = user.password_hash, user.hashing
    if hashing == "":
        hashed = hash_password(user.password, broker.chance.token(SALT_BYTES))
        hashing = SHA256
    return {
        "name": user.name,
        "password_hash": hashed,
        "hashing_algorithm": hashing,
        "tags": list(user.tags),
        "limits": dict(limits),
    }


def _permissions(
    users: list[UserConfig], vhosts: list[VirtualHost], notes: list[str]
) -> list[dict[str, str]]:
    """What is in force: everything, for everybody, everywhere."""
    if len(users) * len(vhosts) > PERMISSION_ROWS_MAX:
        notes.append("permissions: too many users times virtual hosts; left out")
        return []
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    return [
        {"user": user.name, "vhost": vhost.name, **everything} for user in users for vhost in vhosts
    ]


def _queues(vhost: VirtualHost) -> list[QueueActor]:
    """Those that clients have declared for everybody."""
    return [
        one
        for one in vhost.queues.values()
        if one.owner == "" and vhost.directory.find_queue(one.name) is one.target
    ]


def _exchanges(vhost: VirtualHost) -> list[Exchange]:
    return [
        one
        for one in vhost.router.exchanges()
        if one.name != "" and not one.name.startswith(RESERVED)
    ]


def _queue(actor: QueueActor, notes: list[str]) -> Row:
    return {
        "vhost": actor.vhost,
        "name": actor.name,
        "type": type_of(actor.arguments),
        "durable": actor.durable,
        "auto_delete": actor.auto_delete,
        "arguments": _plain_table(actor.arguments, f"queue '{actor.name}'", notes),
    }


def _exchange(vhost: str, one: Exchange, notes: list[str]) -> Row:
    return {
        "vhost": vhost,
        "name": one.name,
        "type": one.kind,
        "durable": one.durable,
        "auto_delete": one.auto_delete,
        "internal": one.internal,
        "arguments": _plain_table(one.arguments, f"exchange '{one.name}'", notes),
    }


def _write_bindings(
    vhost: VirtualHost, there: set[tuple[bool, object, object]], rows: list[Row], notes: list[str]
) -> Steps[None]:
    """there: queues and exchanges that are written; what came later is bound to nothing."""
    for source in list(vhost.router.exchanges()):
        for one in list(source.bindings()) if source.name != "" else ():
            yield 0.0
            destination = one.destination
            is_exchange = isinstance(destination, Exchange)
            is_reserved = is_exchange and destination.name.startswith(RESERVED)
            if not is_reserved and (is_exchange, vhost.name, destination.name) not in there:
                continue
            rows.append(
                {
                    "source": source.name,
                    "vhost": vhost.name,
                    "destination": destination.name,
                    "destination_type": "exchange" if is_exchange else "queue",
                    "routing_key": one.routing_key,
                    "arguments": _plain_table(
                        one.arguments, f"binding of '{destination.name}'", notes
                    ),
                }
            )


def _plain_table(table: Mapping[str, object], what: str, notes: list[str]) -> Row:
    """Arguments as JSON has them; a note when a value changes its type by it."""
    losses: list[str] = []
    plain = {key: _plain(value, losses) for key, value in table.items()}
    if losses:
        notes.append(f"{what}: {', '.join(sorted(set(losses)))} written as JSON's nearest")
    return plain


def _plain(value: object, losses: list[str]) -> object:
    if isinstance(value, dict):
        return {key: _plain(one, losses) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one, losses) for one in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Timestamp):
        losses.append("timestamp")
        return int(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return value
    if isinstance(value, bytes | bytearray):
        losses.append("octets")
        return value.decode("utf-8", "replace")
    losses.append(type(value).__name__.lower())
    return str(value)
