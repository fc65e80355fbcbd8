"""What forms change: each action is a request to the API, made by the user who is logged in."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from starlette.responses import Response

from penstock.management.broker_link import Row
from penstock.management.errors import bad_request
from penstock.management.pages.html import address
from penstock.management.pages.record_views import save_record
from penstock.management.pages.views import queue_page
from penstock.management.pages.visit import Form, Visit, goto, object_in, whole_in
from penstock.management.requests import Call, Handler
from penstock.management.resources import (
    connections,
    exchanges,
    flow,
    limits,
    policies,
    queues,
    users,
)

MESSAGES_MAX: Final = 50
"""That a page shows at once."""
SHOWN_BYTES: Final = 4_096
"""Of a message's body."""
NOTES_MAX: Final = 5
"""Remarks on an import that a page shows, and how many more there are."""


def _nothing(_form: Form) -> Row:
    return {}


@dataclass(frozen=True, slots=True)
class Action:
    """handler: of the API. path: the variables of its address and the fields of the form they come
    from; body, query: from the form; said: for people, with the form's fields in it; back: the page
    that comes next."""

    handler: Handler
    path: dict[str, str]
    said: str
    back: Callable[[Form], str]
    body: Callable[[Form], Row] = _nothing
    query: Callable[[Form], Row] = _nothing


def _page(path: str, **fields: str) -> Callable[[Form], str]:
    """An address of `path` whose query has fields of the form: name=field."""
    return lambda form: address(path, **{key: form.get(one, "") for key, one in fields.items()})


def _back(default: str) -> Callable[[Form], str]:
    """Where the form was, as it says itself; `default` where it does not."""
    return lambda form: form.get("back", "") or default


QUEUE: Final = {"vhost": "vhost", "queue": "name"}
EXCHANGE: Final = {"vhost": "vhost", "exchange": "name"}
BINDING: Final = {
    "vhost": "vhost",
    "exchange": "source",
    "kind": "kind",
    "destination": "destination",
}
TO_QUEUE: Final = _page("/queue", vhost="vhost", name="name")
TO_EXCHANGE: Final = _page("/exchange", vhost="vhost", name="name")


def _is_set(form: Form, key: str) -> bool:
    return form.get(key) in ("on", "true")


def _queue_body(form: Form) -> Row:
    arguments = object_in(form, "arguments")
    if form.get("type", "classic") != "classic":
        arguments["x-queue-type"] = form["type"]
    return {
        "durable": _is_set(form, "durable"),
        "auto_delete": _is_set(form, "auto_delete"),
        "arguments": arguments,
    }


def _exchange_body(form: Form) -> Row:
    return {
        "type": form.get("type", "direct"),
        "durable": _is_set(form, "durable"),
        "auto_delete": _is_set(form, "auto_delete"),
        "internal": _is_set(form, "internal"),
        "arguments": object_in(form, "arguments"),
    }


def _binding_body(form: Form) -> Row:
    return {
        "routing_key": form.get("routing_key", ""),
        "arguments": object_in(form, "arguments"),
    }


def _user_body(form: Form) -> Row:
    tags = form.get("tags", "")
    return {"password": form.get("password", ""), "tags": tags}


def _rights(form: Form) -> Row:
    return {key: form.get(key, "") for key in ("configure", "write", "read")}


def _topic_body(form: Form) -> Row:
    return {key: form.get(key, "") for key in ("exchange", "write", "read")}


def _policy_body(form: Form) -> Row:
    return {
        "pattern": form.get("pattern", ""),
        "definition": object_in(form, "definition"),
        "priority": whole_in(form, "priority"),
        "apply-to": form.get("apply-to", "all"),
    }


def _setting_body(form: Form) -> Row:
    return {"changes": {form.get("key", ""): form.get("value", "")}, "for": form.get("for", "")}


def _guards(form: Form) -> Row:
    return {key: "true" for key in ("if-unused", "if-empty") if _is_set(form, key)}


NAMED_POLICY: Final = {"vhost": "vhost", "name": "name"}


