"""What an import of definitions would do, worked out before anything is changed.

An import adds: what is there already stays as it is, and what the file does not name stays too.
Users, policies and limits take their new values, as RabbitMQ's import does it, but those of the
configuration keep theirs. What Penstock does not have, and what RabbitMQ would pass over, is passed
over with a note; what is malformed is a fault, and then the whole file is refused.
"""

from dataclasses import dataclass, field
from typing import Final

from penstock.base.config import UserConfig
from penstock.base.errors import OperatorError
from penstock.base.limits import USERS_MAX, VHOSTS_MAX
from penstock.base.policy import Policy, policy_from
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.definitions_rows import (
    Row,
    fault,
    name_at,
    object_at,
    rows_of,
    tags_at,
    text_at,
)
from penstock.broker.admin.definitions_topology import TopologyPlan
from penstock.broker.admin.restore import LOOPBACK_ONLY
from penstock.broker.broker import Broker
from penstock.broker.policy.patterns import compile_pattern
from penstock.broker.policy.policies import COMPONENT as OPERATOR_POLICY
from penstock.broker.session.entry_limits import COMPONENT as VHOST_LIMITS
from penstock.broker.session.entry_limits import USER, VHOST, check_limits
from penstock.broker.session.passwords import (
    SALT_BYTES,
    SHA256,
    hash_fault,
    hash_password,
    is_password,
)
from penstock.queues.policy_keys import check_definition

QUIET_GLOBALS: Final = ("cluster_name", "cluster_tags")
EVERYTHING: Final = ".*"
TAGS: Final = frozenset(("administrator", "management", "monitoring", "policymaker"))
"""RabbitMQ's own for its management pages, which every one of its exports has."""


@dataclass(frozen=True, slots=True)
class LimitPlan:
    """Limits of a virtual host or a user, see broker/session/entry_limits."""

    kind: str
    name: str
    limits: Row


