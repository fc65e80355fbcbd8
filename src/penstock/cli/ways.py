"""The one table of what commands ask, and how each is asked over either way to a broker.

A question is what the control socket takes, {"op": "queues", "do": "list", ...}. Over HTTP it
becomes a request of RabbitMQ's API, and the answer becomes what the control socket would have said.
What AMQP has a method for (declare, delete, purge, bind, publish, get) is done by AMQP over the
control socket, and over HTTP by the management process, which does it by AMQP as the user who asks:
the checks and the texts are the broker's own either way.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.base.errors import OperatorError
from penstock.telemetry.words import amount

if TYPE_CHECKING:
    from penstock.cli.http_way import HttpWay
    from penstock.client.io_blocking import Channel

Row = dict[str, Any]
PAGE_SIZE: Final = 500
"""Rows that RabbitMQ's API gives at a time."""
CONFIRM_MS: Final = 10_000
GET_BYTES: Final = 67_108_864
DEFAULT: Final = "amq.default"
"""The default exchange's name in addresses, which cannot be empty there."""
RIGHTS: Final = ("configure", "write", "read")


class MissingError(OperatorError):
    """404: what was asked for is not there."""


@dataclass(frozen=True, slots=True)
class Way:
    """One question. http: asks it over HTTP, and has the answer that the control socket gives;
    amqp: does it on a channel of its virtual host, None where the control socket itself answers."""

    http: "Callable[[HttpWay, Row], Row]"
    amqp: "Callable[[Channel, Row], Row] | None" = None


def over_http(http: "HttpWay", request: Row) -> Row:
    """Ask `request` over HTTP. Raises: OperatorError."""
    name = f"{request['op']} {request.get('do', '')}".strip()
    way = WAYS.get(name)
    if way is None:
        raise OperatorError(
            f"'{name}' is answered by the control socket only: run this on the broker's machine, "
            "without --url"
        )
    return way.http(http, request)


# -- listings ------------------------------------------------------------------------------------


def _listing(*path: str, sort: str = "") -> "Callable[[HttpWay, Row], Row]":
    """A page of rows below `path`; {vhost} in it stands for that of the request."""

    def ask(http: "HttpWay", request: Row) -> Row:
        vhost, name = str(request.get("vhost") or ""), request.get("name")
        if name is not None:
            at = str(name)
            one = (path[0], vhost or "/", at) if len(path) == 1 else (path[0], at)
            try:
                return {"items": [http.call("GET", one)], "total": 1, "next": ""}
            except MissingError:
                return {"items": [], "total": 0, "next": ""}
        where = path[:1]
        if vhost:
            where = (path[0], vhost) if len(path) == 1 else ("vhosts", vhost, path[1])
        return _page(http, where, request, sort)

    return ask


def _page(http: "HttpWay", where: tuple[str, ...], request: Row, sort: str = "") -> Row:
    page = int(request.get("after") or 1)
    size = min(PAGE_SIZE, int(request.get("limit") or PAGE_SIZE))
    query = {"page": str(page), "page_size": str(size)}
    if sort:
        query["sort"] = sort.lstrip("-")
        query["sort_reverse"] = "true" if sort.startswith("-") else "false"
    found = http.call("GET", where, query)
    if not isinstance(found, dict):
        return {"items": found, "total": len(found), "next": ""}
    following = str(page + 1) if page < found["page_count"] else ""
    return {"items": found["items"], "total": found["filtered_count"], "next": following}


def _channels(http: "HttpWay", request: Row) -> Row:
    if request.get("name"):
        rows = http.call("GET", ("connections", str(request["name"]), "channels"))
        return {"items": rows, "total": len(rows), "next": ""}
    return _listing("channels", "channels")(http, request | {"name": None})


def _bindings(http: "HttpWay", request: Row) -> Row:
    vhost = str(request.get("vhost") or "/")
    source, destination = request.get("source"), request.get("destination")
    if source is not None and destination is not None:
        kind = "e" if request.get("destination_type") == "exchange" else "q"
        where = ("bindings", vhost, "e", source or DEFAULT, kind, destination)
        rows = http.call("GET", where)
    elif source is not None:
        rows = http.call("GET", ("exchanges", vhost, source or DEFAULT, "bindings", "source"))
    elif destination is not None:
        rows = http.call("GET", ("queues", vhost, destination, "bindings"))
    else:
        return _listing("bindings")(http, request)
    return {"items": rows, "total": len(rows), "next": ""}


QUEUE_ORDERS: Final = {
    "ready": "-messages_ready",
    "bytes": "-message_bytes",
    "rate": "-message_stats.publish_details.rate",
    "name": "name",
}


