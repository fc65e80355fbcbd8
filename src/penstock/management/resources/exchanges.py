"""`/api/exchanges` and `/api/bindings`: listings, declaring, deleting, binding, publishing."""

from base64 import b64decode
from typing import Final
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from penstock.client.io_blocking import Channel
from penstock.management.broker_link import Row
from penstock.management.errors import bad_request, not_found
from penstock.management.requests import (
    Call,
    Handler,
    flag_of,
    gone,
    json,
    made,
    need_keys,
    table_of,
    text_of,
)
from penstock.management.resources.queues import need_vhost
from penstock.management.tables import as_table, properties_from

DEFAULT: Final = "amq.default"
"""The default exchange's name in addresses, which cannot be empty there."""
CONFIRM_MS: Final = 30_000
ORDER: Final = ("vhost", "source", "destination_type", "destination", "routing_key")
"""Of bindings."""


def _named(name: str) -> str:
    return "" if name == DEFAULT else name


async def exchanges(call: Call) -> Response:
    return await call.shown(call.visible(await call.link.listing("exchanges")))


async def of_vhost(call: Call) -> Response:
    vhost = call.vhost()
    await need_vhost(call, vhost)
    return await call.shown(await call.link.listing("exchanges", vhost=vhost))


async def find(call: Call) -> Row:
    """The exchange of the path. Raises: HttpFault 404."""
    vhost, name = call.vhost(), _named(call.path("exchange"))
    await need_vhost(call, vhost)
    rows = await call.link.listing("exchanges", vhost=vhost, name=name)
    if not rows:
        raise not_found()
    return rows[0]


async def one(call: Call) -> Response:
    row = await find(call)
    return call.one(row | {"incoming": [], "outgoing": []})


async def declare(call: Call) -> Response:
    vhost, name = call.vhost(), call.path("exchange")
    body = await call.body()
    kind = text_of(body, "type", "direct")
    arguments = as_table(table_of(body, "arguments"))
    flags = {key: flag_of(body, key) for key in ("durable", "auto_delete", "internal")}
    await need_vhost(call, vhost, True)
    was_there = bool(await call.link.listing("exchanges", vhost=vhost, name=_named(name)))

    def work(channel: Channel) -> None:
        channel.declare_exchange(_named(name), kind, arguments=arguments, **flags)

    await call.services.writes.do(call.visitor, vhost, work)
    call.link.forget()
    return made(not was_there)


async def delete(call: Call) -> Response:
    row = await find(call)
    if_unused = call.query.get("if-unused") == "true"
    await call.services.writes.do(
        call.visitor,
        row["vhost"],
        lambda channel: channel.delete_exchange(row["name"], if_unused=if_unused),
    )
    call.link.forget()
    return gone()


async def publish(call: Call) -> Response:
    """Publish one message, mandatory and confirmed: whether it was routed to a queue."""
    row = await find(call)
    body = await call.body()
    need_keys(body, "properties", "routing_key", "payload", "payload_encoding")
    key, payload = text_of(body, "routing_key"), text_of(body, "payload")
    encoding = text_of(body, "payload_encoding")
    if encoding == "base64":
        try:
            content = b64decode(payload, validate=True)
        except ValueError as error:
            raise bad_request("not_base64: the payload is no base64") from error
    elif encoding == "string":
        content = payload.encode()
    else:
        raise bad_request(f"payload_encoding '{encoding}'; one of: string, base64")
    properties = properties_from(table_of(body, "properties"))

    def work(channel: Channel) -> bool:
        channel.confirm_select()
        channel.publish(row["name"], key, content, properties, mandatory=True)
        channel.wait_for_confirms(CONFIRM_MS)
        return channel.inbox.returned_count == 0

    routed = await call.services.writes.do(call.visitor, row["vhost"], work)
    call.link.forget()
    return json({"routed": routed})


# -- bindings ------------------------------------------------------------------------------------


async def bindings(call: Call) -> Response:
    return await call.shown(call.visible(await call.link.listing("bindings")), ORDER)


async def bindings_of_vhost(call: Call) -> Response:
    vhost = call.vhost()
    await need_vhost(call, vhost)
    return await call.shown(await call.link.listing("bindings", vhost=vhost), ORDER)


