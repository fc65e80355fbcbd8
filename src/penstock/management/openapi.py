"""The HTTP API described as OpenAPI 3.1, from the one table of routes.

What a handler does is the first sentence of its docstring; what bodies hold is BODIES. Answers are
RabbitMQ's objects, which have dozens of fields: docs/http-api.md says which.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock import __version__
from penstock.management.requests import Handler

Routes = Mapping[tuple[str, str], Handler]
Schema = dict[str, Any]
BASE: Final = "/api"
TEXT: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
TABLE: Final[Schema] = {"type": "object", "additionalProperties": True}
NUMBER: Final[Schema] = {"type": "integer"}


def body(required: tuple[str, ...] = (), /, **fields: Schema) -> Schema:
    """An object with these fields; `title` of a schema is a name that is none in Python."""
    named = {str(schema.get("title", name)): schema for name, schema in fields.items()}
    found: Schema = {"type": "object", "properties": named}
    return found | ({"required": list(required)} if required else {})


POLICY: Final = body(
    ("pattern", "definition"),
    pattern=TEXT,
    definition=TABLE,
    priority=NUMBER,
    apply_to={
        "title": "apply-to",
        "enum": ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"],
    },
)
BODIES: Final[Mapping[tuple[str, str], Schema]] = {
    ("PUT", "/queues/{vhost}/{queue}"): body(
        durable=FLAG, auto_delete=FLAG, arguments=TABLE, type=TEXT
    ),
    ("POST", "/queues/{vhost}/{queue}/actions"): body(
        ("action",), action={"enum": ["pause", "resume", "sync", "cancel_sync"]}
    ),
    ("POST", "/queues/{vhost}/{queue}/get"): body(
        ("count", "ackmode", "encoding"),
        count=NUMBER,
        ackmode={
            "enum": [
                *("ack_requeue_true", "ack_requeue_false"),
                *("reject_requeue_true", "reject_requeue_false"),
            ]
        },
        encoding={"enum": ["auto", "base64"]},
        truncate=NUMBER,
    ),
    ("POST", "/queues/{vhost}/{queue}/move"): body(
        to=TEXT, exchange=TEXT, routing_key=TEXT, count=NUMBER
    ),
    ("PUT", "/exchanges/{vhost}/{exchange}"): body(
        ("type",), type=TEXT, durable=FLAG, auto_delete=FLAG, internal=FLAG, arguments=TABLE
    ),
    ("POST", "/exchanges/{vhost}/{exchange}/publish"): body(
        ("properties", "routing_key", "payload", "payload_encoding"),
        properties=TABLE,
        routing_key=TEXT,
        payload=TEXT,
        payload_encoding={"enum": ["string", "base64"]},
    ),
    ("POST", "/bindings/{vhost}/e/{exchange}/{kind}/{destination}"): body(
        routing_key=TEXT, arguments=TABLE
    ),
    ("PUT", "/users/{name}"): body(
        ("tags",), password=TEXT, password_hash=TEXT, hashing_algorithm=TEXT, tags=TEXT
    ),
    ("POST", "/users/bulk-delete"): body(("users",), users={"type": "array", "items": TEXT}),
    ("PUT", "/permissions/{vhost}/{name}"): body(
        ("configure", "write", "read"), configure=TEXT, write=TEXT, read=TEXT
    ),
    ("PUT", "/topic-permissions/{vhost}/{name}"): body(
        ("exchange", "write", "read"), exchange=TEXT, write=TEXT, read=TEXT
    ),
    ("PUT", "/vhosts/{vhost}"): body(),
    ("PUT", "/vhost-limits/{vhost}/{limit}"): body(("value",), value=NUMBER),
    ("PUT", "/user-limits/{name}/{limit}"): body(("value",), value=NUMBER),
    ("PUT", "/policies/{vhost}/{name}"): POLICY,
    ("PUT", "/operator-policies/{vhost}/{name}"): POLICY,
    ("POST", "/definitions"): body(queues={}, exchanges={}, bindings={}, users={}, vhosts={}),
    ("POST", "/definitions/{vhost}"): body(queues={}, exchanges={}, bindings={}),
    ("PUT", "/flow/settings"): body(("changes",), changes=TABLE, **{"for": TEXT}),
    ("POST", "/rebalance/queues"): body(),
}
"""Of every route that is sent one."""
ENUMS: Final[Mapping[str, list[str]]] = {
    "kind": ["q", "e"],
    "unit": ["days", "weeks", "months", "years"],
}
LISTED: Final = (
    ("page", NUMBER, "Page of the listing, from 1; without it all rows come."),
    ("page_size", NUMBER, "Rows of a page, 1..500."),
    ("name", TEXT, "Only rows whose name has this in it."),
    ("use_regex", FLAG, "`name` is a regular expression (RE2)."),
    ("sort", TEXT, "Field to sort by, with dots into objects; several with commas."),
    ("sort_reverse", FLAG, "Largest first."),
    ("columns", TEXT, "Only these fields, with commas."),
)
PAGED: Final = ("limit", "after", "sort", "vhost")
QUERIES: Final[Mapping[str, tuple[str, ...]]] = {
    "/flow/edges": (*PAGED, "blocked"),
    "/flow/accounts": PAGED,
    "/flow/top": ("limit",),
    "/flow/log": ("last", "level", "since", "limit"),
    "/flow/why/{kind}": ("window_s",),
    "/flow/why/{kind}/{name:path}": ("window_s",),
}
"""What `GET` of other addresses may carry."""
FAULT: Final = {
    "description": "What is wrong.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"error": TEXT, "reason": TEXT},
                "required": ["error", "reason"],
            }
        }
    },
}
FAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "GET": ("400", "401", "404", "503"),
    "PUT": ("400", "401", "404", "413", "503"),
    "POST": ("400", "401", "404", "413", "503"),
    "DELETE": ("400", "401", "404", "503"),
}
DONE: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "GET": (("200", "As RabbitMQ answers."),),
    "PUT": (("200", "Done."), ("201", "Made."), ("204", "It was there, and is as asked now.")),
    "POST": (("200", "Done."), ("201", "Made."), ("204", "Done.")),
    "DELETE": (("204", "Gone."),),
}

VERBS: Final[Mapping[str, str]] = {
    "GET": "Show",
    "PUT": "Make or change",
    "POST": "Add to",
    "DELETE": "Delete",
}


def document(routes: Routes) -> Schema:
    """The whole description."""
    paths: dict[str, Schema] = {}
    for (method, path), handler in sorted(routes.items(), key=lambda one: one[0][::-1]):
        shown = BASE + path.replace(":path}", "}")
        paths.setdefault(shown, {})[method.lower()] = _operation(method, path, handler)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock HTTP API",
            "version": __version__,
            "description": "RabbitMQ's HTTP API, and what only Penstock has below /api/flow.",
        },
        "security": [{"basic": []}],
        "components": {
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
            "responses": {"Fault": FAULT},
            "parameters": {
                name: {"name": name, "in": "query", "schema": schema, "description": said}
                for name, schema, said in LISTED
            },
        },
        "paths": paths,
    }


def _operation(method: str, path: str, handler: Handler) -> Schema:
    names = re.findall(r"{(\w+)(?::path)?}", path)
    found: Schema = {
        "operationId": f"{method.lower()}{re.sub(r'[^a-z]+', '_', path)}".rstrip("_"),
        "summary": _sentence(handler) or _said(method, path),
        "tags": [path.split("/")[1]],
        "parameters": [_variable(name, path) for name in names],
        "responses": {status: {"description": said} for status, said in DONE[method]}
        | {status: {"$ref": "#/components/responses/Fault"} for status in FAULTS[method]},
    }
    if method == "GET" and not path.startswith(("/health/", "/flow/", "/definitions")):
        found["parameters"] += [
            {"$ref": f"#/components/parameters/{name}"} for name, _, _ in LISTED
        ]
    for name in QUERIES.get(path, ()) if method == "GET" else ():
        found["parameters"].append({"name": name, "in": "query", "schema": TEXT})
    schema = BODIES.get((method, path))
    if schema is not None:
        found["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return found


def _variable(name: str, path: str) -> Schema:
    schema: Schema = TEXT
    if name in ENUMS and not path.startswith("/flow/"):
        schema = {"enum": ENUMS[name]}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _sentence(handler: Handler) -> str:
    """The first sentence of what is said of a handler."""
    text = " ".join((getattr(handler, "__doc__", None) or "").split())
    return re.split(r"(?<=\.) ", text + " ", maxsplit=1)[0].strip()


def _said(method: str, path: str) -> str:
    words = [word for word in path.split("/") if word and not word.startswith("{")]
    names = re.findall(r"{(\w+)(?::path)?}", path)
    by = f", by {' and '.join(names)}" if names else ""
    return f"{VERBS[method]} {' '.join(words)}{by}."
