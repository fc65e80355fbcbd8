"""What users without the tag of an administrator see and change over HTTP: their own virtual hosts
and connections, and of others nothing."""

import base64
import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pika
import pytest

from penstock.broker.session.passwords import SHA256, hash_password
from tests.conformance.http_contract import call
from tests.conformance.http_live import Managed, managed_broker
from tests.conformance.live import Broker
from tests.conformance.person import Person
from tests.patience import PATIENCE_S

GUEST: Final = "guest:guest"
HASH: Final = hash_password("x", b"salt", SHA256)
ALL: Final = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    """mia: management, of the virtual host `mine`; pol: policymaker and monitoring, of the same."""
    with managed_broker(tmp_path_factory.mktemp("rights")) as found:
        users = {"mia": "management", "pol": "policymaker,monitoring", "other": "management"}
        for name, tags in (users | {"maker": "policymaker"}).items():
            ask(found, "PUT", f"/users/{name}", {"password": "x", "tags": tags})
        ask(found, "PUT", "/vhosts/mine", {})
        for name in (*users, "maker"):
            ask(found, "PUT", f"/permissions/mine/{name}", ALL)
        yield found


def ask(
    managed: Managed, method: str, path: str, body: Any = None, login: str = GUEST
) -> tuple[int, Any]:
    status, found, _ = call(managed.base, method, path, body, login)
    return status, found


def connected(broker: Broker, user: str, password: str, vhost: str) -> Any:
    parameters = pika.URLParameters(broker.url)
    parameters.credentials = pika.PlainCredentials(user, password)
    parameters.virtual_host = vhost
    return pika.BlockingConnection(parameters)


def test_to_see_a_virtual_host_is_not_to_change_its_policies(managed: Managed) -> None:
    policy = {"pattern": "^q", "definition": {"max-length": 5}}
    refused = ask(managed, "PUT", "/policies/%2F/p", policy, "pol:x")
    assert refused == (
        401,
        {"error": "not_authorised", "reason": "User not authorised to access virtual host"},
    )
    assert ask(managed, "GET", "/policies/%2F/p")[0] == 404
    assert ask(managed, "PUT", "/policies/%2F/kept", policy)[0] == 201
    assert ask(managed, "DELETE", "/policies/%2F/kept", None, "pol:x")[0] == 401
    assert ask(managed, "GET", "/policies/%2F/kept", None, "pol:x")[0] == 200
    assert ask(managed, "PUT", "/policies/mine/p", policy, "pol:x")[0] == 201
    # Of a virtual host that one does not see, nothing is told.
    assert ask(managed, "GET", "/parameters/vhost-limits/%2F", None, "maker:x")[0] == 401
    assert ask(managed, "GET", "/parameters/vhost-limits/mine", None, "maker:x") == (200, [])


def test_to_see_a_queue_is_not_to_pause_it(managed: Managed) -> None:
    for vhost in ("%2F", "mine"):
        assert ask(managed, "PUT", f"/queues/{vhost}/p1", {})[0] == 201
    pause = {"action": "pause"}
    assert ask(managed, "POST", "/queues/%2F/p1/actions", pause, "pol:x")[0] == 401
    assert ask(managed, "GET", "/queues/%2F/p1")[1]["state"] == "running"
    assert ask(managed, "POST", "/queues/mine/p1/actions", pause, "pol:x")[0] == 204
    assert ask(managed, "GET", "/queues/mine/p1")[1]["state"] == "stopped"


def test_consumers_of_others_are_not_listed(managed: Managed) -> None:
    """As in RabbitMQ: whose they are, from which address, is for monitoring."""
    connections = [connected(managed.broker, user, "x", "mine") for user in ("mia", "other")]
    try:
        for user, connection in zip(("mia", "other"), connections, strict=True):
            channel = connection.channel()
            channel.queue_declare("read")
            channel.basic_consume("read", lambda *_: None, consumer_tag=f"of-{user}")
        assert tags_of(managed, "/consumers", "pol:x") == {"of-mia", "of-other"}
        assert tags_of(managed, "/consumers", "mia:x") == {"of-mia"}
        assert tags_of(managed, "/consumers/mine", "mia:x") == {"of-mia"}
    finally:
        for connection in connections:
            connection.close()


