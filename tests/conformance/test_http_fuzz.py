"""Whatever is sent to the HTTP API, it answers, never with a fault of its own, and the broker works
on: requests made from its own description, and bytes that are no HTTP."""

import base64
import http.client
import json
import random
import socket
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlencode

import pika
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scripts.openapi_page import page
from tests.architecture.house import REPOSITORY
from tests.conformance.http_contract import call
from tests.conformance.http_live import Managed, managed_broker
from tests.patience import PATIENCE_S

WRITTEN: Final = REPOSITORY / "docs" / "openapi.json"
DOCUMENT: Final[dict[str, Any]] = json.loads(page())
OPERATIONS: Final = [
    (method.upper(), path, operation)
    for path, found in DOCUMENT["paths"].items()
    for method, operation in found.items()
]
CHANGES: Final = [one for one in OPERATIONS if one[0] != "GET"]
NAMES: Final = (
    "/",
    "fuzz",
    "amq.direct",
    "amq.default",
    "q1",
    "p1",
    "guest",
    "max-queues",
    "~",
    "0",
)
HOSTILE: Final = (
    "",
    "..",
    "a/b",
    "\x00",
    "é" * 200,
    "x" * 300,
    "%2F",
    "'\"<>&",
    "()[",
    "-1",
    "1e9",
)
ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    1 << 70,
    1.5,
    "",
    "x" * 70_000,
    [],
    [[]],
    {},
    {"a": {"b": [None]}},
)
LOGIN: Final = "fuzzer:secret"
FAULTS: Final = (500, 501, 502, 504)


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with managed_broker(tmp_path_factory.mktemp("http")) as found:
        body = {"password": "secret", "tags": "administrator"}
        assert call(found.base, "PUT", "/users/fuzzer", body, "guest:guest")[0] == 201
        assert call(found.base, "PUT", "/vhosts/fuzz", {}, LOGIN)[0] == 201
        yield found


def names() -> st.SearchStrategy[str]:
    known = st.sampled_from(NAMES)
    return known | known.map(str) | known.map(str) | st.sampled_from(HOSTILE) | st.text(max_size=20)


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """What `schema` allows, or something else."""
    fitting: st.SearchStrategy[Any] = names()
    if "enum" in schema:
        fitting = st.sampled_from(schema["enum"])
    elif schema.get("type") == "boolean":
        fitting = st.booleans()
    elif schema.get("type") == "integer":
        fitting = st.integers(-2, 1000)
    elif schema.get("type") == "array":
        fitting = st.lists(names(), max_size=3)
    elif schema.get("type") == "object":
        known = st.sampled_from(
            ["x-max-length", "x-queue-type", "x-message-ttl", "max-length", "k"]
        )
        fitting = st.dictionaries(known, st.integers(-1, 9) | names(), max_size=3)
    return st.integers(0, 7).flatmap(lambda n: fitting if n else st.sampled_from(ODD))


def variables(name: str, schema: dict[str, Any]) -> st.SearchStrategy[str]:
    """What stands in an address: mostly what is there, or nothing would ever be done."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if name == "vhost":
        return st.sampled_from(["fuzz", "fuzz", "/", "none"])
    return names()


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, bytes | None]:
    """Method, address and body."""
    method, path, operation = draw(st.sampled_from(OPERATIONS) | st.sampled_from(CHANGES))
    query: dict[str, str] = {}
    for one in operation["parameters"]:
        known = "$ref" in one or one["in"] == "query"
        name = one["$ref"].rpartition("/")[2] if "$ref" in one else one["name"]
        if known:
            if draw(st.booleans()):
                query[name] = str(draw(st.sampled_from(["1", "2", "name", "true", *HOSTILE])))
            continue
        value = draw(variables(name, one["schema"]))
        path = path.replace(f"{{{name}}}", quote(value.encode("utf-8", "replace"), safe=""))
    if query:
        path += "?" + urlencode(query, errors="replace")
    wanted = operation.get("requestBody")
    if wanted is None:
        return method, path, None
    fields = wanted["content"]["application/json"]["schema"]["properties"]
    required = wanted["content"]["application/json"]["schema"].get("required", [])
    body = {
        name: draw(values(schema))
        for name, schema in fields.items()
        if name in required or draw(st.booleans())
    }
    data = json.dumps(body).encode("utf-8", "replace")
    return method, path, draw(st.sampled_from([data, data, data, data[:-1], b"[]", b"\xff"]))


def sent(managed: Managed, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", managed.http_port, timeout=PATIENCE_S)
    try:
        login = base64.b64encode(LOGIN.encode()).decode()
        headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_the_description_is_up_to_date_and_served(managed: Managed) -> None:
    assert WRITTEN.read_text(encoding="utf-8") == page(), "run: make docs"
    assert call(managed.base, "GET", "/openapi.json", None, LOGIN)[1] == DOCUMENT


def test_every_operation_has_a_name_and_says_what_it_does() -> None:
    assert len({one["operationId"] for _, _, one in OPERATIONS}) == len(OPERATIONS)
    for method, path, operation in OPERATIONS:
        assert operation["summary"].endswith((".", "`.")), (method, path, operation["summary"])
        told = {one["name"] for one in operation["parameters"] if one.get("in") == "path"}
        assert all(f"{{{name}}}" in path for name in told)
        assert (method in ("PUT", "POST")) == ("requestBody" in operation), (method, path)


@settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(asked=requests())
def test_no_request_is_answered_by_a_fault_of_ours(
    managed: Managed, asked: tuple[str, str, bytes | None]
) -> None:
    status, body = sent(managed, *asked)
    assert status not in FAULTS, (asked, status, body[:500])
    assert 200 <= status < 504, (asked, status)
    if status >= 400 and body:
        told = json.loads(body)
        assert "reason" in told and ("error" in told or told["status"] == "failed"), asked


def test_bytes_that_are_no_http_end_their_connection_alone(managed: Managed) -> None:
    chance = random.Random(7)
    starts = [
        b"",
        b"GET / HTTP/1.1\r\n",
        b"GET /api/queues HTTP/1.1\r\nHost: x\r\n",
        b"AMQP\0\0\t\1",
    ]
    for number in range(60):
        data = chance.choice(starts) + chance.randbytes(chance.randrange(1, 3000))
        with socket.create_connection(("127.0.0.1", managed.http_port), PATIENCE_S) as sock:
            sock.sendall(data + (b"\r\n\r\n" if number % 2 else b""))
            if number % 3 == 0:
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65_536):
                    pass
    assert call(managed.base, "GET", "/whoami", None, LOGIN)[0] == 200


def test_the_broker_works_after_all_that(managed: Managed) -> None:
    # guest may be gone, or have another password.
    parameters = pika.URLParameters(managed.broker.url.replace("guest:guest", LOGIN))
    right = {"configure": ".*", "write": ".*", "read": ".*"}
    assert call(managed.base, "PUT", "/permissions/%2F/fuzzer", right, LOGIN)[0] in (201, 204)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("after")
        channel.basic_publish("", "after", b"still here", mandatory=True)
        assert channel.basic_get("after", auto_ack=True)[2] == b"still here"