ACTIONS: Final[dict[str, Action]] = {
    "declare-queue": Action(
        queues.declare, QUEUE, "queue {name} is there", TO_QUEUE, body=_queue_body
    ),
    "delete-queue": Action(
        queues.delete, QUEUE, "queue {name} is deleted", _page("/queues"), query=_guards
    ),
    "purge-queue": Action(queues.purge, QUEUE, "queue {name} is purged", TO_QUEUE),
    "pause-queue": Action(
        queues.actions,
        QUEUE,
        "queue {name} is paused: its consumers are given nothing",
        TO_QUEUE,
        body=lambda _: {"action": "pause"},
    ),
    "resume-queue": Action(
        queues.actions,
        QUEUE,
        "queue {name} goes on",
        TO_QUEUE,
        body=lambda _: {"action": "resume"},
    ),
    "declare-exchange": Action(
        exchanges.declare, EXCHANGE, "exchange {name} is there", TO_EXCHANGE, body=_exchange_body
    ),
    "delete-exchange": Action(
        exchanges.delete,
        EXCHANGE,
        "exchange {name} is deleted",
        _page("/exchanges"),
        query=_guards,
    ),
    "bind": Action(
        exchanges.bind,
        BINDING,
        "{source} is bound to {destination}",
        _back("/exchanges"),
        body=_binding_body,
    ),
    "unbind": Action(
        exchanges.unbind,
        BINDING | {"props": "props"},
        "{source} is no longer bound to {destination}",
        _back("/exchanges"),
    ),
    "close-connection": Action(
        connections.close, {"name": "name"}, "connection {name} is closed", _page("/connections")
    ),
    "put-user": Action(
        users.put_user,
        {"name": "name"},
        "user {name} is saved",
        _page("/user", name="name"),
        body=_user_body,
    ),
    "delete-user": Action(
        users.delete_user, {"name": "name"}, "user {name} is deleted", _page("/users")
    ),
    "put-vhost": Action(
        users.put_vhost,
        {"vhost": "name"},
        "virtual host {name} is there",
        _page("/vhost", name="name"),
    ),
    "delete-vhost": Action(
        users.delete_vhost, {"vhost": "name"}, "virtual host {name} is deleted", _page("/vhosts")
    ),
    "put-permission": Action(
        users.put_permission,
        {"vhost": "vhost", "name": "user"},
        "permissions of {user} in {vhost} are saved",
        _back("/users"),
        body=_rights,
    ),
    "delete-permission": Action(
        users.delete_permission,
        {"vhost": "vhost", "name": "user"},
        "{user} may no longer use {vhost}",
        _back("/users"),
    ),
    "put-topic": Action(
        users.put_topic,
        {"vhost": "vhost", "name": "user"},
        "topic permissions of {user} in {vhost} are saved",
        _back("/users"),
        body=_topic_body,
    ),
    "delete-topic": Action(
        users.delete_topic,
        {"vhost": "vhost", "name": "user", "exchange": "exchange"},
        "topic permissions of {user} for {exchange} are gone",
        _back("/users"),
    ),
    "put-policy": Action(
        policies.USERS.put,
        NAMED_POLICY,
        "policy {name} is saved",
        _page("/policies"),
        body=_policy_body,
    ),
    "delete-policy": Action(
        policies.USERS.delete, NAMED_POLICY, "policy {name} is deleted", _page("/policies")
    ),
    "put-operator-policy": Action(
        policies.OPERATORS.put,
        NAMED_POLICY,
        "operator policy {name} is saved",
        _page("/policies"),
        body=_policy_body,
    ),
    "delete-operator-policy": Action(
        policies.OPERATORS.delete,
        NAMED_POLICY,
        "operator policy {name} is deleted",
        _page("/policies"),
    ),
    "put-vhost-limit": Action(
        limits.put_vhost_limit,
        {"vhost": "name", "limit": "limit"},
        "{limit} of {name} is {value}",
        _back("/limits"),
        body=lambda form: {"value": whole_in(form, "value")},
    ),
    "delete-vhost-limit": Action(
        limits.clear_vhost_limit,
        {"vhost": "name", "limit": "limit"},
        "{limit} of {name} is gone",
        _back("/limits"),
    ),
    "put-user-limit": Action(
        limits.put_user_limit,
        {"name": "name", "limit": "limit"},
        "{limit} of {name} is {value}",
        _back("/limits"),
        body=lambda form: {"value": whole_in(form, "value")},
    ),
    "delete-user-limit": Action(
        limits.clear_user_limit,
        {"name": "name", "limit": "limit"},
        "{limit} of {name} is gone",
        _back("/limits"),
    ),
    "change-setting": Action(
        flow.change, {}, "{key} is {value}", _page("/settings"), body=_setting_body
    ),
}