def tags_of(managed: Managed, path: str, login: str) -> set[str]:
    return {row["consumer_tag"] for row in ask(managed, "GET", path, None, login)[1]}


def test_the_overview_is_of_what_one_may_see(managed: Managed) -> None:
    """As in RabbitMQ: sums of one's own virtual hosts, and nothing of the node."""
    ask(managed, "PUT", "/queues/%2F/secret", {})
    ask(managed, "PUT", "/queues/mine/own", {})
    for vhost, key, count in (("%2F", "secret", 7), ("mine", "own", 2)):
        body = {"routing_key": key, "payload": "x", "payload_encoding": "string", "properties": {}}
        for _ in range(count):
            ask(managed, "POST", f"/exchanges/{vhost}/amq.default/publish", body)
    others = connected(managed.broker, "other", "x", "mine")
    own = connected(managed.broker, "mia", "x", "mine")
    try:
        own.channel()
        queues = ask(managed, "GET", "/queues/mine")[1]
        found = ask(managed, "GET", "/overview", None, "mia:x")[1]
        assert found["queue_totals"]["messages"] == 2 == found["queue_totals"]["messages_ready"]
        assert found["object_totals"] == {
            "connections": 1,
            "channels": 1,
            "exchanges": len(ask(managed, "GET", "/exchanges/mine")[1]),
            "queues": len(queues),
            "consumers": 0,
        }
        assert found["message_stats"]["publish"] == 2
        assert not found.keys() & {"node", "listeners", "contexts", "flow"}
        whole = ask(managed, "GET", "/overview", None, "pol:x")[1]
        assert whole["queue_totals"]["messages"] >= 9 and "listeners" in whole
    finally:
        own.close()
        others.close()


def test_the_page_of_the_overview_is_of_what_one_may_see(managed: Managed) -> None:
    mia = Person(managed.base)
    mia.log_in("mia", "x")
    page = mia.get("/")
    assert page.status == 200 and "unacknowledged" in page.text
    assert "files and sockets" not in page.text and "<polyline" not in page.text
    pol = Person(managed.base)
    pol.log_in("pol", "x")
    assert "files and sockets" in pol.get("/").text


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "same-site", "Origin": "https://other.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
)
def test_a_form_of_another_site_changes_nothing(managed: Managed, headers: dict[str, str]) -> None:
    """Its text is JSON, and a browser that was asked for the API before knows the password."""
    made = {"name": "evil", "tags": "administrator", "password_hash": HASH}
    body = json.dumps({"users": [made | {"hashing_algorithm": SHA256}]}).encode()
    answer = as_browser(managed, body, headers)
    assert answer[0] == 403 and "another site" in answer[1]
    assert ask(managed, "GET", "/users/evil")[0] == 404


def test_a_page_of_this_address_may_use_the_api(managed: Managed) -> None:
    own = {"Sec-Fetch-Site": "same-origin", "Origin": managed.base}
    assert as_browser(managed, b"{}", own)[0] == 204
    assert as_browser(managed, b"{}", {"Origin": managed.base})[0] == 204


def as_browser(managed: Managed, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    """Definitions, as a form sends them."""
    login = base64.b64encode(GUEST.encode()).decode()
    said = {"Authorization": f"Basic {login}", "Content-Type": "text/plain", **headers}
    request = Request(f"{managed.base}/api/definitions", body, said, method="POST")
    try:
        with urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, ""
    except HTTPError as error:
        return error.code, error.read().decode()


def test_a_connection_of_another_user_is_not_shown(managed: Managed) -> None:
    others = connected(managed.broker, "other", "x", "mine")
    try:
        [row] = [one for one in ask(managed, "GET", "/connections")[1] if one["user"] == "other"]
        path = f"/connections/{quote(row['name'], safe='')}"
        assert ask(managed, "GET", path, None, "mia:x")[0] == 401
        assert ask(managed, "DELETE", path, None, "mia:x")[0] == 401
        assert ask(managed, "GET", "/connections", None, "mia:x")[1] == []
    finally:
        others.close()