def _queues(http: "HttpWay", request: Row) -> Row:
    """Rows of `penstock queues`; what only the broker knows of its rules is left out."""
    if request.get("name"):
        vhost, name = place_of(http, str(request["name"]))
        rows = [http.call("GET", ("queues", vhost, name))]
        found: Row = {"items": rows, "total": 1, "next": ""}
    else:
        vhost = str(request.get("vhost") or "")
        where = ("queues", vhost) if vhost else ("queues",)
        found = _page(http, where, request, QUEUE_ORDERS[str(request.get("sort") or "ready")])
    rows = [_queue_row(row) for row in found["items"]]
    return {"queues": rows, "total": found["total"], "exchanges": [], "next": found["next"]}


def shown_name(vhost: str, name: str) -> str:
    """A queue as listings name it: /orders, tenant/orders."""
    return f"/{name}" if vhost == "/" else f"{vhost}/{name}"


def _queue_row(row: Row) -> Row:
    stats = row.get("message_stats", {})
    arguments = {key.removeprefix("x-"): str(value) for key, value in row["arguments"].items()}
    policy = {key: str(value) for key, value in row["effective_policy_definition"].items()}
    state = {"stopped": "paused", "flow": "deep"}.get(row["state"], row["state"])
    return {
        "name": shown_name(row["vhost"], row["name"]),
        "vhost": row["vhost"],
        "state": state,
        "messages_ready": row["messages_ready"],
        "messages_unacknowledged": row["messages_unacknowledged"],
        "bytes": row["message_bytes_ram"],
        "messages_paged_out": row["messages_paged_out"],
        "message_bytes_paged_out": row["message_bytes_paged_out"],
        "consumers": row["consumers"],
        "in_rate": stats.get("publish_details", {}).get("rate", 0.0),
        "out_rate": stats.get("deliver_get_details", {}).get("rate", 0.0),
        "durable": row["durable"],
        "rules": policy | arguments,
        "policy": row["policy"] or "",
        "operator_policy": row["operator_policy"] or "",
        "effective_policy_definition": row["effective_policy_definition"],
        "drops": {},
        "dead_letters": {},
    }


def place_of(http: "HttpWay", shown: str) -> tuple[str, str]:
    """Virtual host and name of the queue that listings call `shown`, or that has this name alone.
    Raises: OperatorError."""
    candidates = [("/", shown.removeprefix("/"))]
    parts = shown.split("/")
    for at in range(1, len(parts)):
        candidates.append(("/".join(parts[:at]), "/".join(parts[at:])))
    for vhost, name in candidates:
        if vhost and name and http.is_there("queues", vhost, name):
            return vhost, name
    raise OperatorError(f"no queue '{shown}'; `penstock queues` lists them")


def _users(http: "HttpWay", request: Row) -> Row:
    found = _page(http, ("users",), request)
    rows = [
        {
            "name": row["name"],
            "tags": row["tags"],
            "limits": row.get("limits", {}),
            "connections": row.get("connections", 0),
            "is_configured": False,
            "hashing": row.get("hashing_algorithm", ""),
        }
        for row in found["items"]
    ]
    return {"users": rows, "total": found["total"], "next": found["next"]}


def _vhosts(http: "HttpWay", request: Row) -> Row:
    found = _page(http, ("vhosts",), request)
    rows = [
        {
            "name": row["name"],
            "queues": row.get("queues", 0),
            "messages": row.get("messages", 0),
            "connections": row.get("connections", 0),
            "limits": {},
            "is_configured": False,
        }
        for row in found["items"]
    ]
    return {"vhosts": rows, "total": found["total"], "next": found["next"]}


def _permissions(http: "HttpWay", request: Row) -> Row:
    user, vhost = request.get("user", ""), request.get("vhost", "")
    found: Row = {}
    for key, path in (("permissions", "permissions"), ("topic_permissions", "topic-permissions")):
        rows = http.call("GET", (path,))
        found[key] = [
            row for row in rows if user in ("", row["user"]) and vhost in ("", row["vhost"])
        ]
    total = sum(len(rows) for rows in found.values())
    return found | {"total": total, "next": ""}


def _policies(http: "HttpWay", request: Row) -> Row:
    kind, vhost = _policy_kind(request), request.get("vhost", "")
    rows = http.call("GET", (kind, vhost) if vhost else (kind,))
    return {"policies": rows, "total": len(rows), "next": ""}


def _policy_kind(request: Row) -> str:
    return "operator-policies" if request.get("operator") is True else "policies"


