"""What requests over HTTP are answered where something is missing, wrong, or has just changed."""

import base64
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from urllib.request import urlopen

import pika
import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.base.limits import MANAGEMENT_BODY_BYTES
from penstock.routing.factory import EXCHANGE_KINDS
from tests.conformance.http_contract import call
from tests.conformance.http_live import Managed, managed_broker
from tests.conformance.live import free_port, penstock_process
from tests.conformance.person import Person
from tests.patience import PATIENCE_S, until

GUEST: Final = "guest:guest"


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with managed_broker(tmp_path_factory.mktemp("answers")) as found:
        yield found


@pytest.fixture
def channel(managed: Managed) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(managed.broker.url))
    yield connection.channel()
    if connection.is_open:
        connection.close()


def ask(managed: Managed, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    status, found, _ = call(managed.base, method, path, body, GUEST)
    return status, found


# -- what has just changed -----------------------------------------------------------------------


def test_the_address_of_a_new_binding_is_its_own(managed: Managed, channel: Any) -> None:
    """Also where somebody else has bound the two since they were last looked at, as Terraform does
    that makes ten bindings at a time and keeps the addresses."""
    channel.queue_declare("b1")
    path = "/bindings/%2F/e/amq.topic/q/b1"
    assert call(managed.base, "POST", path, {"routing_key": "k1"}, GUEST)[2] == "b1/k1"
    assert len(ask(managed, "GET", path)[1]) == 1
    channel.queue_bind("b1", "amq.topic", "another")
    assert call(managed.base, "POST", path, {"routing_key": "k2"}, GUEST)[2] == "b1/k2"
    for arguments in ({"x": 1}, {"x": True}, {"x": 1.5, "y": "z"}):
        body = {"routing_key": "k2", "arguments": arguments}
        _, _, where = call(managed.base, "POST", path, body, GUEST)
        found = ask(managed, "GET", f"/bindings/%2F/e/amq.topic/q/{where}")[1]
        assert json.dumps(found["arguments"]) == json.dumps(arguments)
    channel.queue_delete("b1")


def test_what_was_not_there_a_moment_ago_is_found(managed: Managed, channel: Any) -> None:
    """Whoever asks whether a queue is there yet is no reason why others do not find it."""
    assert ask(managed, "GET", "/queues/%2F/new")[0] == 404
    channel.queue_declare("new")
    assert ask(managed, "GET", "/queues/%2F/new")[0] == 200
    assert ask(managed, "GET", "/exchanges/%2F/newer")[0] == 404
    channel.exchange_declare("newer")
    assert ask(managed, "DELETE", "/exchanges/%2F/newer")[0] == 204
    channel.queue_delete("new")


def test_all_connections_of_a_user_are_closed(managed: Managed) -> None:
    """Also when one that was listed a moment ago has ended by itself, or one has just come."""
    assert ask(managed, "PUT", "/users/app", {"password": "x", "tags": ""})[0] == 201
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    assert ask(managed, "PUT", "/permissions/%2F/app", rights)[0] == 201
    parameters = pika.URLParameters(managed.broker.url)
    parameters.credentials = pika.PlainCredentials("app", "x")
    connections = [pika.BlockingConnection(parameters) for _ in range(3)]
    assert len(ask(managed, "GET", "/connections/username/app")[1]) == 3
    connections[0].close()
    connections.append(pika.BlockingConnection(parameters))
    assert ask(managed, "DELETE", "/connections/username/app") == (204, None)
    for connection in connections[1:]:
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            connection.process_data_events(30)


def test_a_connection_that_has_just_ended_is_not_found(managed: Managed, channel: Any) -> None:
    [row] = ask(managed, "GET", "/connections")[1]
    path = f"/connections/{quote(row['name'], safe='')}"
    assert ask(managed, "GET", path)[0] == 200
    channel.connection.close()
    assert ask(managed, "DELETE", path)[0] == 404


# -- what is not there ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        # Terraform takes 404 for deleted, and anything else for a failure.
        ("DELETE", "/permissions/%2F/nobody"),
        ("DELETE", "/permissions/none/guest"),
        ("DELETE", "/topic-permissions/%2F/guest"),
        ("DELETE", "/topic-permissions/%2F/guest/amq.topic"),
        ("DELETE", "/topic-permissions/none/guest"),
        ("DELETE", "/vhost-limits/none/max-queues"),
        ("DELETE", "/user-limits/nobody/max-connections"),
        ("GET", "/users/nobody/topic-permissions"),
        ("GET", "/vhosts/none/topic-permissions"),
        ("GET", "/vhosts/none/connections"),
        ("GET", "/vhosts/none/channels"),
        ("GET", "/consumers/none"),
        ("GET", "/vhost-limits/none"),
        ("GET", "/parameters/vhost-limits/none"),
        ("GET", "/user-limits/nobody"),
    ],
)
def test_what_is_not_there_is_not_found(managed: Managed, method: str, path: str) -> None:
    assert ask(managed, method, path) == (404, {"error": "Object Not Found", "reason": "Not Found"})


