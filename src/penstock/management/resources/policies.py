"""`/api/policies`, `/api/operator-policies`, `/api/parameters` and `/api/definitions`."""

from typing import Final

import msgspec
from starlette.responses import Response

from penstock.base.limits import MANAGEMENT_BODY_BYTES
from penstock.management.broker_link import Row
from penstock.management.errors import HttpFault, bad_request, not_found
from penstock.management.requests import Call, Handler, gone, json, made, need_keys, text_of
from penstock.management.resources.queues import need_vhost


async def _policies(call: Call, is_operator: bool, vhost: str = "") -> list[Row]:
    request = {"op": "policies", "do": "list", "operator": is_operator, "vhost": vhost}
    found = await call.link.pages(request, "policies")
    return [row for row in found if call.visitor.sees(row["vhost"])]


class Policies:
    """The handlers of one kind of policy."""

    def __init__(self, is_operator: bool) -> None:
        self.is_operator = is_operator

    def _may_change(self, call: Call) -> None:
        if self.is_operator:
            call.visitor.need_administrator()
        else:
            call.visitor.need_policymaker_of(call.path("vhost"))

    async def all(self, call: Call) -> Response:
        return await call.shown(await _policies(call, self.is_operator))

    async def of_vhost(self, call: Call) -> Response:
        vhost = call.vhost()
        await need_vhost(call, vhost)
        return await call.shown(await _policies(call, self.is_operator, vhost))

    async def _find(self, call: Call) -> Row | None:
        vhost = call.vhost()
        await need_vhost(call, vhost)
        for row in await _policies(call, self.is_operator, vhost):
            if row["name"] == call.path("name"):
                return row
        return None

    async def one(self, call: Call) -> Response:
        row = await self._find(call)
        if row is None:
            raise not_found()
        return call.one(row)

    async def put(self, call: Call) -> Response:
        self._may_change(call)
        before = await self._find(call)
        body = await call.body()
        need_keys(body, "definition")
        definition = body["definition"]
        if not isinstance(definition, dict):
            raise bad_request("definition must be an object")
        policy = {
            "vhost": call.path("vhost"),
            "name": call.path("name"),
            "pattern": text_of(body, "pattern"),
            "definition": definition,
            "priority": body.get("priority", 0),
            "apply-to": body.get("apply-to", "all"),
        }
        await call.change("policies", "set", policy=policy, operator=self.is_operator)
        return made(before is None)

    async def delete(self, call: Call) -> Response:
        self._may_change(call)
        if await self._find(call) is None:
            raise not_found()
        vhost, name = call.path("vhost"), call.path("name")
        await call.change("policies", "clear", vhost=vhost, name=name, operator=self.is_operator)
        return gone()

    def routes(self, base: str) -> dict[tuple[str, str], Handler]:
        return {
            ("GET", base): self.all,
            ("GET", base + "/{vhost}"): self.of_vhost,
            ("GET", base + "/{vhost}/{name}"): self.one,
            ("PUT", base + "/{vhost}/{name}"): self.put,
            ("DELETE", base + "/{vhost}/{name}"): self.delete,
        }


USERS: Final = Policies(False)
OPERATORS: Final = Policies(True)


# -- parameters ----------------------------------------------------------------------------------


async def parameters(call: Call) -> Response:
    """Limits of virtual hosts and operators' policies, as RabbitMQ keeps them."""
    call.visitor.need_policymaker()
    return await call.shown(await _parameters(call))


async def _parameters(call: Call) -> list[Row]:
    found = await call.link.pages({"op": "limits", "do": "list"}, "limits")
    operators = await _policies(call, True)
    shown = ("pattern", "definition", "priority", "apply-to")
    return [
        {
            "vhost": row["vhost"],
            "component": "operator_policy",
            "name": row["name"],
            "value": {key: row[key] for key in shown},
        }
        for row in operators
    ] + [
        {
            "vhost": row["name"],
            "component": "vhost-limits",
            "name": "limits",
            "value": row["limits"],
        }
        for row in found
        if row["kind"] == "vhost" and call.visitor.sees(row["name"])
    ]


async def parameters_of(call: Call) -> Response:
    call.visitor.need_policymaker()
    component, vhost = call.path("component"), call.request.path_params.get("vhost")
    if vhost is not None:
        call.vhost()
        await need_vhost(call, vhost)
    found = [
        row
        for row in await _parameters(call)
        if row["component"] == component and vhost in (None, row["vhost"])
    ]
    return await call.shown(found)


# -- definitions ---------------------------------------------------------------------------------


OF_VHOST: Final = ("parameters", "policies", "queues", "exchanges", "bindings")
NAMED: Final = ("parameters", "policies")
"""Rows that name their virtual host also where all are of one."""


async def export(call: Call) -> Response:
    """All definitions, for administrators."""
    call.visitor.need_administrator()
    answer = await call.link.ask({"op": "definitions", "do": "export"})
    return json(answer["definitions"])


async def export_vhost(call: Call) -> Response:
    """Those of one virtual host, without its name."""
    call.visitor.need_administrator()
    vhost = call.path("vhost")
    await need_vhost(call, vhost)
    found = (await call.link.ask({"op": "definitions", "do": "export"}))["definitions"]
    shown: Row = {key: value for key, value in found.items() if not isinstance(value, list)}
    for key in OF_VHOST:
        shown[key] = [
            {name: value for name, value in row.items() if name != "vhost" or key in NAMED}
            for row in found.get(key, [])
            if row.get("vhost") == vhost
        ]
    return json(shown)


async def add(call: Call) -> Response:
    """Import; nothing is changed where something is wrong."""
    call.visitor.need_administrator()
    definitions = await _uploaded(call)
    await call.change("definitions", "import", definitions=definitions)
    return Response(status_code=204)


async def add_vhost(call: Call) -> Response:
    call.visitor.need_administrator()
    vhost = call.path("vhost")
    await need_vhost(call, vhost)
    await call.change("definitions", "import", definitions=await _uploaded(call), vhost=vhost)
    return Response(status_code=204)


async def _uploaded(call: Call) -> Row:
    """The object that was sent, alone or as the file of a form, as browsers send it."""
    kind = call.request.headers.get("content-type", "")
    if not kind.startswith("multipart/form-data"):
        return await call.body()
    # A form is read into a file, which nothing else bounds.
    length = call.request.headers.get("content-length", "")
    if not length.isdecimal() or int(length) > MANAGEMENT_BODY_BYTES.default:
        raise HttpFault(
            413,
            "request_too_large",
            f"a form needs a Content-Length of at most {MANAGEMENT_BODY_BYTES.default} bytes",
        )
    form = await call.request.form(max_files=1, max_fields=4)
    given = form.get("file")
    data = (
        given.encode() if isinstance(given, str) else b"" if given is None else await given.read()
    )
    try:
        return msgspec.json.decode(data, type=dict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"the file is no JSON object: {error}") from error


ROUTES: Final[dict[tuple[str, str], Handler]] = {
    **USERS.routes("/policies"),
    **OPERATORS.routes("/operator-policies"),
    ("GET", "/parameters"): parameters,
    ("GET", "/parameters/{component}"): parameters_of,
    ("GET", "/parameters/{component}/{vhost}"): parameters_of,
    ("GET", "/definitions"): export,
    ("POST", "/definitions"): add,
    ("GET", "/definitions/{vhost}"): export_vhost,
    ("POST", "/definitions/{vhost}"): add_vhost,
}
