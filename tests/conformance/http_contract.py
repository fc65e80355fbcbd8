"""Requests to the HTTP API with what RabbitMQ answers: status, and the shape of the JSON object.

    python -m tests.conformance.http_contract http://localhost:15672 > tests/fixtures/...json

records them from a RabbitMQ with its management plugin, which must be empty. A shape has the names
of fields and the types of their values; of a list, the fields of all its rows together.

    python -m tests.conformance.http_contract http://RABBITMQ http://PENSTOCK

prints where the two differ, in statuses, and in fields that one of them alone has.
"""

import base64
import json
import sys
from collections.abc import Iterator
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

Case = tuple[str, str, Any]
TIMEOUT_S: Final = 60.0

CASES: Final[list[Case]] = [
    ("GET", "/overview", None),
    ("GET", "/nodes", None),
    ("GET", "/whoami", None),
    ("GET", "/cluster-name", None),
    ("PUT", "/vhosts/t1", {}),
    ("PUT", "/vhosts/t1", {}),
    ("GET", "/vhosts", None),
    ("GET", "/vhosts/t1", None),
    ("GET", "/vhosts/none", None),
    ("PUT", "/users/bob", {"password": "x1", "tags": "management"}),
    ("PUT", "/users/bob", {"password": "x1", "tags": "management,policymaker"}),
    ("GET", "/users/bob", None),
    ("GET", "/users/none", None),
    ("GET", "/users", None),
    ("PUT", "/permissions/t1/bob", {"configure": ".*", "write": ".*", "read": ".*"}),
    ("PUT", "/permissions/t1/bob", {"configure": "^b", "write": ".*", "read": ".*"}),
    ("GET", "/permissions/t1/bob", None),
    ("GET", "/permissions", None),
    ("GET", "/users/bob/permissions", None),
    ("PUT", "/permissions/t1/bob", {"configure": "(", "write": ".*", "read": ".*"}),
    ("PUT", "/permissions/t1/bob", {"configure": ".*"}),
    ("PUT", "/topic-permissions/t1/bob", {"exchange": "amq.topic", "write": "^a", "read": ".*"}),
    ("GET", "/topic-permissions/t1/bob", None),
    ("PUT", "/queues/t1/q1", {"durable": True, "arguments": {"x-max-length": 10}}),
    ("PUT", "/queues/t1/q1", {"durable": True, "arguments": {"x-max-length": 10}}),
    ("PUT", "/queues/t1/q1", {"durable": False}),
    ("PUT", "/queues/none/q1", {"durable": False}),
    ("PUT", "/queues/t1/qq", {"durable": True, "arguments": {"x-queue-type": "quorum"}}),
    ("PUT", "/queues/t1/q2", {"arguments": {"x-max-length": "text"}}),
    ("GET", "/queues/t1/q1", None),
    ("GET", "/queues/t1/none", None),
    ("GET", "/queues/t1", None),
    ("GET", "/queues/none", None),
    ("GET", "/queues?page=1&page_size=1&sort=name&sort_reverse=true", None),
    ("GET", "/queues?page=9&page_size=1", None),
    ("GET", "/queues?columns=name,message_stats.publish", None),
    ("GET", "/queues/t1?page=1&use_regex=true&name=%5Eq1&pagination=false&page_size=100", None),
    ("PUT", "/exchanges/t1/x1", {"type": "topic", "durable": True}),
    ("PUT", "/exchanges/t1/x1", {"type": "fanout", "durable": True}),
    ("PUT", "/exchanges/t1/x9", {"type": "nope"}),
    ("PUT", "/exchanges/t1/x9", {}),
    ("PUT", "/exchanges/t1/x2", {"type": "fanout"}),
    ("GET", "/exchanges/t1/x1", None),
    ("GET", "/exchanges/t1", None),
    ("GET", "/exchanges/t1/amq.default", None),
    ("POST", "/bindings/t1/e/x1/q/q1", {"routing_key": "a.*", "arguments": {}}),
    ("POST", "/bindings/t1/e/x1/q/q1", {"routing_key": "a.*", "arguments": {"x": 1}}),
    ("POST", "/bindings/t1/e/x1/e/x2", {"routing_key": "e"}),
    ("POST", "/bindings/t1/e/none/q/q1", {"routing_key": "e"}),
    ("GET", "/bindings/t1", None),
    ("GET", "/bindings/t1/e/x1/q/q1", None),
    ("GET", "/bindings/t1/e/x1/q/q1/a.%2A", None),
    ("GET", "/queues/t1/q1/bindings", None),
    ("GET", "/exchanges/t1/x1/bindings/source", None),
    ("GET", "/exchanges/t1/x2/bindings/destination", None),
    (
        "POST",
        "/exchanges/t1/x1/publish",
        {
            "routing_key": "a.b",
            "payload": "hello",
            "payload_encoding": "string",
            "properties": {"delivery_mode": 2, "headers": {"k": 1}},
        },
    ),
    (
        "POST",
        "/exchanges/t1/x1/publish",
        {"routing_key": "zzz", "payload": "hello", "payload_encoding": "string", "properties": {}},
    ),
    (
        "POST",
        "/exchanges/t1/none/publish",
        {"routing_key": "zzz", "payload": "hello", "payload_encoding": "string", "properties": {}},
    ),
    ("POST", "/exchanges/t1/x1/publish", {"routing_key": "zzz"}),
    (
        "POST",
        "/exchanges/t1/x1/publish",
        {"routing_key": "zzz", "payload": "%%", "payload_encoding": "base64", "properties": {}},
    ),
    ("POST", "/queues/t1/q1/get", {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}),
    (
        "POST",
        "/queues/t1/q1/get",
        {"count": 1, "ackmode": "ack_requeue_false", "encoding": "base64", "truncate": 2},
    ),
    ("POST", "/queues/t1/q1/get", {"count": 1, "encoding": "auto"}),
    ("POST", "/queues/t1/q1/get", {"count": 1, "ackmode": "zzz", "encoding": "auto"}),
    ("DELETE", "/queues/t1/q1/contents", None),
    ("DELETE", "/queues/t1/none/contents", None),
    (
        "PUT",
        "/policies/t1/p1",
        {"pattern": "^q", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues"},
    ),
    (
        "PUT",
        "/policies/t1/p1",
        {"pattern": "^q", "definition": {"max-length": 6}, "priority": 1, "apply-to": "queues"},
    ),
    ("PUT", "/policies/t1/p2", {"pattern": "(", "definition": {"max-length": 5}}),
    ("PUT", "/policies/t1/p2", {"pattern": "a", "definition": {"zzz": 5}}),
    ("PUT", "/policies/t1/p2", {"pattern": "a"}),
    ("GET", "/policies/t1", None),
    ("GET", "/policies/t1/p1", None),
    ("GET", "/policies/t1/none", None),
    ("GET", "/queues/t1/q1", None),
    (
        "PUT",
        "/operator-policies/t1/o1",
        {"pattern": "^q", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues"},
    ),
    ("GET", "/operator-policies/t1", None),
    ("PUT", "/vhost-limits/t1/max-queues", {"value": 100}),
    ("GET", "/vhost-limits", None),
    ("GET", "/vhost-limits/t1", None),
    ("PUT", "/user-limits/bob/max-connections", {"value": 10}),
    ("GET", "/user-limits/bob", None),
    ("GET", "/parameters", None),
    ("GET", "/parameters/vhost-limits/t1", None),
    ("GET", "/connections", None),
    ("GET", "/channels", None),
    ("GET", "/consumers", None),
    ("GET", "/consumers/t1", None),
    ("GET", "/connections/none", None),
    ("DELETE", "/connections/none", None),
    ("GET", "/definitions", None),
    ("GET", "/definitions/t1", None),
    (
        "POST",
        "/definitions",
        {
            "queues": [
                {
                    "name": "imp",
                    "vhost": "t1",
                    "durable": True,
                    "auto_delete": False,
                    "arguments": {},
                }
            ]
        },
    ),
    ("POST", "/definitions", {"queues": [{"name": "imp"}]}),
    ("GET", "/aliveness-test/t1", None),
    ("GET", "/health/checks/alarms", None),
    ("GET", "/health/checks/local-alarms", None),
    ("GET", "/health/checks/virtual-hosts", None),
    ("GET", "/health/checks/node-is-quorum-critical", None),
    ("GET", "/health/checks/port-listener/1", None),
    ("GET", "/health/checks/protocol-listener/amqp091", None),
    ("GET", "/health/checks/protocol-listener/zzz", None),
    ("GET", "/health/checks/certificate-expiration/1/days", None),
    ("GET", "/health/checks/certificate-expiration/1/zz", None),
    ("GET", "/nope", None),
    ("PUT", "/overview", {}),
]
"""As the administrator guest."""

AS_BOB: Final[list[Case]] = [
    ("GET", "/overview", None),
    ("GET", "/nodes", None),
    ("GET", "/users", None),
    ("GET", "/whoami", None),
    ("GET", "/queues/%2F", None),
    ("GET", "/queues/t1", None),
    ("GET", "/vhosts", None),
    ("PUT", "/users/zed", {"password": "x", "tags": ""}),
    ("PUT", "/policies/t1/pb", {"pattern": "^q", "definition": {"max-length": 5}}),
    ("PUT", "/queues/t1/c1", {}),
    ("PUT", "/queues/t1/b1", {}),
    ("GET", "/permissions", None),
    ("GET", "/definitions", None),
    ("GET", "/parameters", None),
    ("GET", "/connections", None),
]
"""Then as bob, who has the tags management and policymaker, and rights in t1 alone."""

AT_LAST: Final[list[Case]] = [
    ("DELETE", "/bindings/t1/e/x1/q/q1/a.%2A", None),
    ("DELETE", "/bindings/t1/e/x1/q/q1/zzz", None),
    ("DELETE", "/exchanges/t1/x1?if-unused=true", None),
    ("DELETE", "/exchanges/t1/x1", None),
    ("DELETE", "/exchanges/t1/amq.direct", None),
    ("DELETE", "/queues/t1/qq?if-empty=true", None),
    ("DELETE", "/queues/t1/none", None),
    ("DELETE", "/policies/t1/p1", None),
    ("DELETE", "/policies/t1/none", None),
    ("DELETE", "/permissions/t1/bob", None),
    ("DELETE", "/users/bob", None),
    ("DELETE", "/users/none", None),
    ("DELETE", "/vhosts/t1", None),
    ("DELETE", "/vhosts/none", None),
]
"""And as guest again."""


def call(base: str, method: str, path: str, body: Any, login: str) -> tuple[int, Any, str]:
    """Status, JSON object (None for none) and Location of one request."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{base}/api{path}", data=data, method=method)
    request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
    request.add_header("Content-Type", "application/json")
    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.status, read(answer.read()), answer.headers.get("Location", "")
    except HTTPError as error:
        return error.code, read(error.read()), ""


def read(data: bytes) -> Any:
    """The JSON of an answer, None for an empty one."""
    try:
        return json.loads(data) if data else None
    except ValueError:
        return f"no JSON: {data[:80]!r}"


def shape(value: Any) -> Any:
    """Names of fields and types of values."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        merged: Any = {}
        for one in value:
            found = shape(one)
            merged = merged | found if isinstance(found, dict) and merged != "" else found
        return [merged] if value else []
    return (
        "number"
        if isinstance(value, int | float) and not isinstance(value, bool)
        else (type(value).__name__)
    )


def answers(base: str) -> Iterator[tuple[str, int, Any, str]]:
    """Every case, in order: its name, status, JSON object and Location."""
    for login, cases in (("guest:guest", CASES), ("bob:x1", AS_BOB), ("guest:guest", AT_LAST)):
        for method, path, body in cases:
            name = f"{login.partition(':')[0]} {method} {path}"
            yield name, *call(base, method, path, body, login)
    status, found, where = call(base, "GET", "/overview", None, "guest:wrong")
    yield "wrong GET /overview", status, found, where


def record(base: str) -> list[dict[str, Any]]:
    """What a server answers, as it is kept."""
    return [
        {"case": name, "status": status, "shape": shape(found), "location": where}
        | ({"text": found} if status >= 400 else {})
        for name, status, found, where in answers(base)
    ]


def missing(wanted: Any, found: Any, path: str = "") -> Iterator[str]:
    """Where shape `found` lacks a field of shape `wanted`, or has another type there."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            if key not in found:
                yield f"{path}{key} is missing"
            else:
                yield from missing(value, found[key], f"{path}{key}.")
    elif isinstance(wanted, list) and isinstance(found, list):
        if wanted and found:
            yield from missing(wanted[0], found[0], path)
    elif wanted != found and "NoneType" not in (wanted, found):
        yield f"{path[:-1]} is {found}, and {wanted} in RabbitMQ"


def difference(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Iterator[str]:
    """How the recorded answers of Penstock and of RabbitMQ differ: a line for each status and each
    field of RabbitMQ's, and one of what only Penstock has."""
    cases: dict[str, list[str]] = {}
    more: dict[str, None] = {}
    for mine, other in zip(ours, theirs, strict=True):
        lines = []
        if mine["status"] != other["status"]:
            lines.append(f"status {mine['status']}, and {other['status']} in RabbitMQ")
        elif mine["status"] < 400:
            lines += missing(other["shape"], mine["shape"])
            only = missing(mine["shape"], other["shape"])
            more |= {one.removesuffix(" is missing"): None for one in only if " is missing" in one}
        for line in lines:
            cases.setdefault(line, []).append(mine["case"])
    for line, names in sorted(cases.items(), key=lambda one: (-len(one[1]), one[0])):
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{line}: {names[0]}{others}"
    yield f"only in Penstock: {', '.join(sorted(more))}"


def main(bases: list[str]) -> None:
    """Record one server, or compare RabbitMQ and Penstock."""
    if len(bases) == 1:
        json.dump(record(bases[0]), sys.stdout, indent=1)
        print()
        return
    theirs, ours = record(bases[0]), record(bases[1])
    same = sum(mine["status"] == other["status"] for mine, other in zip(ours, theirs, strict=True))
    print(f"{same} of {len(ours)} requests have the same status; what differs:")
    for line in difference(ours, theirs):
        print(f"  {line}")


if __name__ == "__main__":
    main(sys.argv[1:])
