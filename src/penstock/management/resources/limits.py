"""`/api/vhost-limits` and `/api/user-limits`."""

from typing import Final

from starlette.responses import Response

from penstock.management.broker_link import Row
from penstock.management.requests import Call, Handler, gone, made
from penstock.management.resources import users
from penstock.management.resources.queues import need_vhost


async def _limits(call: Call, kind: str) -> list[Row]:
    return [
        {kind: row["name"], "value": row["limits"]}
        for row in await call.link.pages({"op": "limits", "do": "list"}, "limits")
        if row["kind"] == kind
    ]


async def vhost_limits(call: Call) -> Response:
    return await call.shown(call.visible(await _limits(call, "vhost")))


async def limits_of_vhost(call: Call) -> Response:
    vhost = call.vhost()
    await need_vhost(call, vhost)
    return await call.shown([row for row in await _limits(call, "vhost") if row["vhost"] == vhost])


async def user_limits(call: Call) -> Response:
    call.visitor.need_administrator()
    return await call.shown(await _limits(call, "user"))


async def limits_of_user(call: Call) -> Response:
    call.visitor.need_administrator()
    await users.find(call)
    name = call.path("name")
    return await call.shown([row for row in await _limits(call, "user") if row["user"] == name])


async def _put_limit(call: Call, kind: str, name: str) -> Response:
    value = (await call.body()).get("value")
    limits = {call.path("limit"): value}
    await call.change("limits", "set", kind=kind, name=name, limits=limits)
    return made(False)


async def put_vhost_limit(call: Call) -> Response:
    vhost = call.path("vhost")
    call.visitor.need_administrator()
    await need_vhost(call, vhost, True)
    return await _put_limit(call, "vhost", vhost)


async def put_user_limit(call: Call) -> Response:
    call.visitor.need_administrator()
    return await _put_limit(call, "user", call.path("name"))


async def _clear_limit(call: Call, kind: str, name: str) -> Response:
    await call.change("limits", "clear", kind=kind, name=name, keys=[call.path("limit")])
    return gone()


async def clear_vhost_limit(call: Call) -> Response:
    call.visitor.need_administrator()
    await need_vhost(call, call.path("vhost"))
    return await _clear_limit(call, "vhost", call.path("vhost"))


async def clear_user_limit(call: Call) -> Response:
    call.visitor.need_administrator()
    await users.find(call)
    return await _clear_limit(call, "user", call.path("name"))


ROUTES: Final[dict[tuple[str, str], Handler]] = {
    ("GET", "/vhost-limits"): vhost_limits,
    ("GET", "/vhost-limits/{vhost}"): limits_of_vhost,
    ("PUT", "/vhost-limits/{vhost}/{limit}"): put_vhost_limit,
    ("DELETE", "/vhost-limits/{vhost}/{limit}"): clear_vhost_limit,
    ("GET", "/user-limits"): user_limits,
    ("GET", "/user-limits/{name}"): limits_of_user,
    ("PUT", "/user-limits/{name}/{limit}"): put_user_limit,
    ("DELETE", "/user-limits/{name}/{limit}"): clear_user_limit,
}
