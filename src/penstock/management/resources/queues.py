"""`/api/queues`: listings, declaring, deleting, purging, getting messages, pausing."""

from time import monotonic
from typing import Final

from starlette.responses import Response

from penstock.base.shown_names import shown_name
from penstock.client.io_blocking import Channel
from penstock.client.moving import Moved, move_messages
from penstock.management.broker_link import Row
from penstock.management.errors import HttpFault, bad_request, not_found
from penstock.management.requests import (
    Call,
    Handler,
    flag_of,
    gone,
    json,
    made,
    number_of,
    table_of,
    text_of,
)
from penstock.management.tables import as_table, message_row

GET_MAX: Final = 10_000
"""Messages that one request takes."""
GET_BYTES_MAX: Final = 67_108_864
"""Of bodies that one request takes; what is left stays in the queue."""
MOVE_MAX: Final = 10_000
"""Messages that one request moves."""
ACK_MODES: Final = (
    "ack_requeue_true",
    "ack_requeue_false",
    "reject_requeue_true",
    "reject_requeue_false",
)


async def queues(call: Call) -> Response:
    return await call.shown(call.visible(await call.link.listing("queues")))


async def of_vhost(call: Call) -> Response:
    vhost = call.vhost()
    await need_vhost(call, vhost)
    return await call.shown(await call.link.listing("queues", vhost=vhost))


async def is_vhost(call: Call, vhost: str) -> bool:
    """Whether there is a virtual host of that name."""
    if vhost in [row["name"] for row in await call.link.listing("vhosts")]:
        return True
    # It may be younger than the listing.
    now = await call.link.ask({"op": "objects", "do": "vhosts"})
    return vhost in [row["name"] for row in now["items"]]


async def need_vhost(call: Call, vhost: str, is_change: bool = False) -> None:
    """Raises: HttpFault 404 if there is none."""
    if not await is_vhost(call, vhost):
        raise HttpFault(404, "not_found", "vhost_not_found") if is_change else not_found()


async def find(call: Call) -> Row:
    """The queue of the path. Raises: HttpFault 404."""
    vhost = call.vhost()
    await need_vhost(call, vhost)
    rows = await call.link.listing("queues", vhost=vhost, name=call.path("queue"))
    if not rows:
        raise not_found()
    return rows[0]


async def one(call: Call) -> Response:
    return call.one(await find(call))


async def bindings(call: Call) -> Response:
    row = await find(call)
    return await call.shown(
        await call.link.listing(
            "bindings", vhost=row["vhost"], destination=row["name"], destination_type="queue"
        )
    )


async def declare(call: Call) -> Response:
    """201 for a new queue, 204 if there was an equal one."""
    vhost, name = call.vhost(), call.path("queue")
    body = await call.body()
    arguments = as_table(table_of(body, "arguments"))
    durable, auto_delete = flag_of(body, "durable"), flag_of(body, "auto_delete")
    if "x-queue-type" not in arguments and isinstance(body.get("type"), str):
        arguments["x-queue-type"] = body["type"]
    await need_vhost(call, vhost, True)
    was_there = bool(await call.link.listing("queues", vhost=vhost, name=name))

    def work(channel: Channel) -> None:
        channel.declare_queue(name, durable=durable, auto_delete=auto_delete, arguments=arguments)

    await call.services.writes.do(call.visitor, vhost, work)
    call.link.forget()
    return made(not was_there)


async def delete(call: Call) -> Response:
    row = await find(call)
    if_unused = call.query.get("if-unused") == "true"
    if_empty = call.query.get("if-empty") == "true"

    def work(channel: Channel) -> None:
        channel.delete_queue(row["name"], if_unused=if_unused, if_empty=if_empty)

    await call.services.writes.do(call.visitor, row["vhost"], work)
    call.link.forget()
    return gone()


async def purge(call: Call) -> Response:
    row = await find(call)
    await call.services.writes.do(
        call.visitor, row["vhost"], lambda channel: channel.purge_queue(row["name"])
    )
    call.link.forget()
    return gone()