@dataclass(slots=True)
class Plan:
    """Everything to do, in this order. topology: exchanges, queues and bindings; notes: what is
    passed over, and why."""

    topology: TopologyPlan
    vhosts: list[str] = field(default_factory=list)
    users: list[UserConfig] = field(default_factory=list)
    limits: list[LimitPlan] = field(default_factory=list)
    policies: list[tuple[Policy, bool]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def plan_import(broker: Broker, definitions: Row, vhost: str = "") -> Steps[Plan]:
    """What importing `definitions` into `broker` would do. vhost: of rows that name none, as in an
    export of one virtual host, "" if there may be none.

    Raises: OperatorError naming the place of the first fault."""
    maker = _Planner(broker, vhost)
    for key in ("users", "vhosts", "permissions", "topic_permissions", "parameters"):
        for place, row in rows_of(definitions, key):
            _READERS[key](maker, place, row)
            yield 0.0
    for place, row in rows_of(definitions, "global_parameters"):
        maker.global_parameter(place, row)
        yield 0.0
    for place, row in rows_of(definitions, "policies"):
        maker.policy(place, {**row, "vhost": maker.vhost_of(place, row)}, False)
        yield 0.0
    plan = maker.plan
    limited = {one.name: one.limits for one in plan.limits if one.kind == VHOST}
    for place, row in rows_of(definitions, "exchanges"):
        plan.topology.exchange(place, row, maker.vhost_of(place, row))
        yield 0.0
    for place, row in rows_of(definitions, "queues"):
        plan.topology.queue(place, row, maker.vhost_of(place, row))
        yield 0.0
    for place, row in rows_of(definitions, "bindings"):
        plan.topology.binding(place, row, maker.vhost_of(place, row))
        yield 0.0
    plan.topology.check_counts(limited)
    return plan


class _Planner:
    """Reads one kind of row after the other into `plan`."""

    def __init__(self, broker: Broker, vhost: str) -> None:
        self.broker = broker
        self.default_vhost = vhost
        notes: list[str] = []
        self.plan = Plan(TopologyPlan(broker, notes), notes=notes)
        self.vhosts = set(broker.vhosts)
        self.configured = {one.name for one in broker.config.users}
        self.users = set(broker.access.users)

    def vhost_of(self, place: str, row: Row) -> str:
        if "vhost" not in row and self.default_vhost == "":
            raise fault(
                place,
                "names no vhost, as in an export of one virtual host; say which with --vhost",
            )
        name = text_at(place, row, "vhost", self.default_vhost)
        if name not in self.vhosts:
            raise fault(f"{place}.vhost", f"there is no vhost '{name}', here or in the file")
        return name

    def vhost(self, place: str, row: Row) -> None:
        name = name_at(place, row, "name")
        metadata = object_at(place, row, "metadata")
        kind = row.get("default_queue_type", metadata.get("default_queue_type", "classic"))
        if kind not in ("classic", "undefined", None):
            self._note(place, f"default_queue_type {kind!r} has no effect: it is classic")
        if name not in self.vhosts:
            self.vhosts.add(name)
            self.plan.vhosts.append(name)
            if len(self.vhosts) > VHOSTS_MAX.default:
                raise fault(place, f"there may be {VHOSTS_MAX.default} virtual hosts (vhosts_max)")

    def user(self, place: str, row: Row) -> None:
        name = name_at(place, row, "name")
        if name == "":
            raise fault(f"{place}.name", "is empty")
        if "password" in row:
            password = text_at(place, row, "password")
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
        if name in self.configured:
            self._configured_user(place, self.broker.access.users[name], hashed, hashing, tags)
            return
        strange = [tag for tag in tags if tag not in TAGS]
        if strange:
            self._note(
                place,
                f"tags of user '{name}' that are not known here are kept, without effect: "
                f"{', '.join(strange)}",
            )
        self.users.add(name)
        if len(self.users) > USERS_MAX.default:
            raise fault(place, f"there may be {USERS_MAX.default} users (users_max)")
        self.plan.users.append(UserConfig(name, "", name == LOOPBACK_ONLY, tags, hashed, hashing))

    def _configured_user(
        self, place: str, user: UserConfig, hashed: str, hashing: str, tags: tuple[str, ...]
    ) -> None:
        is_same = (
            user.password_hash == hashed
            if user.hashing != ""
            else is_password(user.password, hashed, hashing)
        )
        if not is_same:
            self._note(
                place,
                f"user '{user.name}' is in the configuration, which goes first: password unchanged",
            )
        dropped = [tag for tag in tags if tag not in user.tags]
        if dropped:
            self._note(
                place,
                f"user '{user.name}' is in the configuration, which goes first: without the tags "
                f"{', '.join(dropped)}",
            )

    def permission(self, place: str, row: Row) -> None:
        asked = [text_at(place, row, key, EVERYTHING) for key in ("configure", "write", "read")]
        if any(one != EVERYTHING for one in asked):
            user, vhost = text_at(place, row, "user"), self.vhost_of(place, row)
            self._note(
                place,
                f"user '{user}' in vhost '{vhost}' may do everything: permissions are not enforced",
            )

    def topic_permission(self, place: str, row: Row) -> None:
        self._note(place, "topic permissions are not enforced")

    def parameter(self, place: str, row: Row) -> None:
        component = text_at(place, row, "component")
        if component == VHOST_LIMITS:
            vhost = self.vhost_of(place, row)
            self._limits(f"{place}.value", VHOST, vhost, object_at(place, row, "value"))
        elif component == OPERATOR_POLICY:
            value = object_at(place, row, "value")
            named = {"name": row.get("name"), "vhost": self.vhost_of(place, row)}
            self.policy(place, {**value, **named}, True)
        else:
            self._note(place, f"parameters of component '{component}' are not known here")

    def global_parameter(self, place: str, row: Row) -> None:
        name = text_at(place, row, "name")
        if name not in QUIET_GLOBALS and not name.startswith("internal"):
            self._note(place, f"global parameter '{name}' is not known here")

    def policy(self, place: str, row: Row, is_operator: bool) -> None:
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
            self.plan.policies.append((policy, is_operator))

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
            self.plan.limits.append(LimitPlan(kind, name, limits))

    def _note(self, place: str, text: str) -> None:
        self.plan.notes.append(f"{place}: {text}")


_READERS: Final = {
    "users": _Planner.user,
    "vhosts": _Planner.vhost,
    "permissions": _Planner.permission,
    "topic_permissions": _Planner.topic_permission,
    "parameters": _Planner.parameter,
}
