"""What the control socket answers about users and permissions.

One request is {"op": "users", "do": "add" | ..., "name": ...}, or {"op": "permissions", ...}.
Passwords come hashed: what is asked here never holds one.
"""

from typing import Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin import users
from penstock.broker.admin.answers import Changed
from penstock.broker.admin.answers_access import (
    PermissionListing,
    PermissionRow,
    TopicPermissionRow,
    UserListing,
    UserRow,
)
from penstock.broker.session.entry_limits import USER
from penstock.broker.vhost.rights import RIGHTS, Permission, TopicPermission
from penstock.server.control.request import Keyed, Request

STEP_ROWS: Final = 256


def listing(request: Request) -> Steps[Keyed]:
    """A UserListing, in steps."""
    broker = request.broker
    pager = request.pager()
    for count, (name, user) in enumerate(list(broker.access.users.items()), 1):
        pager.offer((name,), (name, user))
        if count % STEP_ROWS == 0:
            yield 0.0
    configured = () if users.is_default(broker.config) else broker.permissions.configured
    rows = []
    for name, user in pager.rows():
        rows.append(
            UserRow(
                name,
                list(user.tags),
                broker.limits.limits_of(USER, name),
                broker.limits.connections_of(USER, name),
                name in configured,
                user.hashing,
            )
        )
        if len(rows) % STEP_ROWS == 0:
            yield 0.0
    listed = UserListing(rows, pager.total, pager.next())
    return request.keyed(listed, pager, shared=pager.total)


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


def kept(request: Request) -> Steps[dict[str, object]]:
    """All users as another worker of this node needs them, with hashes; in steps."""
    return {"users": (yield from users.kept(request.broker))}


def take(request: Request) -> Steps[dict[str, object]]:
    """Have the `users` of another worker, and no others: how many were changed. In steps."""
    try:
        rows = msgspec.convert(request.fields.get("users"), list[users.KeptUser])
    except msgspec.ValidationError as error:
        raise OperatorError(f"users take needs the users of another worker: {error}") from error
    changed = yield from users.take(request.broker, rows)
    request.run_soon()
    return {"changed": changed}


def permissions(request: Request) -> Steps[Keyed]:
    """A PermissionListing of a user, of a virtual host, or all; in steps."""
    user, vhost = request.text("user"), request.vhost()
    broker = request.broker
    pager = request.pager()
    for count, (name, where, one) in enumerate(list(broker.permissions.rows(user, vhost)), 1):
        row = PermissionRow(name, where, one.configure, one.write, one.read)
        pager.offer((0, name, where, ""), row)
        if count % STEP_ROWS == 0:
            yield 0.0
    for name, where, exchange, topic in list(broker.permissions.topic_rows()):
        if user in ("", name) and vhost in ("", where):
            about = TopicPermissionRow(name, where, exchange, topic.write, topic.read)
            pager.offer((1, name, where, exchange), about)
        if pager.total % STEP_ROWS == 0:
            yield 0.0
    found = pager.rows()
    listed = PermissionListing(
        [row for row in found if isinstance(row, PermissionRow)],
        [row for row in found if isinstance(row, TopicPermissionRow)],
        pager.total,
        pager.next(),
    )
    return request.keyed(listed, pager)


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
