"""`/api/connections`, `/api/channels`, `/api/consumers` and closing connections."""

from typing import Final

from starlette.responses import Response

from penstock.base.errors import OperatorError
from penstock.management.broker_link import BrokerGone, Row
from penstock.management.errors import not_authorised, not_found
from penstock.management.requests import Call, Handler, gone
from penstock.management.resources.queues import need_vhost

REASON: Final = "Closed via management plugin"
REASON_CHARACTERS: Final = 200


def _reason(call: Call) -> str:
    """What the client is told: UTF-8, as `penstock` and rabbitmqadmin send it, or Latin-1, which
    HTTP once had."""
    given = call.request.headers.get("x-reason", REASON)
    try:
        return given.encode("latin-1").decode()[:REASON_CHARACTERS]
    except UnicodeDecodeError:
        return given[:REASON_CHARACTERS]


def _own(call: Call, rows: list[Row]) -> list[Row]:
    """Those of the visitor, unless he may see all."""
    if call.visitor.sees_all:
        return rows
    return [row for row in rows if row["user"] == call.visitor.name]


async def connections(call: Call) -> Response:
    return await call.shown(_own(call, await call.link.listing("connections")))


async def of_vhost(call: Call) -> Response:
    vhost = call.vhost()
    await need_vhost(call, vhost)
    rows = await call.link.listing("connections", vhost=vhost)
    return await call.shown(_own(call, rows))


async def of_user(call: Call) -> Response:
    rows = await call.link.listing("connections", user=call.path("name"))
    return await call.shown(_own(call, rows))


async def _found(call: Call) -> Row:
    try:
        rows = await call.link.listing("connections", name=call.path("name"))
    except OperatorError as error:
        raise not_found() from error
    if not rows:
        raise not_found()
    if not _own(call, rows):
        raise not_authorised("User not authorised to access connection")
    return rows[0]


async def one(call: Call) -> Response:
    return call.one(await _found(call))


async def close(call: Call) -> Response:
    """As RabbitMQ: administrators close any connection, others their own."""
    row = await _found(call)
    if row["user"] != call.visitor.name:
        call.visitor.need_administrator()
    if not await _closed(call, row):
        raise not_found()
    return gone()


async def _closed(call: Call, row: Row) -> bool:
    """Close a connection; False for one that is gone. A listing may be a moment old."""
    try:
        name, reason = str(row["name"]), _reason(call)
        await call.change("connections", "close", name=name, reason=reason)
    except BrokerGone:
        raise
    except OperatorError:
        return False
    return True


async def close_of_user(call: Call) -> Response:
    """All connections of a user."""
    if call.path("name") != call.visitor.name:
        call.visitor.need_administrator()
    # Those of now, not of a moment ago.
    call.link.forget()
    for row in await call.link.listing("connections", user=call.path("name")):
        await _closed(call, row)
    return gone()


async def channels(call: Call) -> Response:
    return await call.shown(_own(call, await call.link.listing("channels")))


async def channels_of_vhost(call: Call) -> Response:
    vhost = call.vhost()
    await need_vhost(call, vhost)
    return await call.shown(_own(call, await call.link.listing("channels", vhost=vhost)))


async def channels_of_connection(call: Call) -> Response:
    row = await _found(call)
    return await call.shown(await call.link.listing("channels", name=row["name"]))


async def one_channel(call: Call) -> Response:
    name = call.path("name")
    connection = name.rpartition(" (")[0]
    try:
        rows = await call.link.listing("channels", name=connection or name)
    except OperatorError as error:
        raise not_found() from error
    found = [row for row in _own(call, rows) if row["name"] == name]
    if not found:
        raise not_found()
    return call.one(found[0])


def _consuming(call: Call, rows: list[Row]) -> list[Row]:
    """Those of the visitor, unless he may see all."""
    if call.visitor.sees_all:
        return rows
    return [row for row in rows if row["channel_details"]["user"] == call.visitor.name]


async def consumers(call: Call) -> Response:
    return await call.shown(_consuming(call, await call.link.listing("consumers")))


async def consumers_of_vhost(call: Call) -> Response:
    vhost = call.vhost()
    await need_vhost(call, vhost)
    return await call.shown(_consuming(call, await call.link.listing("consumers", vhost=vhost)))


ROUTES: Final[dict[tuple[str, str], Handler]] = {
    ("GET", "/connections"): connections,
    ("GET", "/connections/username/{name}"): of_user,
    ("DELETE", "/connections/username/{name}"): close_of_user,
    ("GET", "/connections/{name}"): one,
    ("DELETE", "/connections/{name}"): close,
    ("GET", "/connections/{name}/channels"): channels_of_connection,
    ("GET", "/vhosts/{vhost}/connections"): of_vhost,
    ("GET", "/vhosts/{vhost}/channels"): channels_of_vhost,
    ("GET", "/channels"): channels,
    ("GET", "/channels/{name}"): one_channel,
    ("GET", "/consumers"): consumers,
    ("GET", "/consumers/{vhost}"): consumers_of_vhost,
}
