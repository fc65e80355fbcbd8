"""`/api/users`, `/api/permissions`, `/api/topic-permissions` and `/api/vhosts`."""

import secrets
from typing import Any, Final

from starlette.responses import Response

from penstock.base.errors import OperatorError
from penstock.broker.session.passwords import (
    ARGON2,
    HASHINGS,
    SHA256,
    hash_fault,
    hash_password,
    salt_bytes,
)
from penstock.management.broker_link import Row
from penstock.management.errors import bad_request, not_found
from penstock.management.requests import Call, Handler, gone, json, made, need_keys, text_of
from penstock.management.resources.queues import is_vhost, need_vhost

RIGHTS: Final = ("configure", "write", "read")


async def _users(call: Call) -> list[Row]:
    found = await call.link.pages({"op": "users", "do": "list"}, "users")
    return [
        {
            "name": row["name"],
            "tags": row["tags"],
            "limits": row["limits"],
            "password_hash": "",
            "hashing_algorithm": row["hashing"] or SHA256,
        }
        for row in found
    ]


async def users(call: Call) -> Response:
    call.visitor.need_administrator()
    return await call.shown(await _users(call))


async def find(call: Call) -> Row:
    """The user of the path. Raises: HttpFault 404."""
    for row in await _users(call):
        if row["name"] == call.path("name"):
            return row
    raise not_found()


async def one_user(call: Call) -> Response:
    call.visitor.need_administrator()
    return call.one(await find(call))


def tags_of(body: Row) -> list[str]:
    """A list, or one text with commas. Raises: HttpFault 400."""
    tags = body.get("tags", body.get("administrator"))
    if tags is None:
        raise bad_request("key_missing: tags")
    if tags is True:
        return ["administrator"]
    if isinstance(tags, str):
        return [one.strip() for one in tags.split(",") if one.strip()]
    if isinstance(tags, list) and all(isinstance(one, str) for one in tags):
        return tags
    raise bad_request("tags must be a text with commas, or a list of texts")


async def put_user(call: Call) -> Response:
    """A new user, or another password and other tags for one that is there."""
    call.visitor.need_administrator()
    body = await call.body()
    name, tags = call.path("name"), tags_of(body)
    hashed, hashing = "", ARGON2
    if body.get("password"):
        hashed = hash_password(
            text_of(body, "password"), secrets.token_bytes(salt_bytes(ARGON2)), ARGON2
        )
    elif body.get("password_hash"):
        hashed = text_of(body, "password_hash")
        algorithm = text_of(body, "hashing_algorithm", SHA256)
        if algorithm not in HASHINGS:
            raise bad_request(
                f"hashing_algorithm '{algorithm[:60]}'; one of: {', '.join(HASHINGS)}"
            )
        hashing = algorithm
    there = {row["name"]: row for row in await _users(call)}
    fields = {"password_hash": hashed, "hashing_algorithm": hashing}
    if name not in there:
        if not hashed:
            raise bad_request("a new user needs a password or a password_hash")
        await call.change("users", "add", name=name, tags=tags, **fields)
        return made(True)
    wrong = hash_fault(hashed, hashing)
    if wrong:
        raise bad_request(wrong)
    # Nothing is wrong with the password: where tags are, nothing is changed.
    await call.change("users", "set-tags", name=name, tags=tags)
    if hashed:
        await call.change("users", "change-password", name=name, **fields)
    return made(False)


async def delete_user(call: Call) -> Response:
    call.visitor.need_administrator()
    await find(call)
    await call.change("users", "delete", name=call.path("name"))
    return gone()


async def bulk_delete(call: Call) -> Response:
    call.visitor.need_administrator()
    names = (await call.body()).get("users")
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise bad_request("users must be a list of names")
    there = {row["name"] for row in await _users(call)}
    for name in names:
        if name in there:
            await call.change("users", "delete", name=name)
    return gone()


async def without_permissions(call: Call) -> Response:
    call.visitor.need_administrator()
    able = {row["user"] for row in await _permissions(call)}
    return await call.shown([row for row in await _users(call) if row["name"] not in able])