async def from_source(call: Call) -> Response:
    row = await find(call)
    rows = await call.link.listing("bindings", vhost=row["vhost"], source=row["name"])
    return await call.shown(rows)


async def to_destination(call: Call) -> Response:
    row = await find(call)
    return await call.shown(
        await call.link.listing(
            "bindings",
            vhost=row["vhost"],
            destination=row["name"],
            destination_type="exchange",
        )
    )


def _kind(call: Call) -> str:
    """Of the destination of the path: queue or exchange. Raises: HttpFault 404."""
    kind = {"q": "queue", "e": "exchange"}.get(call.path("kind"))
    if kind is None:
        raise not_found()
    return kind


async def _between(call: Call) -> list[Row]:
    kind, vhost = _kind(call), call.vhost()
    await need_vhost(call, vhost)
    return await call.link.listing(
        "bindings",
        vhost=vhost,
        source=_named(call.path("exchange")),
        destination=call.path("destination"),
        destination_type=kind,
    )


async def between(call: Call) -> Response:
    return await call.shown(await _between(call))


async def bind(call: Call) -> Response:
    """201 with the address of the new binding."""
    vhost = call.vhost()
    source, destination = _named(call.path("exchange")), call.path("destination")
    body = await call.body()
    key = text_of(body, "routing_key", "")
    given = table_of(body, "arguments")
    arguments = as_table(given)
    is_queue = _kind(call) == "queue"
    await need_vhost(call, vhost)

    def work(channel: Channel) -> None:
        if is_queue:
            channel.bind_queue(destination, source, key, arguments)
        else:
            channel.bind_exchange(destination, source, key, arguments)

    await call.services.writes.do(call.visitor, vhost, work)
    call.link.forget()
    # Others may have bound the two meanwhile: it is the one that was asked for.
    same = [row for row in await _between(call) if row["routing_key"] == key]
    mine = [row for row in same if _is_equal(row["arguments"], given)]
    where = quote((mine or same or [{"properties_key": ""}])[0]["properties_key"], safe="~")
    return Response(status_code=201, headers={"location": f"{quote(destination, safe='')}/{where}"})


def _is_equal(one: Row, other: Row) -> bool:
    """Whether two objects are the same JSON, in which 1 is not true."""
    return msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")


async def _one_binding(call: Call) -> Row:
    props = call.path("props")
    for row in await _between(call):
        # Some clients unquote what is in the address, some do not.
        if props in (row["properties_key"], quote(row["properties_key"], safe="~")):
            return row
        if quote(props, safe="~") == row["properties_key"]:
            return row
    raise not_found()


async def one_binding(call: Call) -> Response:
    return call.one(await _one_binding(call))


async def unbind(call: Call) -> Response:
    row = await _one_binding(call)
    arguments = as_table(row["arguments"])
    source, destination, key = row["source"], row["destination"], row["routing_key"]

    def work(channel: Channel) -> None:
        if row["destination_type"] == "queue":
            channel.unbind_queue(destination, source, key, arguments)
        else:
            channel.unbind_exchange(destination, source, key, arguments)

    await call.services.writes.do(call.visitor, row["vhost"], work)
    call.link.forget()
    return gone()


BETWEEN: Final = "/bindings/{vhost}/e/{exchange}/{kind}/{destination}"
ROUTES: Final[dict[tuple[str, str], Handler]] = {
    ("GET", "/exchanges"): exchanges,
    ("GET", "/exchanges/{vhost}"): of_vhost,
    ("GET", "/exchanges/{vhost}/{exchange}"): one,
    ("PUT", "/exchanges/{vhost}/{exchange}"): declare,
    ("DELETE", "/exchanges/{vhost}/{exchange}"): delete,
    ("POST", "/exchanges/{vhost}/{exchange}/publish"): publish,
    ("GET", "/exchanges/{vhost}/{exchange}/bindings/source"): from_source,
    ("GET", "/exchanges/{vhost}/{exchange}/bindings/destination"): to_destination,
    ("GET", "/bindings"): bindings,
    ("GET", "/bindings/{vhost}"): bindings_of_vhost,
    ("GET", BETWEEN): between,
    ("POST", BETWEEN): bind,
    ("GET", BETWEEN + "/{props}"): one_binding,
    ("DELETE", BETWEEN + "/{props}"): unbind,
}
