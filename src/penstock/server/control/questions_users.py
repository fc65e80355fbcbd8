"""What the control socket answers about users and permissions.

One request is {"op": "users", "do": "add" | ..., "name": ...}, or {"op": "permissions", ...}.
Passwords come hashed: what is asked here never holds one.
"""

from itertools import islice

from penstock.base.errors import OperatorError
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin import users
from penstock.broker.admin.answers import (
    Changed,
    PermissionListing,
    PermissionRow,
    TopicPermissionRow,
    UserListing,
    UserRow,
)
from penstock.broker.session.entry_limits import USER
from penstock.broker.vhost.rights import RIGHTS, Permission, TopicPermission
from penstock.server.control.request import ROWS_MAX, Request


def listing(request: Request) -> UserListing:
    broker = request.broker
    limits = {row.name: dict(row.limits) for row in broker.limits.rows() if row.kind == USER}
    configured = () if users.is_default(broker.config) else broker.permissions.configured
    return UserListing(
        [
            UserRow(
                name,
                list(user.tags),
                limits.get(name, {}),
                broker.limits.connections_of(USER, name),
                name in configured,
                user.hashing,
            )
            for name, user in sorted(broker.access.users.items())
        ]
    )


def add(request: Request) -> Changed:
    name = request.text("name")
    users.add(request.broker, name, *_hash(request), _tags(request))
    able = "it may do nothing yet: penstock permissions set"
    return Changed(f"user '{name}' is there; {able}")


def change_password(request: Request) -> Changed:
    name = request.text("name")
    users.change_password(request.broker, name, *_hash(request))
    return Changed(f"user '{name}' has another password")


def set_tags(request: Request) -> Changed:
    name, tags = request.text("name"), _tags(request)
    strange = users.set_tags(request.broker, name, tags)
    note = f"; of no meaning here: {', '.join(strange)}" if strange else ""
    return Changed(f"tags of user '{name}': {', '.join(tags) or 'none'}{note}")


def delete(request: Request) -> Steps[dict[str, object]]:
    name = request.text("name")
    count = yield from users.delete(request.broker, name)
    request.run_soon()
    return {"said": f"user '{name}' is deleted; connections closed: {count}"}


def permissions(request: Request) -> PermissionListing:
    """Of a user, of a virtual host, or all."""
    user, vhost = request.text("user"), request.vhost()
    broker = request.broker
    rows = [
        PermissionRow(name, where, one.configure, one.write, one.read)
        for name, where, one in islice(broker.permissions.rows(user, vhost), ROWS_MAX + 1)
    ]
    topics = [
        TopicPermissionRow(name, where, exchange, one.write, one.read)
        for name, where, exchange, one in broker.permissions.topic_rows()
        if user in ("", name) and vhost in ("", where)
    ]
    is_cut = len(rows) > ROWS_MAX or len(topics) > ROWS_MAX
    return PermissionListing(rows[:ROWS_MAX], topics[:ROWS_MAX], is_cut)


def permit(request: Request) -> Changed:
    user, vhost = _where(request)
    permission = Permission(*(_pattern(request, right) for right in RIGHTS))
    request.broker.permissions.set(user, vhost, permission)
    request.run_soon()
    return Changed(f"user '{user}' in vhost '{vhost}': {permission.words()}")


def forbid(request: Request) -> Changed:
    user, vhost = _where(request)
    request.broker.permissions.clear(user, vhost)
    request.run_soon()
    return Changed(f"user '{user}' may do nothing in vhost '{vhost}'")


def permit_topic(request: Request) -> Changed:
    user, vhost = _where(request)
    exchange = request.text("exchange")
    topic = TopicPermission(_pattern(request, "write"), _pattern(request, "read"))
    request.broker.permissions.set_topic(user, vhost, exchange, topic)
    said = f"write '{topic.write}', read '{topic.read}'"
    return Changed(f"user '{user}' in vhost '{vhost}', keys of exchange '{exchange}': {said}")


def forget_topic(request: Request) -> Changed:
    user, vhost = _where(request)
    exchange = request.text("exchange")
    request.broker.permissions.clear_topics(user, vhost, exchange)
    of = f"exchange '{exchange}'" if exchange else "every exchange"
    return Changed(f"user '{user}' in vhost '{vhost}': any routing key of {of}")


def _where(request: Request) -> tuple[str, str]:
    return request.text("user"), request.text("vhost", "/")


def _pattern(request: Request, right: str) -> str:
    pattern = request.fields.get(right)
    if not isinstance(pattern, str):
        raise OperatorError(f"permissions: {right} is missing; '' is for nothing, '.*' for all")
    return pattern


def _hash(request: Request) -> tuple[str, str]:
    return request.text("password_hash"), request.text("hashing_algorithm")


def _tags(request: Request) -> tuple[str, ...]:
    tags = request.fields.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(one, str) for one in tags):
        raise OperatorError("tags are a list of texts")
    return tuple(tags)