def _limits(http: "HttpWay", _request: Row) -> Row:
    rows = []
    for kind, path in (("vhost", "vhost-limits"), ("user", "user-limits")):
        for row in http.call("GET", (path,)):
            limits = row["value"]
            rows.append({"kind": kind, "name": row[kind], "limits": limits, "used": {}})
    return {"limits": rows, "total": len(rows), "next": ""}


# -- changes that the control socket answers itself ----------------------------------------------


def _close(http: "HttpWay", request: Row) -> Row:
    name, reason = str(request["name"]), str(request.get("reason", ""))
    http.call("DELETE", ("connections", name), reason=reason)
    return {"said": f"connection '{name}' is closed: {reason}"}


def _pause(http: "HttpWay", request: Row) -> Row:
    vhost, name = place_of(http, str(request["name"]))
    before = http.call("GET", ("queues", vhost, name))["state"] == "stopped"
    http.call("POST", ("queues", vhost, name, "actions"), body={"action": request["do"]})
    is_paused = request["do"] == "pause"
    return {"queue": shown_name(vhost, name), "is_paused": is_paused, "was_paused": before}


def _add_user(http: "HttpWay", request: Row) -> Row:
    name = str(request["name"])
    if http.is_there("users", name):
        raise OperatorError(f"user '{name}' is there already")
    body = {key: request[key] for key in ("tags", "password_hash", "hashing_algorithm")}
    http.call("PUT", ("users", name), body=body)
    return {"said": f"user '{name}' is there; it may do nothing yet: penstock permissions set"}


def _change_password(http: "HttpWay", request: Row) -> Row:
    name = str(request["name"])
    tags = http.call("GET", ("users", name))["tags"]
    body = {key: request[key] for key in ("password_hash", "hashing_algorithm")}
    http.call("PUT", ("users", name), body=body | {"tags": tags})
    return {"said": f"user '{name}' has another password"}


def _set_tags(http: "HttpWay", request: Row) -> Row:
    name, tags = str(request["name"]), request["tags"]
    http.call("GET", ("users", name))
    http.call("PUT", ("users", name), body={"tags": tags})
    return {"said": f"tags of user '{name}': {', '.join(tags) or 'none'}"}


def _simple(
    method: str, path: tuple[str, ...], keys: tuple[str, ...], said: str
) -> "Callable[[HttpWay, Row], Row]":
    """One request. path: with {names} of fields; keys: of fields that are the body; said: what is
    told of it, with {names} too."""

    def ask(http: "HttpWay", request: Row) -> Row:
        where = tuple(one.format(**request) for one in path)
        body = {key: request[key] for key in keys}
        http.call(method, tuple(one for one in where if one), body=body or None)
        return {"said": said.format(**request)}

    return ask


def _add_vhost(http: "HttpWay", request: Row) -> Row:
    name = str(request["name"])
    if http.is_there("vhosts", name):
        raise OperatorError(f"vhost '{name}' is there already")
    http.call("PUT", ("vhosts", name), body={})
    return {"said": f"vhost '{name}' is there; you may do everything in it"}


def _set_policy(http: "HttpWay", request: Row) -> Row:
    policy = dict(request["policy"])
    where = (_policy_kind(request), policy["vhost"], policy["name"])
    http.call("PUT", where, body=policy)
    return {"policy": policy, "notes": [], "before": None, "changed": None, "left": 0}


def _clear_policy(http: "HttpWay", request: Row) -> Row:
    vhost, name = str(request["vhost"]), str(request["name"])
    http.call("DELETE", (_policy_kind(request), vhost, name))
    return {"vhost": vhost, "name": name, "before": None, "changed": None, "left": 0}


def _set_limits(http: "HttpWay", request: Row) -> Row:
    kind, name = str(request["kind"]), str(request["name"])
    for key, value in request["limits"].items():
        http.call("PUT", (f"{kind}-limits", name, key), body={"value": value})
    return {"kind": kind, "name": name, "limits": _limits_of(http, kind, name)}


def _limits_of(http: "HttpWay", kind: str, name: str) -> Row:
    rows = http.call("GET", (f"{kind}-limits", name))
    return dict(rows[0]["value"]) if rows else {}


def _clear_limits(http: "HttpWay", request: Row) -> Row:
    kind, name = str(request["kind"]), str(request["name"])
    for key in request["keys"] or list(_limits_of(http, kind, name)):
        http.call("DELETE", (f"{kind}-limits", name, key))
    return {"kind": kind, "name": name, "limits": _limits_of(http, kind, name)}


# -- flow ----------------------------------------------------------------------------------------