# -- permissions ---------------------------------------------------------------------------------


async def _permissions(call: Call, **of: str) -> list[Row]:
    return [
        {key: row[key] for key in ("user", "vhost", *RIGHTS)}
        for row in await call.link.pages({"op": "permissions", "do": "list", **of}, "permissions")
    ]


async def permissions(call: Call) -> Response:
    call.visitor.need_administrator()
    return await call.shown(await _permissions(call))


async def permissions_of_user(call: Call) -> Response:
    call.visitor.need_administrator()
    await find(call)
    return await call.shown(await _permissions(call, user=call.path("name")))


async def permissions_of_vhost(call: Call) -> Response:
    call.visitor.need_administrator()
    await need_vhost(call, call.path("vhost"))
    return await call.shown(await _permissions(call, vhost=call.path("vhost")))


async def one_permission(call: Call) -> Response:
    call.visitor.need_administrator()
    await need_vhost(call, call.path("vhost"))
    for row in await _permissions(call, vhost=call.path("vhost"), user=call.path("name")):
        return call.one(row)
    raise not_found()


async def put_permission(call: Call) -> Response:
    call.visitor.need_administrator()
    body = await call.body()
    user, vhost = call.path("name"), call.path("vhost")
    need_keys(body, *RIGHTS)
    patterns = {key: text_of(body, key) for key in RIGHTS}
    there = await is_vhost(call, vhost)
    before = await _permissions(call, vhost=vhost, user=user) if there else []
    await call.change("permissions", "set", user=user, vhost=vhost, **patterns)
    return made(not before)


async def delete_permission(call: Call) -> Response:
    call.visitor.need_administrator()
    user, vhost = call.path("name"), call.path("vhost")
    await need_vhost(call, vhost)
    if not await _permissions(call, vhost=vhost, user=user):
        raise not_found()
    await call.change("permissions", "clear", user=user, vhost=vhost)
    return gone()


async def _topics(call: Call, **of: str) -> list[Row]:
    request = {"op": "permissions", "do": "list", **of}
    return [
        {key: row[key] for key in ("user", "vhost", "exchange", "write", "read")}
        for row in await call.link.pages(request, "topic_permissions")
    ]


async def topics(call: Call) -> Response:
    call.visitor.need_administrator()
    return await call.shown(await _topics(call))


async def one_topic(call: Call) -> Response:
    call.visitor.need_administrator()
    await need_vhost(call, call.path("vhost"))
    found = await _topics(call, vhost=call.path("vhost"), user=call.path("name"))
    if not found:
        raise not_found()
    return await call.shown(found)


async def topics_of_user(call: Call) -> Response:
    call.visitor.need_administrator()
    await find(call)
    return await call.shown(await _topics(call, user=call.path("name")))


async def topics_of_vhost(call: Call) -> Response:
    call.visitor.need_administrator()
    await need_vhost(call, call.path("vhost"))
    return await call.shown(await _topics(call, vhost=call.path("vhost")))


async def put_topic(call: Call) -> Response:
    call.visitor.need_administrator()
    body = await call.body()
    user, vhost = call.path("name"), call.path("vhost")
    fields = {key: text_of(body, key) for key in ("exchange", "write", "read")}
    await call.change("permissions", "set-topic", user=user, vhost=vhost, **fields)
    return made(True)


async def delete_topic(call: Call) -> Response:
    call.visitor.need_administrator()
    user, vhost = call.path("name"), call.path("vhost")
    exchange = str(call.request.path_params.get("exchange", ""))
    await need_vhost(call, vhost)
    found = await _topics(call, vhost=vhost, user=user)
    if not [row for row in found if exchange in ("", row["exchange"])]:
        raise not_found()
    await call.change("permissions", "clear-topic", user=user, vhost=vhost, exchange=exchange)
    return gone()


# -- virtual hosts -------------------------------------------------------------------------------