def test_limits_are_of_what_is_there(managed: Managed) -> None:
    found = ask(managed, "PUT", "/vhost-limits/none/max-queues", {"value": 1})
    assert found == (404, {"error": "not_found", "reason": "vhost_not_found"})
    assert ask(managed, "PUT", "/user-limits/nobody/max-channels", {"value": 1})[0] == 400


def test_topic_permissions_of_a_virtual_host(managed: Managed) -> None:
    topic = {"exchange": "amq.topic", "write": "^a", "read": ".*"}
    assert ask(managed, "PUT", "/topic-permissions/%2F/guest", topic)[0] == 201
    [row] = ask(managed, "GET", "/vhosts/%2F/topic-permissions")[1]
    assert row == {"user": "guest", "vhost": "/"} | topic
    assert ask(managed, "DELETE", "/topic-permissions/%2F/guest/other")[0] == 404
    assert ask(managed, "DELETE", "/topic-permissions/%2F/guest/amq.topic")[0] == 204


# -- what is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, True, {}, ["a"], 1.5])
def test_a_property_that_is_no_text_is_refused(managed: Managed, value: Any) -> None:
    """None is not the text None."""
    body = {"routing_key": "q", "payload": "x", "payload_encoding": "string"}
    for name in ("content_type", "correlation_id", "user_id"):
        body["properties"] = {name: value}  # type: ignore[assignment]
        status, found = ask(managed, "POST", "/exchanges/%2F/amq.default/publish", body)
        assert (status, name in found["reason"]) == (400, True), found


def test_a_request_that_is_refused_has_changed_nothing(managed: Managed) -> None:
    assert ask(managed, "PUT", "/users/half", {"password": "old", "tags": "management"})[0] == 201
    for body in (
        {"password": "new", "tags": ["a,b"]},
        {"password_hash": "no base64", "tags": "administrator"},
        {"password_hash": "AAAA", "tags": "administrator"},
    ):
        assert ask(managed, "PUT", "/users/half", body)[0] == 400
        status, found, _ = call(managed.base, "GET", "/whoami", None, "half:old")
        assert (status, found.get("tags")) == (200, ["management"]), body


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/policies/%2F/p", {"pattern": "q", "definition": {}, "priority": 10**30}),
        ("PUT", "/vhost-limits/%2F/max-queues", {"value": 10**30}),
        ("PUT", "/queues/%2F/q", {"arguments": {"x-max-length": 10**30}}),
        ("POST", "/definitions", {"queues": [{"name": "q", "vhost": "/", "durable": 10**30}]}),
    ],
)
def test_a_number_that_fits_nowhere_is_the_client_s_fault(
    managed: Managed, method: str, path: str, body: Any
) -> None:
    assert ask(managed, method, path, body)[0] == 400


def test_a_default_that_would_not_be_kept_is_refused(managed: Managed) -> None:
    """Whoever wants quorum queues does not get classic ones without a word."""
    status, found = ask(managed, "PUT", "/vhosts/safe", {"default_queue_type": "quorum"})
    assert (status, "x-queue-type" in found["reason"]) == (400, True)
    assert ask(managed, "GET", "/vhosts/safe")[0] == 404
    assert ask(managed, "PUT", "/vhosts/safe", {"default_queue_type": "classic"})[0] == 201


