"""What was kept comes back, before anything listens: as it was declared, in the order it came.

The configuration goes first: of a user, a policy or limits that it names, what was kept is passed
over. A queue comes back however many a limit allows now, and a virtual host that the configuration
no longer names comes back if something in it was kept.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.base.config import UserConfig
from penstock.base.errors import OperatorError, PeerError
from penstock.base.policy import policy_from
from penstock.broker.admin.users import DELETED, LOOPBACK_ONLY, is_default
from penstock.broker.broker import Broker
from penstock.broker.dead_letter.delay_store import STORE_PREFIX
from penstock.broker.lease.lease_rows import COMPONENT as LEASE
from penstock.broker.policy.policies import COMPONENT as OPERATOR_POLICY
from penstock.broker.policy.policies import POLICY_COMPONENT
from penstock.broker.session.entry_limits import COMPONENT as VHOST_LIMITS
from penstock.broker.session.entry_limits import USER, USER_COMPONENT, VHOST
from penstock.broker.session.permissions import COMPONENT as PERMISSIONS
from penstock.broker.session.permissions import TOPIC_COMPONENT as TOPIC_PERMISSIONS
from penstock.broker.stream.stream_groups import COMPONENT as STREAM_GROUP
from penstock.broker.vhost.catalogue_rows import (
    BindingRow,
    ExchangeRow,
    ParameterRow,
    Row,
    StoredCatalogue,
    StoredQueue,
    UserRow,
    VhostRow,
    arguments_table,
)
from penstock.broker.vhost.rights import Permission, TopicPermission
from penstock.broker.vhost.vhost import VirtualHost
from penstock.routing.destination import Destination
from penstock.routing.factory import make_exchange

R = TypeVar("R", bound=Row)


@dataclass(slots=True)
class Restored:
    """How much came back. notes: what an operator should know, one line each."""

    exchanges: int = 0
    queues: int = 0
    bindings: int = 0
    notes: list[str] = field(default_factory=list)


def restore(broker: Broker, kept: StoredCatalogue) -> Restored:
    """Bring back `kept` into a broker that has no connections and keeps nothing yet.

    Raises: OperatorError for a row that cannot be, which names it."""
    done = Restored()
    _each(kept.vhosts, _vhost, broker, done)
    _each(kept.users, _user, broker, done)
    _each(kept.parameters, _parameter, broker, done)
    _each(kept.exchanges, _exchange, broker, done)
    _each(kept.queues, _queue, broker, done)
    _each(kept.bindings, _binding, broker, done)
    _note_idle(broker, done)
    return done


def _note_idle(broker: Broker, done: Restored) -> None:
    """Who was made before permissions were kept, or was never given any. One broker of several
    does not know what its users may do in the virtual hosts of others."""
    if broker.config.cores > 1:
        return
    able = {user for user, _, _ in broker.permissions.rows()}
    for name in broker.access.users:
        if name not in able and name not in broker.permissions.configured:
            done.notes.append(
                f"user '{name}' may open no virtual host: no permissions were set for it, see "
                "`penstock permissions set`"
            )


def _each(
    rows: list[R], bring: Callable[[Broker, R, Restored], None], broker: Broker, done: Restored
) -> None:
    for row in rows:
        try:
            bring(broker, row, done)
        except (OperatorError, PeerError, ValueError) as error:
            raise OperatorError(f"cannot bring back {row!r}: {error}") from error


def _home(broker: Broker, name: str, done: Restored) -> VirtualHost:
    vhost = broker.vhosts.get(name)
    if vhost is None:
        done.notes.append(
            f"vhost '{name}' is not in the configuration any more, but what was declared in it "
            "is kept, so it is there"
        )
        vhost = broker.add_vhost(name)
    return vhost


def _vhost(broker: Broker, row: VhostRow, done: Restored) -> None:
    if row.name not in broker.vhosts:
        broker.add_vhost(row.name)


def _user(broker: Broker, row: UserRow, done: Restored) -> None:
    if row.name in broker.access.users and not is_default(broker.config):
        done.notes.append(f"user '{row.name}' is as the configuration says, not as it was kept")
        return
    tags = tuple(row.tags.split(",")) if row.tags else ()
    broker.set_user(
        UserConfig(row.name, "", row.name == LOOPBACK_ONLY, tags, row.password_hash, row.hashing)
    )


def _parameter(broker: Broker, row: ParameterRow, done: Restored) -> None:
    value = json.loads(row.value)
    if row.component == LEASE:
        broker.leases.found[row.name] = value
    elif row.component == STREAM_GROUP:
        broker.streams.groups.found[row.name] = value
    elif row.component in (POLICY_COMPONENT, OPERATOR_POLICY):
        _home(broker, row.vhost, done)
        is_operator = row.component == OPERATOR_POLICY
        policy = policy_from(value)
        if all(one.name != policy.name for one in broker.policies.listing(is_operator, row.vhost)):
            broker.policy_manager.bring_back(policy, is_operator)
    elif row.component == VHOST_LIMITS:
        _home(broker, row.vhost, done)
        _limits(broker, VHOST, row.vhost, value)
    elif row.component == USER_COMPONENT and row.name in broker.access.users:
        _limits(broker, USER, row.name, value)
    elif row.component == DELETED:
        broker.access.users.pop(row.name, None)
    elif row.component in (PERMISSIONS, TOPIC_PERMISSIONS):
        _rights(broker, row, value, done)
    else:
        done.notes.append(f"{row.component} '{row.name}' is kept, and has no effect")


def _rights(broker: Broker, row: ParameterRow, value: Any, done: Restored) -> None:
    _home(broker, row.vhost, done)
    is_topics = row.component == TOPIC_PERMISSIONS
    if is_topics and broker.permissions.has_fixed_topics(row.name):
        done.notes.append(
            f"topic permissions of user '{row.name}' are as the configuration says, not as they "
            "were kept"
        )
    elif is_topics:
        topics = {name: TopicPermission(*rights) for name, rights in value.items()}
        broker.permissions.bring_back_topics(row.name, row.vhost, topics)
    elif broker.permissions.is_fixed(row.name):
        done.notes.append(
            f"permissions of user '{row.name}' are as the configuration says, not as they were kept"
        )
    else:
        permission = None if value is None else Permission(**value)
        broker.permissions.bring_back(row.name, row.vhost, permission)


def _limits(broker: Broker, kind: str, name: str, value: dict[str, object]) -> None:
    if all((one.kind, one.name) != (kind, name) for one in broker.limits.rows()):
        broker.limits.set(kind, name, value)


def _exchange(broker: Broker, row: ExchangeRow, done: Restored) -> None:
    vhost = _home(broker, row.vhost, done)
    made = make_exchange(
        row.kind,
        row.name,
        True,
        row.is_auto_delete,
        row.is_internal,
        arguments_table(row.arguments),
    )
    vhost.add_exchange(made)
    broker.exchange_made(vhost, made)
    done.exchanges += 1


def _queue(broker: Broker, row: StoredQueue, done: Restored) -> None:
    vhost = _home(broker, row.vhost, done)
    store = vhost.queues.get(row.name)
    if store is not None and store.delays:
        # It came with its exchange.
        store.queue_id = row.queue_id
        return
    if row.name.startswith(STORE_PREFIX):
        done.notes.append(f"'{row.name}' is kept, but not its exchange; its messages are dropped")
        return
    actor = broker.make_queue(
        vhost, row.name, True, row.is_auto_delete, "", arguments_table(row.arguments)
    )
    actor.queue_id = row.queue_id
    if actor.is_internal:
        vhost.add_store(actor)
        return
    vhost.take_queue(actor)
    done.queues += 1


def _binding(broker: Broker, row: BindingRow, done: Restored) -> None:
    vhost = _home(broker, row.vhost, done)
    source = vhost.find_exchange(row.source)
    destination: Destination | None
    if row.is_to_exchange:
        destination = vhost.find_exchange(row.destination)
    else:
        destination = vhost.directory.find_queue(row.destination)
    if source is None or destination is None:
        raise OperatorError("one of its ends is missing")
    source.bind(destination, row.routing_key, arguments_table(row.arguments))
    done.bindings += 1
