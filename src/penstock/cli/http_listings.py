"""Listings over HTTP, as the control socket would have answered them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.base.errors import OperatorError
from penstock.base.shown_names import shown_name, vhost_and_name
from penstock.cli.way import DEFAULT, MissingError, Row

if TYPE_CHECKING:
    from penstock.cli.http_way import HttpWay

PAGE_SIZE: Final = 500
"""Rows that RabbitMQ's API gives at a time."""


def listing(*path: str, sort: str = "") -> "Callable[[HttpWay, Row], Row]":
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
    limit = int(request.get("limit") or PAGE_SIZE)
    # Pages of another size would begin elsewhere: who asks for a second one has had PAGE_SIZE.
    size = min(PAGE_SIZE, limit) if page == 1 else PAGE_SIZE
    query = {"page": str(page), "page_size": str(size)}
    if sort:
        query["sort"] = sort.lstrip("-")
        query["sort_reverse"] = "true" if sort.startswith("-") else "false"
    found = http.call("GET", where, query)
    if not isinstance(found, dict):
        return {"items": found, "total": len(found), "next": ""}
    following = str(page + 1) if page < found["page_count"] else ""
    return {"items": found["items"][:limit], "total": found["filtered_count"], "next": following}


def channels(http: "HttpWay", request: Row) -> Row:
    if request.get("name"):
        rows = http.call("GET", ("connections", str(request["name"]), "channels"))
        return {"items": rows, "total": len(rows), "next": ""}
    return listing("channels", "channels")(http, request | {"name": None})


def bindings(http: "HttpWay", request: Row) -> Row:
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
        return listing("bindings")(http, request)
    return {"items": rows, "total": len(rows), "next": ""}


QUEUE_ORDERS: Final = {
    "ready": "-messages_ready",
    "bytes": "-message_bytes",
    "rate": "-message_stats.publish_details.rate",
    "name": "name",
}


def queues(http: "HttpWay", request: Row) -> Row:
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
    split = vhost_and_name(shown)
    if split is not None:
        candidates.append(split)
    for vhost, name in candidates:
        if name and http.is_there("queues", vhost, name):
            return vhost, name
    raise OperatorError(f"no queue '{shown}'; `penstock queues` lists them")


def users(http: "HttpWay", request: Row) -> Row:
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


def vhosts(http: "HttpWay", request: Row) -> Row:
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


def permissions(http: "HttpWay", request: Row) -> Row:
    user, vhost = request.get("user", ""), request.get("vhost", "")
    found: Row = {}
    for key, path in (("permissions", "permissions"), ("topic_permissions", "topic-permissions")):
        rows = http.call("GET", (path,))
        found[key] = [
            row for row in rows if user in ("", row["user"]) and vhost in ("", row["vhost"])
        ]
    total = sum(len(rows) for rows in found.values())
    return found | {"total": total, "next": ""}


def policies(http: "HttpWay", request: Row) -> Row:
    kind, vhost = policy_kind(request), request.get("vhost", "")
    rows = http.call("GET", (kind, vhost) if vhost else (kind,))
    return {"policies": rows, "total": len(rows), "next": ""}


def policy_kind(request: Row) -> str:
    return "operator-policies" if request.get("operator") is True else "policies"


def limits(http: "HttpWay", _request: Row) -> Row:
    rows = []
    for kind, path in (("vhost", "vhost-limits"), ("user", "user-limits")):
        for row in http.call("GET", (path,)):
            limits = row["value"]
            rows.append({"kind": kind, "name": row[kind], "limits": limits, "used": {}})
    return {"limits": rows, "total": len(rows), "next": ""}