def test_a_body_that_the_broker_would_not_read_is_too_large(managed: Managed) -> None:
    """Within the bound of bodies, and not of what the broker is asked with it in it."""
    body = {"queues": [], "more": ""}
    body["more"] = "x" * (MANAGEMENT_BODY_BYTES.default - len(json.dumps(body)))
    assert len(json.dumps(body)) == MANAGEMENT_BODY_BYTES.default
    status, found = ask(managed, "POST", "/definitions", body)
    assert (status, found["error"]) == (413, "request_too_large"), found


def test_a_query_with_very_many_fields_is_refused(managed: Managed) -> None:
    """Each would be looked up in every row, and all others would wait for it."""
    for key in ("sort", "columns"):
        many = ",".join("name" for _ in range(2_000))
        assert ask(managed, "GET", f"/queues?{key}={many}")[0] == 400
        assert ask(managed, "GET", f"/queues?{key}={'x.' * 200}")[0] == 400


# -- what is shown -------------------------------------------------------------------------------


def test_the_overview_has_the_columns_that_are_wanted(managed: Managed) -> None:
    found = ask(managed, "GET", "/overview?columns=cluster_name,object_totals.queues")[1]
    assert found.keys() == {"cluster_name", "object_totals"}
    assert found["object_totals"].keys() == {"queues"}
    # Of a list of objects, the field of each.
    found = ask(managed, "GET", "/overview?columns=listeners.port,listeners.protocol")[1]
    assert found == {"listeners": [{"protocol": "amqp", "port": managed.broker.port}]}


def test_what_was_returned_was_not_dropped(managed: Managed, channel: Any) -> None:
    before = unroutable(managed)
    body = {"routing_key": "no", "payload": "x", "payload_encoding": "string", "properties": {}}
    for _ in range(2):
        assert ask(managed, "POST", "/exchanges/%2F/amq.direct/publish", body)[1] == {
            "routed": False
        }
    channel.basic_publish("amq.direct", "no", b"x")
    # Answered when the publish before it was looked at.
    channel.queue_declare("", exclusive=True)
    assert ask(managed, "PUT", "/queues/%2F/seen", {})[0] in (201, 204)
    after = unroutable(managed)
    assert (after[0] - before[0], after[1] - before[1]) == (2, 1)


def test_what_needs_no_acknowledgement_was_not_acknowledged(managed: Managed, channel: Any) -> None:
    channel.queue_declare("acks")
    for _ in range(10):
        channel.basic_publish("", "acks", b"x")
    before = acknowledged(managed)
    for _ in range(4):
        assert channel.basic_get("acks", auto_ack=True)[0]
    for _ in range(3):
        channel.basic_ack(channel.basic_get("acks")[0].delivery_tag)
    taken: list[bytes] = []
    channel.basic_consume("acks", lambda *given: taken.append(given[3]), auto_ack=True)
    until(lambda: len(taken) == 3, "the rest", lambda: channel.connection.process_data_events(0.1))
    assert ask(managed, "PUT", "/queues/%2F/seen", {})[0] in (201, 204)
    stats = ask(managed, "GET", "/queues/%2F/acks")[1]["message_stats"]
    counts = {name: stats[name] for name in ("ack", "get", "get_no_ack", "deliver_no_ack")}
    assert counts == {"ack": 3, "get": 3, "get_no_ack": 4, "deliver_no_ack": 3}
    assert acknowledged(managed) - before == 3
    channel.queue_delete("acks")


def acknowledged(managed: Managed) -> float:
    """By all, as Prometheus is told."""
    with urlopen(managed.metrics, timeout=PATIENCE_S) as answer:
        found = text_string_to_metric_families(answer.read().decode())
        [family] = [one for one in found if one.name == "rabbitmq_global_messages_acknowledged"]
    return float(sum(one.value for one in family.samples if one.name.endswith("_total")))


def unroutable(managed: Managed) -> tuple[int, int]:
    """Messages that were returned, and dropped."""
    stats = ask(managed, "GET", "/overview")[1]["message_stats"]
    return stats["return_unroutable"], stats["drop_unroutable"]


