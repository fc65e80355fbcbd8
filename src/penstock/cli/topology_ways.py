"""What AMQP has a method for, over either way: declare, delete, purge, bind, publish, get."""

from base64 import b64decode
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from penstock.base.errors import OperatorError
from penstock.cli.way import DEFAULT, MissingError, Row
from penstock.telemetry.words import amount

if TYPE_CHECKING:
    from penstock.cli.http_way import HttpWay
    from penstock.client.io_blocking import Channel

CONFIRM_MS: Final = 10_000
GET_BYTES: Final = 67_108_864


def declare_queue(channel: "Channel", at: Row) -> Row:
    arguments = _table(at["arguments"])
    if at["type"]:
        arguments["x-queue-type"] = at["type"]
    answer = channel.declare_queue(
        at["name"], durable=at["durable"], auto_delete=at["auto_delete"], arguments=arguments
    )
    return {"said": f"queue '{answer.queue}' in vhost '{at['vhost']}' is there", **_where(at)}


def declare_queue_http(http: "HttpWay", at: Row) -> Row:
    arguments = dict(at["arguments"])
    if at["type"]:
        arguments["x-queue-type"] = at["type"]
    body = {key: at[key] for key in ("durable", "auto_delete")} | {"arguments": arguments}
    http.call("PUT", ("queues", at["vhost"], at["name"]), body=body)
    return {"said": f"queue '{at['name']}' in vhost '{at['vhost']}' is there", **_where(at)}


def _where(at: Row) -> Row:
    return {"vhost": at["vhost"], "name": at["name"]}


def _table(given: Row) -> Any:
    from penstock.management.tables import as_table

    return as_table(given)


def _conditions(at: Row) -> dict[str, str]:
    keys = {"if_unused": "if-unused", "if_empty": "if-empty"}
    return {word: "true" for key, word in keys.items() if at.get(key)}


def delete_queue(channel: "Channel", at: Row) -> Row:
    count = channel.delete_queue(at["name"], if_unused=at["if_unused"], if_empty=at["if_empty"])
    return _deleted_queue(at, count)


def _deleted_queue(at: Row, count: int) -> Row:
    with_them = f" with {_messages(count)}" if count else ""
    said = f"queue '{at['name']}' in vhost '{at['vhost']}' is deleted{with_them}"
    return {"said": said, **_where(at), "messages": count}


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{amount(count)} messages"


def delete_queue_http(http: "HttpWay", at: Row) -> Row:
    where = ("queues", at["vhost"], at["name"])
    count = int(http.call("GET", where)["messages"])
    http.call("DELETE", where, _conditions(at))
    return _deleted_queue(at, count)


def purge(channel: "Channel", at: Row) -> Row:
    return _purged(at, channel.purge_queue(at["name"]))


def _purged(at: Row, count: int) -> Row:
    said = f"queue '{at['name']}' in vhost '{at['vhost']}': {_messages(count)} thrown away"
    return {"said": said, **_where(at), "messages": count}


def purge_http(http: "HttpWay", at: Row) -> Row:
    where = ("queues", at["vhost"], at["name"])
    count = int(http.call("GET", where)["messages_ready"])
    http.call("DELETE", (*where, "contents"))
    return _purged(at, count)


def get(channel: "Channel", at: Row) -> Row:
    """Take messages, or look at them: what is not acknowledged goes back when the channel ends."""
    from penstock.management.tables import message_row

    found: list[Row] = []
    taken = 0
    while len(found) < at["count"] and taken < GET_BYTES:
        delivery = channel.get(at["name"])
        if delivery is None:
            break
        taken += len(delivery.body)
        found.append(message_row(delivery, "auto", None))
        if not at["requeue"]:
            channel.ack(delivery)
    channel.close()
    return {"messages": found}


def get_http(http: "HttpWay", at: Row) -> Row:
    mode = "ack_requeue_true" if at["requeue"] else "ack_requeue_false"
    body = {"count": at["count"], "ackmode": mode, "encoding": "auto"}
    return {"messages": http.call("POST", ("queues", at["vhost"], at["name"], "get"), body=body)}


def move(channel: "Channel", at: Row) -> Row:
    from penstock.client.moving import move_messages

    moved = move_messages(
        channel, at["name"], at["exchange"], at["routing_key"], at["count"], monotonic
    )
    return {"moved": moved.messages, "left": moved.left, "found": moved.found}


def move_http(http: "HttpWay", at: Row) -> Row:
    body = {"count": at["count"]}
    if at["exchange"] == "":
        body["to"] = at["routing_key"]
    else:
        body["exchange"] = at["exchange"]
        if at["routing_key"] is not None:
            body["routing_key"] = at["routing_key"]
    found: Row = http.call("POST", ("queues", at["vhost"], at["name"], "move"), body=body)
    return found