def _why(http: "HttpWay", request: Row) -> Row:
    if request.get("ago_s"):
        raise OperatorError("--ago looks into the recorder, which --url cannot; ask on its machine")
    path = ["flow", "why", str(request["kind"])]
    path += [str(request["name"])] if request.get("name") else []
    return dict(http.call("GET", tuple(path), {"window_s": f"{request['window_s']:g}"}))


def _flow(path: str, *keys: str) -> "Callable[[HttpWay, Row], Row]":
    def ask(http: "HttpWay", request: Row) -> Row:
        query = {}
        for key in keys:
            value = request.get(key)
            if value not in (None, "", False):
                query[key] = "true" if value is True else str(value)
        return dict(http.call("GET", ("flow", path), query))

    return ask


def _change_settings(http: "HttpWay", request: Row) -> Row:
    body = {"changes": request["changes"], "for": request.get("for", "")}
    return dict(http.call("PUT", ("flow", "settings"), body=body))


# -- what AMQP has methods for -------------------------------------------------------------------


def _declare_queue(channel: "Channel", at: Row) -> Row:
    arguments = _table(at["arguments"])
    if at["type"]:
        arguments["x-queue-type"] = at["type"]
    answer = channel.declare_queue(
        at["name"], durable=at["durable"], auto_delete=at["auto_delete"], arguments=arguments
    )
    return {"said": f"queue '{answer.queue}' in vhost '{at['vhost']}' is there", **_where(at)}


def _declare_queue_http(http: "HttpWay", at: Row) -> Row:
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


def _delete_queue(channel: "Channel", at: Row) -> Row:
    count = channel.delete_queue(at["name"], if_unused=at["if_unused"], if_empty=at["if_empty"])
    return _deleted_queue(at, count)


def _deleted_queue(at: Row, count: int) -> Row:
    with_them = f" with {_messages(count)}" if count else ""
    said = f"queue '{at['name']}' in vhost '{at['vhost']}' is deleted{with_them}"
    return {"said": said, **_where(at), "messages": count}


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{amount(count)} messages"


def _delete_queue_http(http: "HttpWay", at: Row) -> Row:
    where = ("queues", at["vhost"], at["name"])
    count = int(http.call("GET", where)["messages"])
    http.call("DELETE", where, _conditions(at))
    return _deleted_queue(at, count)


def _purge(channel: "Channel", at: Row) -> Row:
    return _purged(at, channel.purge_queue(at["name"]))


def _purged(at: Row, count: int) -> Row:
    said = f"queue '{at['name']}' in vhost '{at['vhost']}': {_messages(count)} thrown away"
    return {"said": said, **_where(at), "messages": count}


def _purge_http(http: "HttpWay", at: Row) -> Row:
    where = ("queues", at["vhost"], at["name"])
    count = int(http.call("GET", where)["messages_ready"])
    http.call("DELETE", (*where, "contents"))
    return _purged(at, count)


def _get(channel: "Channel", at: Row) -> Row:
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


def _get_http(http: "HttpWay", at: Row) -> Row:
    mode = "ack_requeue_true" if at["requeue"] else "ack_requeue_false"
    body = {"count": at["count"], "ackmode": mode, "encoding": "auto"}
    return {"messages": http.call("POST", ("queues", at["vhost"], at["name"], "get"), body=body)}


def _declare_exchange(channel: "Channel", at: Row) -> Row:
    channel.declare_exchange(
        at["name"],
        at["type"],
        durable=at["durable"],
        auto_delete=at["auto_delete"],
        internal=at["internal"],
        arguments=_table(at["arguments"]),
    )
    return {"said": f"exchange '{at['name']}' in vhost '{at['vhost']}' is there", **_where(at)}


def _declare_exchange_http(http: "HttpWay", at: Row) -> Row:
    keys = ("type", "durable", "auto_delete", "internal", "arguments")
    body = {key: at[key] for key in keys}
    http.call("PUT", ("exchanges", at["vhost"], at["name"]), body=body)
    return {"said": f"exchange '{at['name']}' in vhost '{at['vhost']}' is there", **_where(at)}


def _delete_exchange(channel: "Channel", at: Row) -> Row:
    channel.delete_exchange(at["name"], if_unused=at["if_unused"])
    return _deleted_exchange(at)


def _deleted_exchange(at: Row) -> Row:
    return {"said": f"exchange '{at['name']}' in vhost '{at['vhost']}' is deleted", **_where(at)}


def _delete_exchange_http(http: "HttpWay", at: Row) -> Row:
    http.call("DELETE", ("exchanges", at["vhost"], at["name"]), _conditions(at))
    return _deleted_exchange(at)