def test_every_type_of_exchange_is_offered(managed: Managed) -> None:
    found = ask(managed, "GET", "/overview")[1]["exchange_types"]
    assert {one["name"] for one in found} == set(EXCHANGE_KINDS)
    guest = Person(managed.base)
    guest.log_in()
    page = guest.get("/exchanges").text
    assert [kind for kind in EXCHANGE_KINDS if f'<option value="{kind}"' not in page] == []


def test_an_exchange_says_which_policy_it_goes_by(managed: Managed, channel: Any) -> None:
    policy = {"pattern": "^led", "definition": {"alternate-exchange": "amq.fanout"}}
    assert ask(managed, "PUT", "/policies/%2F/leads", policy | {"apply-to": "exchanges"})[0] == 201
    channel.exchange_declare("led")
    assert ask(managed, "GET", "/exchanges/%2F/led")[1]["policy"] == "leads"
    assert "policy" not in ask(managed, "GET", "/exchanges/%2F/amq.topic")[1]
    listed = {row["name"]: row.get("policy") for row in ask(managed, "GET", "/exchanges/%2F")[1]}
    assert (listed["led"], listed[""], listed["amq.fanout"]) == ("leads", None, None)
    guest = Person(managed.base)
    guest.log_in()
    assert "leads" in guest.get("/exchange?vhost=/&name=led").text
    assert ask(managed, "DELETE", "/policies/%2F/leads")[0] == 204
    channel.exchange_delete("led")


@pytest.mark.parametrize(("truncate", "shown"), [(3, "aü"), (2, "a"), (4, "aüb"), (9, "aüb")])
def test_a_text_that_is_cut_is_a_text(managed: Managed, truncate: int, shown: str) -> None:
    assert ask(managed, "PUT", "/queues/%2F/cut", {})[0] in (201, 204)
    body = {"routing_key": "cut", "payload": "aüb", "payload_encoding": "string", "properties": {}}
    assert ask(managed, "POST", "/exchanges/%2F/amq.default/publish", body)[0] == 200
    wanted = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    [row] = ask(managed, "POST", "/queues/%2F/cut/get", wanted | {"truncate": truncate})[1]
    assert (row["payload"], row["payload_encoding"], row["payload_bytes"]) == (shown, "string", 4)


def test_only_persistent_messages_are_called_so(tmp_path: Path) -> None:
    """What a restart loses is not among them, although its queue is durable."""
    options = ("--management", "--http-port", str(free_port()), "--metrics-port", "-1")
    with penstock_process(tmp_path, *options, data=tmp_path / "data") as broker:
        base = f"http://127.0.0.1:{options[2]}"
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        channel = connection.channel()
        channel.queue_declare("mixed", durable=True)
        channel.confirm_delivery()
        for mode in (1, 2, 1, 1):
            channel.basic_publish("", "mixed", b"abc", pika.BasicProperties(delivery_mode=mode))
        until(lambda: is_answering(int(options[2])), "the management process answers")
        row = call(base, "GET", "/queues/%2F/mixed", None, GUEST)[1]
        assert (row["messages"], row["messages_persistent"]) == (4, 1)
        assert row["message_bytes_persistent"] == row["message_bytes"] // 4
        connection.close()


def is_answering(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_client_that_goes_in_the_middle_of_its_body_is_no_fault_of_ours(tmp_path: Path) -> None:
    """Anybody may: the log has no traceback for it, which `penstock_process` looks for."""
    with managed_broker(tmp_path) as managed:
        login = base64.b64encode(GUEST.encode()).decode()
        for head in (
            f"PUT /api/queues/%2F/q HTTP/1.1\r\nAuthorization: Basic {login}\r\n",
            "POST /login HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n",
        ):
            with socket.create_connection(("127.0.0.1", managed.http_port), PATIENCE_S) as sock:
                sock.sendall(f"{head}Host: x\r\nContent-Length: 100\r\n\r\nhalf".encode())
                time.sleep(0.3)
        # It works on, and has done with those by now.
        assert ask(managed, "GET", "/whoami")[0] == 200
        assert ask(managed, "GET", "/queues/%2F/q")[0] == 404
