"""Users made, changed and deleted while the broker runs.

Users of the configuration are changed there, because it goes first at the next start; the user
guest that there is without any is changed here like others, and stays as it was left.
Source: rabbitmqctl add_user, delete_user, change_password, set_user_tags; texts to clients are
RabbitMQ's.
"""

from dataclasses import replace
from typing import Final

from msgspec import Struct

from penstock.base.config import Config, UserConfig
from penstock.base.errors import ConnectionFault, OperatorError
from penstock.base.limits import USERS_MAX
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.definitions_rows import NAME_BYTES_MAX
from penstock.broker.broker import Broker
from penstock.broker.session.entry_limits import USER, VHOST
from penstock.broker.session.passwords import SALT_BYTES, SHA256, hash_fault, hash_password

LOOPBACK_ONLY: Final = "guest"
"""As in RabbitMQ, the user of this name comes in from this machine only."""
DELETED: Final = "deleted-user"
"""Under which it is kept that the default user is gone."""
FORCED: Final = 320
KNOWN_TAGS: Final = frozenset(
    ("administrator", "impersonator", "management", "monitoring", "none", "policymaker")
)
"""RabbitMQ's own. Others are kept, and say nothing here."""
TAGS_MAX: Final = 32


def add(
    broker: Broker, name: str, password_hash: str, hashing: str, tags: tuple[str, ...] = ()
) -> None:
    """A new user, who may do nothing yet. Raises: OperatorError, as everything here."""
    if name in broker.access.users:
        raise OperatorError(f"user '{name}' is there already; see change-password and set-tags")
    if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
        raise OperatorError(f"a user's name has 1 to {NAME_BYTES_MAX} bytes")
    if len(broker.access.users) >= USERS_MAX.default:
        raise OperatorError(f"there are {USERS_MAX.default} users, and no more may be (users_max)")
    _check_hash(password_hash, hashing)
    _check_tags(tags)
    _make(broker, name, password_hash, hashing, tags)


def _make(
    broker: Broker, name: str, password_hash: str, hashing: str, tags: tuple[str, ...]
) -> None:
    broker.set_user(UserConfig(name, "", name == LOOPBACK_ONLY, tags, password_hash, hashing))
    if name in broker.permissions.configured:
        # The default user of before, who was deleted, may not come back with all rights.
        broker.catalogue.parameter_cleared("", DELETED, name)
        for vhost in broker.vhosts:
            broker.permissions.clear(name, vhost)


def change_password(broker: Broker, name: str, password_hash: str, hashing: str) -> None:
    """The next login needs it; who is in stays in."""
    user = _changeable(broker, name)
    _check_hash(password_hash, hashing)
    broker.set_user(replace(user, password="", password_hash=password_hash, hashing=hashing))


def set_tags(broker: Broker, name: str, tags: tuple[str, ...]) -> tuple[str, ...]:
    """In place of those of before; the ones that are kept, and say nothing here."""
    user = _changeable(broker, name)
    _check_tags(tags)
    if user.hashing == "":
        # Only hashes are kept.
        hashed = hash_password(user.password, broker.chance.token(SALT_BYTES))
        user = replace(user, password="", password_hash=hashed, hashing=SHA256)
    broker.set_user(replace(user, tags=tags))
    return tuple(tag for tag in tags if tag not in KNOWN_TAGS)


def delete(broker: Broker, name: str) -> Steps[int]:
    """Nobody is `name` any more: its connections are closed. How many these were."""
    _changeable(broker, name)
    broker.drop_user(name)
    if name in broker.permissions.configured:
        broker.catalogue.parameter_set("", DELETED, name, True)
    return put_out(broker, f"user '{name}' is deleted", user=name)


class KeptUser(Struct):
    """One user for another broker of the same node. password_hash: "" where the configuration has
    the password."""

    name: str
    password_hash: str
    hashing: str
    tags: list[str]
    limits: dict[str, int]


def kept(broker: Broker) -> Steps[list[KeptUser]]:
    """All of them, with their limits; in steps."""
    found: list[KeptUser] = []
    for user in list(broker.access.users.values()):
        limits = broker.limits.limits_of(USER, user.name)
        row = KeptUser(user.name, user.password_hash, user.hashing, list(user.tags), dict(limits))
        found.append(row)
        yield 0.0
    return found


def take(broker: Broker, rows: list[KeptUser]) -> Steps[int]:
    """Have the users that another broker of this node has, and no others; users of the
    configuration are as that says, but for the default one. How many were changed. Raises:
    OperatorError."""
    wanted = {row.name for row in rows}
    fixed = () if is_default(broker.config) else broker.permissions.configured
    changed = 0
    for name in [one for one in broker.access.users if one not in wanted and one not in fixed]:
        yield from delete(broker, name)
        changed += 1
    for row in rows:
        if row.name not in fixed and row.hashing != "":
            changed += _take(broker, row)
        if row.name in broker.access.users:
            changed += _take_limits(broker, row)
        yield 0.0
    return changed


def _take(broker: Broker, row: KeptUser) -> bool:
    """Whether anything was changed."""
    user = broker.access.users.get(row.name)
    tags = tuple(row.tags)
    if user is None:
        # Not as one who is new: a user of imported definitions may have no password.
        _make(broker, row.name, row.password_hash, row.hashing, tags)
        return True
    hashed, hashing = row.password_hash, row.hashing
    wanted = replace(user, password="", password_hash=hashed, hashing=hashing, tags=tags)
    if user != wanted:
        broker.set_user(wanted)
    return user != wanted


def _take_limits(broker: Broker, row: KeptUser) -> bool:
    if row.limits == broker.limits.limits_of(USER, row.name):
        return False
    broker.limits.clear(USER, row.name)
    if row.limits:
        broker.limits.set(USER, row.name, row.limits)
    return True


def put_out(broker: Broker, why: str, user: str = "", vhost: str = "") -> Steps[int]:
    """Close the connections of a user, or to a virtual host. How many these were."""
    count = 0
    fault = ConnectionFault(FORCED, why)
    kind, name = (USER, user) if user else (VHOST, vhost)
    for connection in broker.limits.connections_in(kind, name):
        negotiator = broker.negotiators.get(connection.name)
        if negotiator is not None and negotiator.session is not None:
            count += 1
            negotiator.close(connection, fault)
            yield 0.0
    return count


def is_default(config: Config) -> bool:
    """Whether the configuration names no user, so that guest is there."""
    return config.users == Config().users


def _changeable(broker: Broker, name: str) -> UserConfig:
    user = broker.access.users.get(name)
    if user is None:
        known = ", ".join(sorted(broker.access.users)) or "none"
        raise OperatorError(f"no user '{name}'; there is: {known}")
    if name in broker.permissions.configured and not is_default(broker.config):
        raise OperatorError(
            f"user '{name}' is in the configuration, which goes first; change it there, and start "
            "the broker anew"
        )
    return user


def _check_hash(password_hash: str, hashing: str) -> None:
    wrong = "is missing" if password_hash == "" else hash_fault(password_hash, hashing)
    if wrong != "":
        raise OperatorError(f"password_hash: {wrong}")


def _check_tags(tags: tuple[str, ...]) -> None:
    if len(tags) > TAGS_MAX or any(
        not tag or "," in tag or len(tag.encode()) > NAME_BYTES_MAX for tag in tags
    ):
        raise OperatorError(f"up to {TAGS_MAX} tags of 1 to {NAME_BYTES_MAX} bytes, without commas")
