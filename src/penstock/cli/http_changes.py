"""Changes, and questions about flow, over HTTP, as the control socket would have answered them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.base.errors import OperatorError
from penstock.base.shown_names import shown_name
from penstock.cli.http_listings import place_of, policy_kind
from penstock.cli.way import Row

if TYPE_CHECKING:
    from penstock.cli.http_way import HttpWay


def close(http: "HttpWay", request: Row) -> Row:
    name, reason = str(request["name"]), str(request.get("reason", ""))
    http.call("DELETE", ("connections", name), reason=reason)
    return {"said": f"connection '{name}' is closed: {reason}"}


def pause(http: "HttpWay", request: Row) -> Row:
    vhost, name = place_of(http, str(request["name"]))
    before = http.call("GET", ("queues", vhost, name))["state"] == "stopped"
    http.call("POST", ("queues", vhost, name, "actions"), body={"action": request["do"]})
    is_paused = request["do"] == "pause"
    return {"queue": shown_name(vhost, name), "is_paused": is_paused, "was_paused": before}


def add_user(http: "HttpWay", request: Row) -> Row:
    name = str(request["name"])
    if http.is_there("users", name):
        raise OperatorError(f"user '{name}' is there already")
    body = {key: request[key] for key in ("tags", "password_hash", "hashing_algorithm")}
    http.call("PUT", ("users", name), body=body)
    return {"said": f"user '{name}' is there; it may do nothing yet: penstock permissions set"}


def change_password(http: "HttpWay", request: Row) -> Row:
    name = str(request["name"])
    tags = http.call("GET", ("users", name))["tags"]
    body = {key: request[key] for key in ("password_hash", "hashing_algorithm")}
    http.call("PUT", ("users", name), body=body | {"tags": tags})
    return {"said": f"user '{name}' has another password"}


def set_tags(http: "HttpWay", request: Row) -> Row:
    name, tags = str(request["name"]), request["tags"]
    http.call("GET", ("users", name))
    http.call("PUT", ("users", name), body={"tags": tags})
    return {"said": f"tags of user '{name}': {', '.join(tags) or 'none'}"}


def simple(
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


def clear_topic(http: "HttpWay", request: Row) -> Row:
    user, vhost, exchange = (str(request[key]) for key in ("user", "vhost", "exchange"))
    http.call("DELETE", ("topic-permissions", vhost, user, *([exchange] if exchange else [])))
    of = f"exchange '{exchange}'" if exchange else "every exchange"
    return {"said": f"user '{user}' in vhost '{vhost}': any routing key of {of}"}


def add_vhost(http: "HttpWay", request: Row) -> Row:
    name = str(request["name"])
    if http.is_there("vhosts", name):
        raise OperatorError(f"vhost '{name}' is there already")
    http.call("PUT", ("vhosts", name), body={})
    return {"said": f"vhost '{name}' is there; you may do everything in it"}


def set_policy(http: "HttpWay", request: Row) -> Row:
    policy = dict(request["policy"])
    where = (policy_kind(request), policy["vhost"], policy["name"])
    http.call("PUT", where, body=policy)
    return {"policy": policy, "notes": [], "before": None, "changed": None, "left": 0}


def clear_policy(http: "HttpWay", request: Row) -> Row:
    vhost, name = str(request["vhost"]), str(request["name"])
    http.call("DELETE", (policy_kind(request), vhost, name))
    return {"vhost": vhost, "name": name, "before": None, "changed": None, "left": 0}


def set_limits(http: "HttpWay", request: Row) -> Row:
    kind, name = str(request["kind"]), str(request["name"])
    for key, value in request["limits"].items():
        http.call("PUT", (f"{kind}-limits", name, key), body={"value": value})
    return {"kind": kind, "name": name, "limits": _limits_of(http, kind, name)}


def _limits_of(http: "HttpWay", kind: str, name: str) -> Row:
    rows = http.call("GET", (f"{kind}-limits", name))
    return dict(rows[0]["value"]) if rows else {}


def clear_limits(http: "HttpWay", request: Row) -> Row:
    kind, name = str(request["kind"]), str(request["name"])
    for key in request["keys"] or list(_limits_of(http, kind, name)):
        http.call("DELETE", (f"{kind}-limits", name, key))
    return {"kind": kind, "name": name, "limits": _limits_of(http, kind, name)}


def why(http: "HttpWay", request: Row) -> Row:
    if request.get("ago_s"):
        raise OperatorError("--ago looks into the recorder, which --url cannot; ask on its machine")
    path = ["flow", "why", str(request["kind"])]
    path += [str(request["name"])] if request.get("name") else []
    return dict(http.call("GET", tuple(path), {"window_s": f"{request['window_s']:g}"}))


def flow(path: str, *keys: str) -> "Callable[[HttpWay, Row], Row]":
    def ask(http: "HttpWay", request: Row) -> Row:
        query = {}
        for key in keys:
            value = request.get(key)
            if value not in (None, "", False):
                query[key] = "true" if value is True else str(value)
        return dict(http.call("GET", ("flow", path), query))

    return ask


def change_settings(http: "HttpWay", request: Row) -> Row:
    body = {"changes": request["changes"], "for": request.get("for", "")}
    return dict(http.call("PUT", ("flow", "settings"), body=body))
