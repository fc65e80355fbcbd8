"""Definitions out: topology, users and rules of a broker as one JSON object of RabbitMQ's shape.

What there is, durable or not, but no exclusive queues. Internal exchanges are among it, which
RabbitMQ leaves out together with what its own import then needs. It goes in steps, between which
clients declare and delete: of what comes meanwhile some is in it.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from penstock.base.config import UserConfig
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.definitions_import import RESERVED
from penstock.broker.admin.definitions_rows import Row
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.entry_limits import USER
from penstock.broker.session.passwords import ARGON2, SALT_BYTES, SHA256, hash_password
from penstock.broker.vhost.queue_arguments import type_of
from penstock.broker.vhost.vhost import VirtualHost
from penstock.protocol.integers import Timestamp
from penstock.routing.exchange import Exchange

VERSION_OF_FORMAT: Final = "3.10.8"
"""The release of RabbitMQ whose shape this is. Its import asks, to tell how old hashes were made.
"""
PERMISSION_ROWS_MAX: Final = 10_000


def exporting(broker: Broker, product_version: str) -> Steps[tuple[Row, list[str]]]:
    """The definitions, and notes on what JSON or RabbitMQ's shape cannot say."""
    notes: list[str] = []
    limits = broker.limits.export()
    policies = broker.policies.export()
    user_limits = {row.name: dict(row.limits) for row in broker.limits.rows() if row.kind == USER}
    vhosts = list(broker.vhosts.values())
    users = list(broker.access.users.values())
    if any(one.hashing == ARGON2 for one in users):
        notes.append(
            "users: RabbitMQ takes no argon2id hashes; give it other passwords (rabbitmqctl "
            "change_password)"
        )
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
        "permissions": _permissions(broker, notes),
        "topic_permissions": _topic_permissions(broker, notes),
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


def _permissions(broker: Broker, notes: list[str]) -> list[Row]:
    """What is in force."""
    found: list[Row] = []
    for user, vhost, one in broker.permissions.rows():
        if len(found) >= PERMISSION_ROWS_MAX:
            notes.append(f"permissions: more than {PERMISSION_ROWS_MAX}; the others are left out")
            break
        rights = {"configure": one.configure, "write": one.write, "read": one.read}
        found.append({"user": user, "vhost": vhost, **rights})
    return found


def _topic_permissions(broker: Broker, notes: list[str]) -> list[Row]:
    rows = islice(broker.permissions.topic_rows(), PERMISSION_ROWS_MAX + 1)
    found: list[Row] = [
        {"user": user, "vhost": vhost, "exchange": exchange, "write": one.write, "read": one.read}
        for user, vhost, exchange, one in rows
    ]
    if len(found) > PERMISSION_ROWS_MAX:
        notes.append(f"topic permissions: more than {PERMISSION_ROWS_MAX}; the others are left out")
    return found[:PERMISSION_ROWS_MAX]


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
        "arguments": plain_table(actor.arguments, f"queue '{actor.name}'", notes),
    }


def _exchange(vhost: str, one: Exchange, notes: list[str]) -> Row:
    return {
        "vhost": vhost,
        "name": one.name,
        "type": one.kind,
        "durable": one.durable,
        "auto_delete": one.auto_delete,
        "internal": one.internal,
        "arguments": plain_table(one.arguments, f"exchange '{one.name}'", notes),
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
                    "arguments": plain_table(
                        one.arguments, f"binding of '{destination.name}'", notes
                    ),
                }
            )


def plain_table(table: Mapping[str, object], what: str, notes: list[str]) -> Row:
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