async def actions(call: Call) -> Response:
    """`sync` and `cancel_sync` of mirrors do nothing here; `pause` and `resume` are ours."""
    row = await find(call)
    action = text_of(await call.body(), "action")
    if action in ("sync", "cancel_sync"):
        return gone()
    if action not in ("pause", "resume"):
        raise bad_request(f"unknown action '{action}'; one of: pause, resume")
    call.visitor.need_policymaker_of(row["vhost"])
    name = shown_name(row["vhost"], row["name"])
    await call.change("queues", action, name=name)
    return gone()


async def get(call: Call) -> Response:
    """Take messages out, or look at them and put them back."""
    row = await find(call)
    body = await call.body()
    count = number_of(body, "count", 1, 0, GET_MAX)
    if "ackmode" not in body and "requeue" in body:
        # As clients before RabbitMQ 3.7 say it.
        body["ackmode"] = f"ack_requeue_{'true' if flag_of(body, 'requeue') else 'false'}"
    mode = text_of(body, "ackmode")
    if mode not in ACK_MODES:
        raise bad_request(f"invalid_ackmode: '{mode}'; one of: {', '.join(ACK_MODES)}")
    encoding = text_of(body, "encoding", "auto")
    if encoding not in ("auto", "base64"):
        raise bad_request(f"encoding '{encoding}'; one of: auto, base64")
    truncate: int | None = None
    if body.get("truncate") is not None:
        truncate = number_of(body, "truncate", 0, 0, GET_BYTES_MAX)

    def work(channel: Channel) -> list[Row]:
        found: list[Row] = []
        taken = 0
        while len(found) < count and taken < GET_BYTES_MAX:
            delivery = channel.get(row["name"])
            if delivery is None:
                break
            taken += len(delivery.body)
            found.append(message_row(delivery, encoding, truncate))
            if mode == "ack_requeue_false":
                channel.ack(delivery)
            elif mode == "reject_requeue_false":
                channel.nack(delivery, requeue=False)
        # What is not acknowledged goes back to its place when the channel closes.
        channel.close()
        return found

    found = await call.services.writes.do(call.visitor, row["vhost"], work)
    call.link.forget()
    return json(found)


async def move(call: Call) -> Response:
    """Move messages to another queue, `to`, or into `exchange`, for some 2 s at most: how many, how
    many are `left`, and how many there were to begin with (`found`); ask again for the rest."""
    row = await find(call)
    body = await call.body()
    count = number_of(body, "count", MOVE_MAX, 1, MOVE_MAX)
    to, exchange = text_of(body, "to", ""), text_of(body, "exchange", "")
    if (to == "") == (exchange == ""):
        raise bad_request("say either to, a queue, or exchange, with or without routing_key")
    key: str | None = to or None
    if exchange and body.get("routing_key") is not None:
        key = text_of(body, "routing_key")

    def work(channel: Channel) -> Moved:
        return move_messages(channel, row["name"], exchange, key, count, monotonic)

    moved = await call.services.writes.do(call.visitor, row["vhost"], work, is_long=True)
    call.link.forget()
    return json({"moved": moved.messages, "left": moved.left, "found": moved.found})


ROUTES: Final[dict[tuple[str, str], Handler]] = {
    ("GET", "/queues"): queues,
    ("GET", "/queues/{vhost}"): of_vhost,
    ("GET", "/queues/{vhost}/{queue}"): one,
    ("PUT", "/queues/{vhost}/{queue}"): declare,
    ("DELETE", "/queues/{vhost}/{queue}"): delete,
    ("GET", "/queues/{vhost}/{queue}/bindings"): bindings,
    ("DELETE", "/queues/{vhost}/{queue}/contents"): purge,
    ("POST", "/queues/{vhost}/{queue}/get"): get,
    ("POST", "/queues/{vhost}/{queue}/move"): move,
    ("POST", "/queues/{vhost}/{queue}/actions"): actions,
}