def declare_exchange(channel: "Channel", at: Row) -> Row:
    channel.declare_exchange(
        at["name"],
        at["type"],
        durable=at["durable"],
        auto_delete=at["auto_delete"],
        internal=at["internal"],
        arguments=_table(at["arguments"]),
    )
    return {"said": f"exchange '{at['name']}' in vhost '{at['vhost']}' is there", **_where(at)}


def declare_exchange_http(http: "HttpWay", at: Row) -> Row:
    keys = ("type", "durable", "auto_delete", "internal", "arguments")
    body = {key: at[key] for key in keys}
    http.call("PUT", ("exchanges", at["vhost"], at["name"]), body=body)
    return {"said": f"exchange '{at['name']}' in vhost '{at['vhost']}' is there", **_where(at)}


def delete_exchange(channel: "Channel", at: Row) -> Row:
    channel.delete_exchange(at["name"], if_unused=at["if_unused"])
    return _deleted_exchange(at)


def _deleted_exchange(at: Row) -> Row:
    return {"said": f"exchange '{at['name']}' in vhost '{at['vhost']}' is deleted", **_where(at)}


def delete_exchange_http(http: "HttpWay", at: Row) -> Row:
    http.call("DELETE", ("exchanges", at["vhost"], at["name"]), _conditions(at))
    return _deleted_exchange(at)


def bind(channel: "Channel", at: Row) -> Row:
    bind = channel.bind_exchange if at["destination_type"] == "exchange" else channel.bind_queue
    bind(at["destination"], at["source"], at["routing_key"], _table(at["arguments"]))
    return _bound(at, "is bound to")


def _bound(at: Row, verb: str) -> Row:
    key = f" by '{at['routing_key']}'" if at["routing_key"] else ""
    kind, to = at["destination_type"], at["destination"]
    keys = ("vhost", "source", "destination", "destination_type", "routing_key")
    said = f"{kind} '{to}' in vhost '{at['vhost']}' {verb} exchange '{at['source']}'{key}"
    return {"said": said} | {one: at[one] for one in keys}


def _between(at: Row) -> tuple[str, ...]:
    kind = "e" if at["destination_type"] == "exchange" else "q"
    return ("bindings", at["vhost"], "e", at["source"] or DEFAULT, kind, at["destination"])


def bind_http(http: "HttpWay", at: Row) -> Row:
    body = {"routing_key": at["routing_key"], "arguments": at["arguments"]}
    http.call("POST", _between(at), body=body)
    return _bound(at, "is bound to")


def unbind(channel: "Channel", at: Row) -> Row:
    is_exchange = at["destination_type"] == "exchange"
    unbind = channel.unbind_exchange if is_exchange else channel.unbind_queue
    unbind(at["destination"], at["source"], at["routing_key"], _table(at["arguments"]))
    return _bound(at, "is no longer bound to")


def unbind_http(http: "HttpWay", at: Row) -> Row:
    http.call("DELETE", (*_between(at), at["properties_key"]))
    return _bound(at, "is no longer bound to")


def publish(channel: "Channel", at: Row) -> Row:
    from penstock.client.errors import NoReplyError
    from penstock.management.tables import properties_from

    channel.confirm_select()
    body = b64decode(at["payload"])
    properties = properties_from(at["properties"])
    channel.publish(at["exchange"], at["routing_key"], body, properties, mandatory=True)
    try:
        channel.wait_for_confirms(CONFIRM_MS)
    except NoReplyError as error:
        raise OperatorError(
            f"the broker has not confirmed the message within {CONFIRM_MS // 1000} s, and may have "
            "taken it; `penstock why publish` and `penstock flow alarms` say what it waits for"
        ) from error
    return _published(at, channel.inbox.returned_count == 0)


def _published(at: Row, is_routed: bool) -> Row:
    """Raises: OperatorError if the message went nowhere, which a script must notice."""
    to = f"exchange '{at['exchange']}'" if at["exchange"] else "the default exchange"
    if not is_routed:
        raise OperatorError(
            f"the message went nowhere: {to} in vhost '{at['vhost']}' has no binding for key "
            f"'{at['routing_key']}'; `penstock bindings list` shows those there are"
        )
    said = f"published to {to} in vhost '{at['vhost']}' by '{at['routing_key']}'"
    return {"said": said, "routed": True}


def publish_http(http: "HttpWay", at: Row) -> Row:
    body = {
        "properties": at["properties"],
        "routing_key": at["routing_key"],
        "payload": at["payload"],
        "payload_encoding": "base64",
    }
    where = ("exchanges", at["vhost"], at["exchange"] or DEFAULT, "publish")
    try:
        is_routed = http.call("POST", where, body=body)["routed"]
    except MissingError as error:
        raise OperatorError(f"no exchange '{at['exchange']}' in vhost '{at['vhost']}'") from error
    return _published(at, is_routed)