def _bind(channel: "Channel", at: Row) -> Row:
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


def _bind_http(http: "HttpWay", at: Row) -> Row:
    body = {"routing_key": at["routing_key"], "arguments": at["arguments"]}
    http.call("POST", _between(at), body=body)
    return _bound(at, "is bound to")


def _unbind(channel: "Channel", at: Row) -> Row:
    is_exchange = at["destination_type"] == "exchange"
    unbind = channel.unbind_exchange if is_exchange else channel.unbind_queue
    unbind(at["destination"], at["source"], at["routing_key"], _table(at["arguments"]))
    return _bound(at, "is no longer bound to")


def _unbind_http(http: "HttpWay", at: Row) -> Row:
    http.call("DELETE", (*_between(at), at["properties_key"]))
    return _bound(at, "is no longer bound to")


def _publish(channel: "Channel", at: Row) -> Row:
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


def _publish_http(http: "HttpWay", at: Row) -> Row:
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


def payload(body: bytes) -> str:
    """A body as questions hold it."""
    return b64encode(body).decode()


_PERMISSION: Final = ("permissions", "{vhost}", "{user}")
_TOPIC: Final = ("topic-permissions", "{vhost}", "{user}")
WAYS: Final[dict[str, Way]] = {
    "status": Way(_flow("status")),
    "why": Way(_why),
    "flow edges": Way(_flow("edges", "limit", "after", "sort", "vhost", "blocked")),
    "flow accounts": Way(_flow("accounts", "limit", "after", "sort", "vhost", "queue")),
    "flow alarms": Way(_flow("alarms")),
    "flow settings": Way(_flow("settings")),
    "flow set": Way(_change_settings),
    "flow top": Way(_flow("top", "limit", "sort", "window_s")),
    "objects connections": Way(_listing("connections", "connections")),
    "objects channels": Way(_channels),
    "objects consumers": Way(_listing("consumers")),
    "objects queues": Way(_listing("queues")),
    "objects exchanges": Way(_listing("exchanges")),
    "objects bindings": Way(_bindings),
    "connections close": Way(_close),
    "queues list": Way(_queues),
    "queues pause": Way(_pause),
    "queues resume": Way(_pause),
    "queues declare": Way(_declare_queue_http, _declare_queue),
    "queues delete": Way(_delete_queue_http, _delete_queue),
    "queues purge": Way(_purge_http, _purge),
    "queues get": Way(_get_http, _get),
    "exchanges declare": Way(_declare_exchange_http, _declare_exchange),
    "exchanges delete": Way(_delete_exchange_http, _delete_exchange),
    "exchanges publish": Way(_publish_http, _publish),
    "bindings bind": Way(_bind_http, _bind),
    "bindings unbind": Way(_unbind_http, _unbind),
    "users list": Way(_users),
    "users add": Way(_add_user),
    "users delete": Way(_simple("DELETE", ("users", "{name}"), (), "user '{name}' is deleted")),
    "users change-password": Way(_change_password),
    "users set-tags": Way(_set_tags),
    "vhosts list": Way(_vhosts),
    "vhosts add": Way(_add_vhost),
    "vhosts delete": Way(_simple("DELETE", ("vhosts", "{name}"), (), "vhost '{name}' is deleted")),
    "permissions list": Way(_permissions),
    "permissions set": Way(
        _simple(
            "PUT",
            _PERMISSION,
            RIGHTS,
            "user '{user}' in vhost '{vhost}': configure '{configure}', write '{write}', "
            "read '{read}'",
        )
    ),
    "permissions clear": Way(
        _simple("DELETE", _PERMISSION, (), "user '{user}' may do nothing in vhost '{vhost}'")
    ),
    "permissions set-topic": Way(
        _simple(
            "PUT",
            _TOPIC,
            ("exchange", "write", "read"),
            "user '{user}' in vhost '{vhost}', keys of exchange '{exchange}': write '{write}', "
            "read '{read}'",
        )
    ),
    "permissions clear-topic": Way(
        _simple(
            "DELETE",
            (*_TOPIC, "{exchange}"),
            (),
            "user '{user}' in vhost '{vhost}': any routing key of {exchange}",
        )
    ),
    "policies list": Way(_policies),
    "policies set": Way(_set_policy),
    "policies clear": Way(_clear_policy),
    "limits list": Way(_limits),
    "limits set": Way(_set_limits),
    "limits clear": Way(_clear_limits),
}
"""By op and do of the question; the rest is answered by the control socket alone."""