async def _vhosts(call: Call) -> list[Row]:
    found = await call.link.pages({"op": "vhosts", "do": "list"}, "vhosts")
    node = await call.link.node()
    return [
        {
            "name": row["name"],
            "description": "",
            "tags": [],
            "default_queue_type": "undefined",
            "metadata": {"description": "", "tags": []},
            "tracing": False,
            "protected_from_deletion": False,
            "cluster_state": {node["node"]: "running"},
            "messages": row["messages"],
            "messages_details": {"rate": 0.0},
            "messages_ready": row["messages"] - row["messages_unacknowledged"],
            "messages_ready_details": {"rate": 0.0},
            "messages_unacknowledged": row["messages_unacknowledged"],
            "messages_unacknowledged_details": {"rate": 0.0},
            "connections": row["connections"],
            "queues": row["queues"],
        }
        for row in found
    ]


async def vhosts(call: Call) -> Response:
    return await call.shown(call.visible(await _vhosts(call), "name"))


async def _vhost(call: Call) -> Row:
    for row in await _vhosts(call):
        if row["name"] == call.path("vhost"):
            return row
    raise not_found()


async def one_vhost(call: Call) -> Response:
    call.vhost()
    return call.one(await _vhost(call))


async def put_vhost(call: Call) -> Response:
    """The user who makes one may do everything in it, as in RabbitMQ."""
    call.visitor.need_administrator()
    name = call.path("vhost")
    kind = (await call.body()).get("default_queue_type")
    if kind not in (None, "", "undefined", "classic"):
        raise bad_request(
            f"default_queue_type {str(kind)[:40]!r}: queues here are classic unless they are "
            "declared with x-queue-type"
        )
    if await is_vhost(call, name):
        return made(False)
    await call.change("vhosts", "add", name=name)
    if not await _permissions(call, vhost=name, user=call.visitor.name):
        everything: dict[str, Any] = dict.fromkeys(RIGHTS, ".*")
        try:
            await call.change(
                "permissions", "set", user=call.visitor.name, vhost=name, **everything
            )
        except OperatorError:
            # A user of the configuration has what it says.
            return made(True)
    return made(True)


async def delete_vhost(call: Call) -> Response:
    call.visitor.need_administrator()
    await need_vhost(call, call.path("vhost"))
    await call.change("vhosts", "delete", name=call.path("vhost"))
    return gone()


async def hash_of(call: Call) -> Response:
    """The salted hash of a password, in RabbitMQ's form."""
    salt = secrets.token_bytes(salt_bytes(SHA256))
    return json({"ok": hash_password(call.path("password"), salt, SHA256)})


ROUTES: Final[dict[tuple[str, str], Handler]] = {
    ("GET", "/users"): users,
    ("GET", "/users/without-permissions"): without_permissions,
    ("POST", "/users/bulk-delete"): bulk_delete,
    ("GET", "/users/{name}"): one_user,
    ("PUT", "/users/{name}"): put_user,
    ("DELETE", "/users/{name}"): delete_user,
    ("GET", "/users/{name}/permissions"): permissions_of_user,
    ("GET", "/users/{name}/topic-permissions"): topics_of_user,
    ("GET", "/permissions"): permissions,
    ("GET", "/permissions/{vhost}/{name}"): one_permission,
    ("PUT", "/permissions/{vhost}/{name}"): put_permission,
    ("DELETE", "/permissions/{vhost}/{name}"): delete_permission,
    ("GET", "/topic-permissions"): topics,
    ("GET", "/topic-permissions/{vhost}/{name}"): one_topic,
    ("PUT", "/topic-permissions/{vhost}/{name}"): put_topic,
    ("DELETE", "/topic-permissions/{vhost}/{name}"): delete_topic,
    ("DELETE", "/topic-permissions/{vhost}/{name}/{exchange}"): delete_topic,
    ("GET", "/vhosts"): vhosts,
    ("GET", "/vhosts/{vhost}"): one_vhost,
    ("PUT", "/vhosts/{vhost}"): put_vhost,
    ("DELETE", "/vhosts/{vhost}"): delete_vhost,
    ("GET", "/vhosts/{vhost}/permissions"): permissions_of_vhost,
    ("GET", "/vhosts/{vhost}/topic-permissions"): topics_of_vhost,
    ("GET", "/auth/hash_password/{password}"): hash_of,
}
