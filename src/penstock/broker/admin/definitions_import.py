"""Definitions in: what an import would do is worked out before anything is changed, then done.

An import adds: what is there already stays as it is, and what the file does not name stays too.
Users, policies and limits take their new values, as RabbitMQ's import does it, but those of the
configuration keep theirs. What Penstock does not have, and what RabbitMQ would pass over, is passed
over with a note; what is malformed is a fault, and then the whole file is refused. Exchanges are
made as they would be declared, so that whatever refuses a declaration refuses the file.

It goes in steps, between which clients declare and delete. What they have declared or deleted since
the check is passed over with a note.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

from penstock.base.config import UserConfig
from penstock.base.errors import ChannelFault, OperatorError, PeerError
from penstock.base.limits import (
    BINDINGS_PER_VHOST,
    CATALOGUE_CHANGES,
    POLICIES_PER_VHOST,
    QUEUES_PER_VHOST,
    USERS_MAX,
    VHOSTS_MAX,
)
from penstock.base.policy import Policy, policy_from
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.definitions_rows import (
    Row,
    arguments_at,
    fault,
    flag_at,
    name_at,
    object_at,
    rows_of,
    tags_at,
    text_at,
)
from penstock.broker.admin.users import KNOWN_TAGS, LOOPBACK_ONLY
from penstock.broker.broker import Broker
from penstock.broker.policy.policies import COMPONENT as OPERATOR_POLICY
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.entry_limits import COMPONENT as VHOST_LIMITS
from penstock.broker.session.entry_limits import QUEUES, USER, VHOST, check_limits
from penstock.broker.session.passwords import (
    SALT_BYTES,
    SHA256,
    hash_fault,
    hash_password,
    is_password,
)
from penstock.broker.vhost.patterns import compile_pattern
from penstock.broker.vhost.queue_arguments import (
    TYPE_KEY,
    check_exchange,
    check_properties,
    check_queue,
    check_type,
)
from penstock.broker.vhost.rights import (
    READ,
    RIGHTS,
    WRITE,
    Permission,
    TopicPermission,
    check_permission,
    check_topic_permission,
)
from penstock.broker.vhost.stream_arguments import STREAM
from penstock.broker.vhost.vhost import PREDECLARED, VirtualHost
from penstock.protocol.values import Table
from penstock.queues.policy_keys import check_definition
from penstock.queues.rules import NEVER, QUORUM
from penstock.routing.bindings import Binding
from penstock.routing.canonical import canonical
from penstock.routing.delayed import DelayedExchange
from penstock.routing.destination import Destination
from penstock.routing.exchange import Exchange
from penstock.routing.factory import EXCHANGE_KINDS, make_exchange

QUIET_GLOBALS: Final = ("cluster_name", "cluster_tags")
RESERVED: Final = "amq."
ALIKE: Final = ("users", "global_parameters")
"""Rows that are of no virtual host."""
OTHERWISE: Final = "is there with other properties, and stays so"
CLASSIC: Final = "classic"
KINDS_OF_QUEUES: Final = (CLASSIC, QUORUM, STREAM)


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """A queue to declare."""

    vhost: str
    name: str
    is_durable: bool
    is_auto_delete: bool
    arguments: Table


@dataclass(frozen=True, slots=True)
class BindingPlan:
    """A binding to make."""

    vhost: str
    source: str
    is_to_exchange: bool
    destination: str
    routing_key: str
    arguments: Table


@dataclass(frozen=True, slots=True)
class Imported:
    """How many of each were new or changed; notes: what was passed over, and why; shared: of
    counts, what every worker of a node imports."""

    counts: Mapping[str, int]
    notes: tuple[str, ...]
    shared: Mapping[str, int]


def importing(
    broker: Broker, definitions: Row, vhost: str = "", elsewhere: frozenset[str] = frozenset()
) -> Steps[Imported]:
    """Add what `definitions` say. vhost: of rows that name none, as in an export of one virtual
    host, "" if there may be none; elsewhere: virtual hosts of other workers of this node, whose
    rows those import. One at a time.

    Raises: OperatorError naming the place of the first fault, and then nothing has changed."""
    wanted = yield from _wanted(broker, definitions, vhost, elsewhere)
    counts = yield from wanted.apply()
    users = sum(kind == USER for kind, _, _ in wanted.limits)
    return Imported(counts, tuple(wanted.notes), {"users": counts["users"], "limits": users})


def checking(broker: Broker, definitions: Row, vhost: str, elsewhere: frozenset[str]) -> Steps[int]:
    """The same without changing anything: how many rows of the catalogue it would be."""
    wanted = yield from _wanted(broker, definitions, vhost, elsewhere)
    return wanted.change_count()


def _wanted(
    broker: Broker, definitions: Row, vhost: str, elsewhere: frozenset[str]
) -> Steps["Importer"]:
    wanted = Importer(broker, vhost, elsewhere)
    yield from wanted.read(definitions)
    count = wanted.change_count()
    room = broker.catalogue.room()
    if count > room:
        raise OperatorError(
            f"definitions: {count} changes at once, and the disk has room for {room} "
            f"(catalogue_changes is {CATALOGUE_CHANGES.default}); split the file, or wait"
        )
    return wanted


class Importer:
    """What one file asks for, to be done in this order.

    vhosts, users: new, or to be set; limits: as (kind, name, limits); policies: with whether each
    is an operator policy; permissions: by user and virtual host; topic_permissions: by exchange
    besides; exchanges, queues: new ones by virtual host and name; notes: what is
    passed over, and why.
    """

    def __init__(self, broker: Broker, vhost: str, elsewhere: frozenset[str]) -> None:
        self.broker = broker
        self.default_vhost = vhost
        self.elsewhere = elsewhere
        self.vhosts: list[str] = []
        self.users: list[UserConfig] = []
        self.limits: list[tuple[str, str, Row]] = []
        self.policies: list[tuple[Policy, bool]] = []
        self.permissions: dict[tuple[str, str], Permission] = {}
        self.topic_permissions: dict[tuple[str, str, str], TopicPermission] = {}
        self.exchanges: dict[tuple[str, str], Exchange] = {}
        self.queues: dict[tuple[str, str], QueuePlan] = {}
        self.bindings: list[BindingPlan] = []
        self.notes: list[str] = []
        self._queue_counts: Counter[str] = Counter()
        self._binding_counts: Counter[str] = Counter()
        self._vhosts = {*broker.vhosts, *elsewhere}
        self._users = set(broker.access.users)
        self._configured = {one.name for one in broker.config.users}
        self._given = {name: make_exchange(kind, name, True) for name, kind in PREDECLARED}

    def read(self, definitions: Row) -> Steps[None]:
        """Check every row. Raises: OperatorError naming the place of the first fault."""
        for key, read_one in _READERS.items():
            for place, row in rows_of(definitions, key):
                if not self._is_elsewhere(key, row):
                    read_one(self, place, row)
                yield 0.0
        self._check_counts()

    def _is_elsewhere(self, key: str, row: Row) -> bool:
        """Whether another worker reads the row."""
        if not self.elsewhere or key in ALIKE:
            return False
        name = row.get("name") if key == "vhosts" else row.get("vhost", self.default_vhost)
        return isinstance(name, str) and name in self.elsewhere

    def change_count(self) -> int:
        """How many rows of the catalogue all of it is."""
        # A delayed exchange has a store, which is kept as a queue is.
        stores = sum(1 for one in self.exchanges.values() if isinstance(one, DelayedExchange))
        topology = len(self.exchanges) + stores + len(self.queues) + len(self.bindings)
        rules = len(self.limits) + len(self.policies)
        rules += len(self.permissions) + len(self.topic_permissions)
        return topology + rules + len(self.vhosts) + len(self.users)

    # -- reading ---------------------------------------------------------------------------------

    def vhost_of(self, place: str, row: Row) -> str:
        if "vhost" not in row and self.default_vhost == "":
            raise fault(
                place,
                "names no vhost, as in an export of one virtual host; say which with --vhost",
            )
        name = text_at(place, row, "vhost", self.default_vhost)
        if name not in self._vhosts:
            raise fault(f"{place}.vhost", f"there is no vhost '{name}', here or in the file")
        return name

    def vhost(self, place: str, row: Row) -> None:
        name = name_at(place, row, "name")
        metadata = object_at(place, row, "metadata")
        kind = row.get("default_queue_type", metadata.get("default_queue_type", "classic"))
        if kind not in ("classic", "undefined", None):
            self._note(place, f"default_queue_type {kind!r} has no effect: it is classic")
        if name not in self._vhosts:
            self._vhosts.add(name)
            self.vhosts.append(name)
            if len(self._vhosts) > VHOSTS_MAX.default:
                raise fault(place, f"there may be {VHOSTS_MAX.default} virtual hosts (vhosts_max)")

    def user(self, place: str, row: Row) -> None:
        name = name_at(place, row, "name")
        if name == "":
            raise fault(f"{place}.name", "is empty")
        if "password" in row:
            password = text_at(place, row, "password")
            if password == "":
                raise fault(f"{place}.password", "is blank, which nobody could log in with")
            hashing = SHA256
            hashed = hash_password(password, self.broker.chance.token(SALT_BYTES))
        else:
            hashed = text_at(place, row, "password_hash")
            hashing = text_at(place, row, "hashing_algorithm", SHA256)
            wrong = hash_fault(hashed, hashing)
            if wrong != "":
                raise fault(place, wrong)
        limits = object_at(place, row, "limits")
        if limits:
            self._limits(place, USER, name, limits)
        tags = tags_at(place, row)
        if name in self._configured:
            self._configured_user(place, self.broker.access.users[name], hashed, hashing, tags)
            return
        strange = [tag for tag in tags if tag not in KNOWN_TAGS]
        if strange:
            self._note(
                place,
                f"tags of user '{name}' that are not known here are kept, without effect: "
                f"{', '.join(strange)}",
            )
        self._users.add(name)
        if len(self._users) > USERS_MAX.default:
            raise fault(place, f"there may be {USERS_MAX.default} users (users_max)")
        self.users.append(UserConfig(name, "", name == LOOPBACK_ONLY, tags, hashed, hashing))

    def _configured_user(
        self, place: str, user: UserConfig, hashed: str, hashing: str, tags: tuple[str, ...]
    ) -> None:
        first = f"user '{user.name}' is in the configuration, which goes first"
        is_same = (
            user.password_hash == hashed
            if user.hashing != ""
            else is_password(user.password, hashed, hashing)
        )
        if not is_same:
            self._note(place, f"{first}: password unchanged")
        dropped = [tag for tag in tags if tag not in user.tags]
        if dropped:
            self._note(place, f"{first}: without the tags {', '.join(dropped)}")

    def permission(self, place: str, row: Row) -> None:
        user, vhost = self._user_of(place, row), self.vhost_of(place, row)
        permission = Permission(*(text_at(place, row, key) for key in RIGHTS))
        try:
            check_permission(permission)
        except OperatorError as error:
            raise fault(place, str(error)) from error
        is_same = permission == self.broker.permissions.of(user, vhost)
        if self.broker.permissions.is_fixed(user):
            if not is_same:
                self._note(
                    place, f"permissions of user '{user}' are in the configuration; unchanged"
                )
        # What a user of the configuration has anyway need not be kept.
        elif user not in self._configured or not is_same:
            self.permissions[user, vhost] = permission

    def topic_permission(self, place: str, row: Row) -> None:
        user, vhost = self._user_of(place, row), self.vhost_of(place, row)
        exchange = text_at(place, row, "exchange")
        permission = TopicPermission(text_at(place, row, WRITE), text_at(place, row, READ))
        try:
            check_topic_permission(permission)
        except OperatorError as error:
            raise fault(place, str(error)) from error
        permissions = self.broker.permissions
        if not permissions.has_fixed_topics(user):
            self.topic_permissions[user, vhost, exchange] = permission
        elif permissions.of_topic(user, vhost, exchange) != permission:
            self._note(
                place, f"topic permissions of user '{user}' are in the configuration; unchanged"
            )

    def _user_of(self, place: str, row: Row) -> str:
        user = text_at(place, row, "user")
        if user not in self._users:
            raise fault(f"{place}.user", f"there is no user '{user}', here or in the file")
        return user

    def parameter(self, place: str, row: Row) -> None:
        component = text_at(place, row, "component")
        if component == VHOST_LIMITS:
            vhost = self.vhost_of(place, row)
            self._limits(f"{place}.value", VHOST, vhost, object_at(place, row, "value"))
        elif component == OPERATOR_POLICY:
            value = object_at(place, row, "value")
            named = {"name": row.get("name"), "vhost": self.vhost_of(place, row)}
            self._policy(place, {**value, **named}, True)
        else:
            self._note(place, f"parameters of component '{component}' are not known here")

    def global_parameter(self, place: str, row: Row) -> None:
        name = text_at(place, row, "name")
        if name not in QUIET_GLOBALS and not name.startswith("internal"):
            self._note(place, f"global parameter '{name}' is not known here")

    def policy(self, place: str, row: Row) -> None:
        self._policy(place, {**row, "vhost": self.vhost_of(place, row)}, False)

    def _policy(self, place: str, row: Row, is_operator: bool) -> None:
        table = {**row, "definition": object_at(place, row, "definition")}
        try:
            policy = policy_from(table)
            check_definition(policy.name, policy.definition, is_operator)
            compile_pattern(policy.pattern)
        except OperatorError as error:
            raise fault(place, str(error)) from error
        configured = (
            self.broker.config.operator_policies if is_operator else self.broker.config.policies
        )
        if any((one.vhost, one.name) == (policy.vhost, policy.name) for one in configured):
            self._note(place, f"policy '{policy.name}' is in the configuration, which goes first")
        else:
            self.policies.append((policy, is_operator))

    def _limits(self, place: str, kind: str, name: str, limits: Row) -> None:
        try:
            check_limits(kind, name, limits)
        except OperatorError as error:
            raise fault(place, str(error)) from error
        config = self.broker.config
        configured = config.vhost_limits if kind == VHOST else config.user_limits
        if any(one.name == name for one in configured):
            self._note(place, f"limits of {kind} '{name}' are in the configuration; unchanged")
        else:
            self.limits.append((kind, name, limits))

    def _note(self, place: str, text: str) -> None:
        self.notes.append(f"{place}: {text}")

    def _pass_over(self, place: str, text: str) -> None:
        self._note(place, f"{text}; passed over")

    def exchange(self, place: str, row: Row) -> None:
        vhost = self.vhost_of(place, row)
        name = name_at(place, row, "name")
        kind = text_at(place, row, "type")
        durable = flag_at(place, row, "durable", True)
        auto_delete = flag_at(place, row, "auto_delete", False)
        internal = flag_at(place, row, "internal", False)
        arguments = arguments_at(place, row)
        if name == "" or name.startswith(RESERVED):
            self._pass_over(place, f"exchange '{name}' is the broker's own, and there already")
            return
        if kind not in EXCHANGE_KINDS:
            known = ", ".join(EXCHANGE_KINDS)
            self._pass_over(
                place, f"exchanges of type '{kind}' are not known here (known: {known})"
            )
            return
        try:
            check_exchange(name, vhost, arguments)
            made = make_exchange(kind, name, durable, auto_delete, internal, arguments)
        except PeerError as error:
            raise fault(place, error.text) from error
        found = self._exchange(vhost, name)
        if found is None:
            self.exchanges[vhost, name] = made
        elif _traits(found) != _traits(made):
            self._pass_over(
                place, f"exchange '{name}' is there with other properties, and stays so"
            )

    def queue(self, place: str, row: Row) -> None:
        vhost = self.vhost_of(place, row)
        name = name_at(place, row, "name")
        arguments = arguments_at(place, row)
        kind = arguments.get(TYPE_KEY, row.get("type", CLASSIC))
        if kind in KINDS_OF_QUEUES and kind != CLASSIC:
            # What the type says beside the arguments, they have to say when it is declared.
            arguments[TYPE_KEY] = str(kind)
        plan = QueuePlan(
            vhost,
            name,
            flag_at(place, row, "durable", True),
            flag_at(place, row, "auto_delete", False),
            arguments,
        )
        if name == "":
            raise fault(f"{place}.name", "is empty")
        if name.startswith(RESERVED):
            self._pass_over(place, f"queue '{name}' was named by a broker, and belongs to no other")
            return
        if kind not in KINDS_OF_QUEUES:
            self._pass_over(place, f"queue '{name}' is of type {kind!r}, which is not known here")
            return
        try:
            check_queue(name, vhost, arguments)
            check_type(name, vhost, arguments)
            check_properties(name, vhost, plan.is_durable, plan.is_auto_delete, False, arguments)
        except ChannelFault as error:
            raise fault(place, error.text) from error
        found = self._queue(vhost, name)
        if found is None:
            self._queue_counts[vhost] += 1
            self.queues[vhost, name] = plan
        elif _traits_of_queue(found) != _traits_of_queue(plan):
            self._pass_over(place, f"queue '{name}' {OTHERWISE}")

    def binding(self, place: str, row: Row) -> None:
        vhost = self.vhost_of(place, row)
        kind = text_at(place, row, "destination_type", "queue")
        if kind not in ("queue", "exchange"):
            raise fault(f"{place}.destination_type", f"must be queue or exchange, not '{kind}'")
        plan = BindingPlan(
            vhost,
            name_at(place, row, "source"),
            kind == "exchange",
            name_at(place, row, "destination"),
            name_at(place, row, "routing_key", ""),
            arguments_at(place, row),
        )
        if plan.source == "":
            self._pass_over(place, "bindings of the default exchange cannot be declared")
            return
        source = self._exchange(vhost, plan.source)
        if source is None:
            self._pass_over(place, f"there is no exchange '{plan.source}', here or in the file")
            return
        found: object
        if plan.is_to_exchange:
            found = self._exchange(vhost, plan.destination)
        else:
            found = self._queue(vhost, plan.destination)
        if found is None:
            self._pass_over(place, f"there is no {kind} '{plan.destination}', here or in the file")
            return
        try:
            source.check(Binding(Destination(plan.destination), plan.routing_key, plan.arguments))
        except PeerError as error:
            raise fault(place, error.text) from error
        self._binding_counts[vhost] += 1
        self.bindings.append(plan)

    def _check_counts(self) -> None:
        limited = {name: limits for kind, name, limits in self.limits if kind == VHOST}
        for name, count in self._queue_counts.items():
            vhost = self.broker.vhosts.get(name)
            there = 0 if vhost is None else vhost.counted_queues()
            limit = QUEUES_PER_VHOST.default if vhost is None else vhost.queues_max
            asked = limited.get(name, {}).get(QUEUES)
            if asked is None and vhost is not None and vhost.queue_limit != NEVER:
                asked = int(vhost.queue_limit)
            if isinstance(asked, int) and 0 <= asked < limit:
                limit = asked
            _check_count("queues", name, there, count, limit)
        for name, count in self._binding_counts.items():
            vhost = self.broker.vhosts.get(name)
            # Those that are there already count twice here: a file of half the limit may be large.
            there = 0 if vhost is None else vhost.router.binding_count
            limit = BINDINGS_PER_VHOST.default if vhost is None else vhost.bindings_max
            _check_count("bindings", name, there, count, limit)
        named: dict[tuple[str, bool], set[str]] = {}
        for policy, is_operator in self.policies:
            named.setdefault((policy.vhost, is_operator), set()).add(policy.name)
        for (name, is_operator), names in named.items():
            is_there = name in self.broker.vhosts
            policies = self.broker.policies.listing(is_operator, name) if is_there else []
            what = "operator policies" if is_operator else "policies"
            new = len(names.difference(one.name for one in policies))
            _check_count(what, name, len(policies), new, POLICIES_PER_VHOST.default)

    def _exchange(self, vhost: str, name: str) -> Exchange | None:
        planned = self.exchanges.get((vhost, name))
        there = self.broker.vhosts.get(vhost)
        if planned is not None:
            return planned
        if there is not None:
            return there.find_exchange(name)
        return self._given.get(name)

    def _queue(self, vhost: str, name: str) -> QueueActor | QueuePlan | None:
        planned = self.queues.get((vhost, name))
        there = self.broker.vhosts.get(vhost)
        if planned is not None or there is None:
            return planned
        return there.queues.get(name)

    # -- doing -----------------------------------------------------------------------------------

    def apply(self) -> Steps[dict[str, int]]:
        """How many of each were new or changed."""
        counts = {
            "vhosts": 0,
            "users": len(self.users),
            "limits": 0,
            "policies": 0,
            "permissions": 0,
            "exchanges": 0,
            "queues": 0,
            "bindings": 0,
        }
        for name in self.vhosts:
            counts["vhosts"] += self._done(partial(self._add_vhost, name))
            yield 0.0
        for user in self.users:
            self.broker.set_user(user)
            yield 0.0
        for what, deed in chain(self._rules(), self._topology()):
            counts[what] += self._done(deed)
            yield 0.0
        return counts

    def _rules(self) -> Iterator[tuple[str, Callable[[], object]]]:
        broker = self.broker
        for kind, name, limits in self.limits:
            yield "limits", partial(broker.limits.set, kind, name, limits)
        for policy, is_operator in self.policies:
            yield "policies", partial(broker.policy_manager.set, policy, is_operator)
        for (user, vhost), permission in self.permissions.items():
            yield "permissions", partial(broker.permissions.set, user, vhost, permission)
        for (user, vhost, name), topic in self.topic_permissions.items():
            yield "permissions", partial(broker.permissions.set_topic, user, vhost, name, topic)

    def _topology(self) -> Iterator[tuple[str, Callable[[], object]]]:
        for (vhost, _), exchange in self.exchanges.items():
            yield "exchanges", partial(self._add_exchange, vhost, exchange)
        # What is done is forgotten at once: all of it together would take its time at the end.
        for key in list(self.queues):
            yield "queues", partial(self._declare, self.queues.pop(key))
        self.bindings.reverse()
        while self.bindings:
            yield "bindings", partial(self._bind, self.bindings.pop())

    def _done(self, deed: Callable[[], object]) -> bool:
        """Do one thing, which may have become impossible since it was checked; False if it has, or
        if there was nothing to do."""
        try:
            return deed() is not False
        except (OperatorError, PeerError) as error:
            text = error.text if isinstance(error, PeerError) else str(error)
            self.notes.append(f"while it was imported: {text}; passed over")
            return False

    def _add_vhost(self, name: str) -> None:
        if name in self.broker.vhosts:
            raise OperatorError(f"vhost '{name}' was made by another client")
        self.broker.add_vhost(name)

    def _home(self, name: str) -> VirtualHost:
        vhost = self.broker.vhosts.get(name)
        if vhost is None or vhost.is_leaving:
            raise ChannelFault(404, f"vhost '{name}' was deleted")
        return vhost

    def _add_exchange(self, name: str, exchange: Exchange) -> bool:
        vhost = self._home(name)
        if vhost.find_exchange(exchange.name) is not None:
            raise ChannelFault(406, f"exchange '{exchange.name}' was declared by another client")
        vhost.add_exchange(exchange)
        self.broker.exchange_made(vhost, exchange)
        return True

    def _declare(self, plan: QueuePlan) -> bool:
        vhost = self._home(plan.vhost)
        if plan.name in vhost.queues:
            raise ChannelFault(406, f"queue '{plan.name}' was declared by another client")
        vhost.check_room(plan.name)
        vhost.add_queue(
            self.broker.make_queue(
                vhost, plan.name, plan.is_durable, plan.is_auto_delete, "", plan.arguments
            )
        )
        return True

    def _bind(self, plan: BindingPlan) -> bool:
        """True if it is new."""
        vhost = self._home(plan.vhost)
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


def _check_count(what: str, vhost: str, there: int, count: int, limit: int) -> None:
    if there + count > limit:
        raise fault(
            what,
            f"vhost '{vhost}' has {there} {what} and would get {count} more; its limit is {limit}",
        )


def _traits(one: Exchange) -> tuple[object, ...]:
    return one.kind, one.durable, one.auto_delete, one.internal, canonical(one.arguments)


def _traits_of_queue(one: QueueActor | QueuePlan) -> tuple[object, ...]:
    if isinstance(one, QueuePlan):
        return one.is_durable, one.is_auto_delete, canonical(one.arguments)
    return one.durable, one.auto_delete, canonical(one.arguments)


_READERS: Final = {
    "users": Importer.user,
    "vhosts": Importer.vhost,
    "permissions": Importer.permission,
    "topic_permissions": Importer.topic_permission,
    "parameters": Importer.parameter,
    "global_parameters": Importer.global_parameter,
    "policies": Importer.policy,
    "exchanges": Importer.exchange,
    "queues": Importer.queue,
    "bindings": Importer.binding,
}
