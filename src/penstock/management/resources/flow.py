"""`/api/flow/...`: what only Penstock knows. The answers of the control socket, as they are."""

from contextlib import suppress
from typing import Final

from starlette.responses import Response

from penstock.base.errors import OperatorError
from penstock.explain.kinds import WHY_KINDS
from penstock.management.broker_link import Row
from penstock.management.errors import bad_request
from penstock.management.requests import Call, Handler, json

NUMBER_DIGITS: Final = 15
PAGE_KEYS: Final = ("after", "sort", "vhost", "queue")


def _limit(call: Call) -> int:
    text = call.query.get("limit", "200")
    if not text.isdecimal() or len(text) > NUMBER_DIGITS or not 1 <= int(text) <= 10_000:
        raise bad_request(f"limit = {text[:20]!r}: must be 1..10000")
    return int(text)


def _page(call: Call, do: str) -> dict[str, object]:
    """A page of a listing, as commands ask for it."""
    named = {key: call.query[key] for key in PAGE_KEYS if key in call.query}
    return {"op": "flow", "do": do, "limit": _limit(call), **named}


async def status(call: Call) -> Response:
    """What `penstock status` shows."""
    call.visitor.need_monitor()
    return json(await call.link.ask({"op": "status"}))


async def cluster(call: Call) -> Response:
    """What `penstock cluster status` shows, as the leader sees it; as this node does while none
    leads. Without a cluster there are no nodes."""
    call.visitor.need_monitor()
    return json(await cluster_answer(call))


async def cluster_answer(call: Call) -> Row:
    """A cluster as its leaders see it. Raises: OperatorError."""
    member = call.services.cluster
    if member is None:
        return {"cluster": "", "nodes": []}
    request = {"op": "cluster_status"}
    try:
        return await member.ask(request | {"at_leader": True})
    except OperatorError:
        return await member.ask(request)


async def why(call: Call) -> Response:
    """Who is blocked by whom, since when, and the root cause."""
    call.visitor.need_monitor()
    kind = call.path("kind")
    if kind not in WHY_KINDS:
        raise bad_request(f"why '{kind[:40]}'; one of: {', '.join(WHY_KINDS)}")
    name = str(call.request.path_params.get("name", ""))
    window = call.query.get("window_s", "10")
    try:
        window_s = float(window)
    except ValueError as error:
        raise bad_request(f"window_s = {window[:20]!r} is no number of seconds") from error
    request = {"op": "why", "kind": kind, "name": name, "window_s": window_s}
    return json(await call.link.ask(request))


async def edges(call: Call) -> Response:
    """Hops with who holds them: a page of `limit`, `next` says where the next one begins."""
    call.visitor.need_monitor()
    request = _page(call, "edges") | {"blocked": call.query.get("blocked") == "true"}
    return json(await call.link.ask(request))


async def accounts(call: Call) -> Response:
    """What is under way, by whose it is: a page of `limit`, as of hops."""
    call.visitor.need_monitor()
    return json(await call.link.ask(_page(call, "accounts")))


async def alarms(call: Call) -> Response:
    call.visitor.need_monitor()
    return json(await call.link.ask({"op": "flow", "do": "alarms"}))


async def top(call: Call) -> Response:
    call.visitor.need_monitor()
    request = _page(call, "top")
    with suppress(ValueError):
        request["window_s"] = float(call.query.get("window_s", ""))
    return json(await call.link.ask(request))


async def settings(call: Call) -> Response:
    call.visitor.need_monitor()
    return json(await call.link.ask({"op": "flow", "do": "settings"}))


async def change(call: Call) -> Response:
    """{"changes": {"KEY": "VALUE"}, "for": "10m"}: for good without `for`."""
    call.visitor.need_administrator()
    body = await call.body()
    changes = body.get("changes")
    if not isinstance(changes, dict) or not changes:
        raise bad_request('key_missing: changes, as {"KEY": "VALUE"}')
    lasting = body.get("for", "")
    return json(await call.change("flow", "set", changes=changes, **{"for": str(lasting)}))


async def log(call: Call) -> Response:
    """The newest lines of the broker's log: `last` ones of `level` and above, or with `since` those
    from that number on, `limit` at a time."""
    call.visitor.need_monitor()
    request: dict[str, object] = {"op": "log"}
    for key in ("last", "since", "limit"):
        text = call.query.get(key)
        if text is None:
            continue
        if key == "since" and "," in text:
            # Of several workers, as they have called it `next`.
            request[key] = text
            continue
        if not text.isascii() or not text.isdecimal() or len(text) > NUMBER_DIGITS:
            raise bad_request(f"{key} = {text[:20]!r} is no number")
        request[key] = int(text)
    if "level" in call.query:
        request["level"] = call.query["level"]
    return json(await call.link.ask(request))


async def record(call: Call) -> Response:
    """What the flight recorder has."""
    call.visitor.need_monitor()
    return json(await call.link.ask({"op": "record", "do": "status"}))


ROUTES: Final[dict[tuple[str, str], Handler]] = {
    ("GET", "/flow/status"): status,
    ("GET", "/flow/why/{kind}"): why,
    ("GET", "/flow/why/{kind}/{name:path}"): why,
    ("GET", "/flow/edges"): edges,
    ("GET", "/flow/accounts"): accounts,
    ("GET", "/flow/alarms"): alarms,
    ("GET", "/flow/top"): top,
    ("GET", "/flow/settings"): settings,
    ("PUT", "/flow/settings"): change,
    ("GET", "/flow/log"): log,
    ("GET", "/flow/cluster"): cluster,
    ("GET", "/flow/record"): record,
}