async def act(visit: Visit, name: str, form: Form) -> Response:
    """Do the action `name`. Raises: HttpFault, OperatorError with what is wrong."""
    action = ACTIONS[name]
    path = {key: form.get(field, "") for key, field in action.path.items()}
    if action.path.get("exchange") in ("name", "source"):
        path["exchange"] = path["exchange"] or exchanges.DEFAULT
    empty = [action.path[key] for key, value in path.items() if value == "" and key != "exchange"]
    if empty:
        raise bad_request(f"{', '.join(empty)}: must not be empty")
    headers = {"x-reason": form["reason"]} if form.get("reason") else {}
    await visit.api(action.handler, path, action.query(form), action.body(form), headers)
    visit.shared.samples.forget()
    visit.session.tell(action.said.format_map(_Fields(form)))
    return goto(action.back(form))


class _Fields(dict[str, str]):
    """Fields of a form, "" where one is missing."""

    def __missing__(self, key: str) -> str:
        return ""


async def get_messages(visit: Visit, form: Form) -> Response:
    """Messages of a queue, on its page: an address could not show them twice."""
    vhost, name = form.get("vhost", ""), form.get("name", "")
    count = whole_in(form, "count")
    if not 1 <= count <= MESSAGES_MAX:
        raise bad_request(f"count = {count}: must be 1..{MESSAGES_MAX}")
    body = {
        "count": count,
        "ackmode": form.get("ackmode", "ack_requeue_true"),
        "encoding": "auto",
        "truncate": SHOWN_BYTES,
    }
    found = await visit.api(queues.get, {"vhost": vhost, "queue": name}, body=body)
    visit.shared.samples.forget()
    return await queue_page(visit, vhost, name, found)


async def move_messages(visit: Visit, form: Form) -> Response:
    """Says how many, which depends on what was there."""
    vhost, name, to = form.get("vhost", ""), form.get("name", ""), form.get("to", "")
    body: Row = {"count": whole_in(form, "count"), "to": to}
    answer = await visit.api(queues.move, {"vhost": vhost, "queue": name}, body=body)
    visit.shared.samples.forget()
    moved, left = answer["moved"], answer["left"]
    visit.session.tell(f"{moved} messages are moved to queue {to}; {left} are left")
    if moved < min(body["count"], answer["found"]):
        visit.session.tell("that is what went in the time of one request: move again for the rest")
    return goto(TO_QUEUE(form))


async def publish(visit: Visit, form: Form) -> Response:
    """One message; says whether a queue has taken it."""
    properties: Row = object_in(form, "properties")
    if _is_set(form, "persistent"):
        properties["delivery_mode"] = 2
    headers = object_in(form, "headers")
    if headers:
        properties["headers"] = headers
    body: dict[str, Any] = {
        "properties": properties,
        "routing_key": form.get("routing_key", ""),
        # Browsers send lines that end with both.
        "payload": form.get("payload", "").replace("\r\n", "\n"),
        "payload_encoding": "string",
    }
    where = {"vhost": form.get("vhost", ""), "exchange": form.get("name") or exchanges.DEFAULT}
    answer = await visit.api(exchanges.publish, where, body=body)
    visit.shared.samples.forget()
    if answer["routed"]:
        visit.session.tell("message published")
    else:
        visit.session.tell("message published, but no queue takes this routing key", True)
    return goto(_back(address("/exchange", vhost=where["vhost"], name=form.get("name", "")))(form))


async def import_definitions(visit: Visit, form: Form) -> Response:
    """Says what came, and what the broker has to remark."""
    visit.visitor.need_administrator()
    if form.get("definitions", "").strip() == "":
        raise bad_request("definitions: choose a file, or paste one")
    call = Call(visit.shared.services, visit.visitor, visit.request)
    definitions = object_in(form, "definitions")
    answer = await call.change("definitions", "import", definitions=definitions)
    visit.shared.samples.forget()
    came = ", ".join(f"{count} {what}" for what, count in answer["imported"].items() if count)
    visit.session.tell(f"imported: {came or 'nothing'}")
    notes: list[str] = answer["notes"]
    more = len(notes) - NOTES_MAX
    # The last one may be that the disk does not have it yet.
    for note in notes if more <= 0 else [*notes[: NOTES_MAX - 1], notes[-1]]:
        visit.session.tell(note, True)
    if more > 0:
        visit.session.tell(f"and {more} more; penstock definitions import says all", True)
    return goto("/users")


Special = Callable[[Visit, Form], Awaitable[Response]]
SPECIAL: Final[dict[str, Special]] = {
    "get-messages": get_messages,
    "move-messages": move_messages,
    "publish": publish,
    "import-definitions": import_definitions,
    "save-record": save_record,
}
"""Actions that answer more than that they were done."""
