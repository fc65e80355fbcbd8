"""Tools that know RabbitMQ's HTTP API run unchanged: pyrabbit2, kombu's manager, the parser of
Prometheus, Flower, and rabbitmqadmin where Debian's package has brought it; and what Datadog, KEDA,
Telegraf, Terraform and kbudde's exporter ask for is answered with what they read."""

import base64
import json
import re
import socket
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from urllib.request import Request, urlopen

import pika
import pytest
from kombu import Connection  # type: ignore[attr-defined]
from prometheus_client.parser import text_string_to_metric_families

from tests.conformance.http_contract import call
from tests.conformance.http_live import Managed, managed_broker
from tests.conformance.http_readers import READERS, lacking
from tests.conformance.live import free_port
from tests.patience import PATIENCE_S, until

with warnings.catch_warnings():
    # Its docstrings have escapes that Python warns of when it compiles them for the first time.
    warnings.simplefilter("ignore")
    import pyrabbit.api  # noqa: F401  (what kombu's manager imports)
    from pyrabbit2.api import Client

GUEST: Final = "guest:guest"
RABBITMQADMIN: Final = sorted(Path("/usr/lib/rabbitmq").glob("**/priv/www/cli/rabbitmqadmin"))
HOSTILE: Final = "a/b%2F<script>alert(1)</script>\"'& ü?#"
"""A name that may break addresses, and pages that show it."""


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    with managed_broker(tmp_path_factory.mktemp("http")) as found:
        yield found


@pytest.fixture
def channel(managed: Managed) -> Iterator[Any]:
    parameters = pika.URLParameters(managed.broker.url)
    parameters.client_properties = {"connection_name": "web-7"}
    connection = pika.BlockingConnection(parameters)
    yield connection.channel()
    if connection.is_open:
        connection.close()


def get(managed: Managed, path: str, status: int = 200) -> Any:
    found, body, _ = call(managed.base, "GET", path, None, GUEST)
    assert found == status, body
    return body


def forget(managed: Managed) -> None:
    """A change over HTTP: what was listed a moment ago is listed anew."""
    body = {"password": "x", "tags": ""}
    assert call(managed.base, "PUT", "/users/fresh", body, GUEST)[0] in (201, 204)


def test_pyrabbit2(managed: Managed) -> None:
    client = Client(f"127.0.0.1:{managed.http_port}", "guest", "guest")
    assert client.is_alive()
    client.create_vhost("pr")
    client.set_vhost_permissions("pr", "guest", ".*", ".*", ".*")
    client.create_exchange("pr", "ex", "topic")
    client.create_queue("pr", "pq")
    client.create_binding("pr", "ex", "pq", "k.*")
    assert client.publish("pr", "ex", "k.1", "body") is True
    assert client.get_queue_depth("pr", "pq") == 1
    assert client.get_messages("pr", "pq", 1, True)[0]["payload"] == "body"
    assert [one["name"] for one in client.get_queues("pr")] == ["pq"]
    client.purge_queue("pr", "pq")
    assert client.get_queue_depth("pr", "pq") == 0
    client.create_user("u9", "secret", "management")
    assert {one["name"] for one in client.get_users()} >= {"guest", "u9"}
    client.delete_user("u9")
    client.delete_binding("pr", "ex", "pq", "k.%2A")
    client.delete_queue("pr", "pq")
    client.delete_exchange("pr", "ex")
    client.delete_vhost("pr")
    assert "pr" not in client.get_vhost_names()


def test_kombus_manager(managed: Managed) -> None:
    url = f"{managed.broker.url}"
    with Connection(url) as connection:  # type: ignore[no-untyped-call]
        manager = connection.get_manager(hostname="127.0.0.1", port=managed.http_port)
        assert manager.get_overview()["product_name"] == "Penstock"
        assert manager.get_all_vhosts()[0]["name"] == "/"
        for one in manager.http.client.connections.values():
            one.close()


def test_flower_shows_the_queues(managed: Managed, channel: Any, tmp_path: Path) -> None:
    """Flower as it comes from the package index, asked for its page about the broker."""
    channel.queue_declare("celery", durable=True)
    for _ in range(3):
        channel.basic_publish("", "celery", b"{}")
    port = free_port()
    words = ("--broker", managed.broker.url, "flower", f"--port={port}", "--address=127.0.0.1")
    api = f"--broker_api=http://guest:guest@127.0.0.1:{managed.http_port}/api/"
    command = [sys.executable, "-m", "celery", *words, api, "--inspect_timeout=200"]
    with (tmp_path / "flower.txt").open("wb") as log:
        flower = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
    shown: list[str] = []

    def is_shown() -> bool:
        # It waits for two seconds for the API, and shows nothing then; listings are a second old.
        assert flower.poll() is None, (tmp_path / "flower.txt").read_text()
        if is_listening(port):
            with urlopen(f"http://127.0.0.1:{port}/broker", timeout=PATIENCE_S) as answer:
                page = answer.read().decode()
            shown[:] = [
                " ".join(one.split()) for one in re.findall(r"<td.*?>(.*?)</td>", page, re.S)
            ]
        # Name, messages, unacknowledged, ready, consumers.
        return shown[:5] == ["celery", "3", "0", "3", "0"]

    try:
        until(is_shown, "Flower shows the queue", lambda: threading.Event().wait(0.3))
    finally:
        # How it ends is not asked, and once it did not heed SIGTERM for a minute.
        flower.kill()
        flower.wait(PATIENCE_S)
    channel.queue_delete("celery")


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.skipif(not RABBITMQADMIN, reason="Debian's rabbitmq-server is not installed")
def test_rabbitmqadmin(managed: Managed, tmp_path: Path) -> None:
    def run(*words: str) -> str:
        command = [sys.executable, str(RABBITMQADMIN[0]), "-P", str(managed.http_port), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("declare", "vhost", "name=ra")
    run("declare", "permission", "vhost=ra", "user=guest", "configure=.*", "write=.*", "read=.*")
    run("-V", "ra", "declare", "queue", "name=q", "durable=true")
    run("-V", "ra", "declare", "exchange", "name=e", "type=topic")
    run("-V", "ra", "declare", "binding", "source=e", "destination=q", "routing_key=a.#")
    assert "published" in run("-V", "ra", "publish", "exchange=e", "routing_key=a.b", "payload=hi")
    assert "hi" in run("-V", "ra", "get", "queue=q", "ackmode=ack_requeue_true")
    assert "| q    | 1 " in run("-V", "ra", "list", "queues", "name", "messages")
    run("-V", "ra", "declare", "policy", "name=p", "pattern=^q", 'definition={"max-length":5}')
    assert "max-length" in run("-V", "ra", "list", "policies")
    kept = tmp_path / "definitions.json"
    run("export", str(kept))
    assert {one["name"] for one in json.loads(kept.read_text())["queues"]} == {"q"}
    run("-V", "ra", "purge", "queue", "name=q")
    run("-V", "ra", "delete", "queue", "name=q")
    run("import", str(kept))
    assert "| q    | 0 " in run("-V", "ra", "list", "queues", "name", "messages")
    words = ("source=e", "destination_type=queue", "destination=q", "properties_key=a.%23")
    run("-V", "ra", "delete", "binding", *words)
    run("delete", "vhost", "name=ra")


READ: Final = {
    "/connections": (
        *("[].client_properties.connection_name", "[].user_provided_name", "[].connected_at"),
        *("[].peer_port", "[].flow.blocks", "[].ssl", "[].frame_max", "[].channel_max"),
        "[].timeout",
    ),
    "/channels": (
        *("[].number", "[].name", "[].consumer_count", "[].confirm", "[].prefetch_count"),
        *("[].messages_unconfirmed", "[].connection_details.name", "[].transactional"),
    ),
    "/consumers": (
        *("[].consumer_tag", "[].active", "[].activity_status", "[].ack_required"),
        *("[].queue.name", "[].channel_details.connection_name", "[].consumer_timeout"),
    ),
    "/queues": ("[].flow.blocked_share", "[].message_stats.get_empty", "[].message_stats.get"),
}
"""What strict readers and pages need beside what READERS have."""


@pytest.fixture
def read(channel: Any) -> Any:
    """A queue with a message and a consumer, so that every listing has rows."""
    channel.queue_declare("read", durable=True)
    channel.basic_publish("", "read", b"one")
    channel.basic_consume("read", lambda *_: None, consumer_tag="c1")
    yield channel
    channel.queue_delete("read")


@pytest.mark.parametrize("tool", READERS)
def test_what_a_tool_asks_for_and_reads_is_there(managed: Managed, read: Any, tool: str) -> None:
    wrong = []
    node = quote(get(managed, "/overview")["node"], safe="")
    for one in READERS[tool]:
        path = one.path.replace("NODE", node)
        status, found, _ = call(managed.base, one.method, path, one.body, GUEST)
        if status not in one.status:
            wrong.append(f"{one.method} {path}: {status} {found}")
        wrong += [f"{path}: {field}" for field in one.fields if lacking(field, found)]
    assert not wrong, "\n".join(wrong)


def test_what_strict_readers_need_is_there(managed: Managed, read: Any) -> None:
    for path, fields in READ.items():
        found = get(managed, path)
        assert not [field for field in fields if lacking(field, found)], path


def test_a_field_that_is_not_there_is_found_out() -> None:
    assert lacking("[].nothing", [{"name": "q"}]) and lacking("[].name", [])
    assert lacking("a.b", {"a": {}}) and not lacking("a.b?", {"a": {}})


def test_a_page_of_queues_by_pattern_as_keda_asks(managed: Managed, channel: Any) -> None:
    for number in range(30):
        channel.queue_declare(f"keda-{number:02}")
    forget(managed)
    query = "page=2&use_regex=true&pagination=false&page_size=7&name=%5Ekeda-%5B01%5D"
    found = get(managed, f"/queues/%2F?{query}")
    assert (found["filtered_count"], found["page_count"], found["item_count"]) == (20, 3, 7)
    assert [one["name"] for one in found["items"]] == [f"keda-{n:02}" for n in range(7, 14)]
    status, body, _ = call(managed.base, "GET", "/queues?page=1&use_regex=true&name=(", None, GUEST)
    assert status == 400 and "no regular expression" in body["reason"]


def test_nothing_that_is_listed_is_cut(managed: Managed, channel: Any) -> None:
    """More rows than one piece of an answer, and than one page of the control socket, has."""
    names = {f"many-{number:04}" for number in range(1201)}
    for name in sorted(names):
        channel.queue_declare(name, exclusive=True)
    forget(managed)
    assert {one["name"] for one in get(managed, "/queues/%2F")} >= names
    assert {one["destination"] for one in get(managed, "/bindings/%2F")} >= names
    found: list[str] = []
    for page in range(1, 5):
        answer = get(managed, f"/queues?page={page}&page_size=400&name=many-")
        assert (answer["filtered_count"], answer["page_count"]) == (1201, 4)
        found += [one["name"] for one in answer["items"]]
    assert found == sorted(names)
    hops, after = [], ""
    while True:
        answer = get(managed, f"/flow/edges?limit=1&sort=name&after={quote(after)}")
        hops += answer["edges"]
        after = answer["next"]
        if not after:
            break
    assert len(hops) == answer["total"] >= 1


def test_a_hostile_name_goes_through_every_verb(managed: Managed) -> None:
    name = quote(HOSTILE, safe="")
    assert call(managed.base, "PUT", f"/queues/%2F/{name}", {}, GUEST)[0] == 201
    assert get(managed, f"/queues/%2F/{name}")["name"] == HOSTILE
    body = {"routing_key": HOSTILE, "payload": "x", "payload_encoding": "string", "properties": {}}
    assert call(managed.base, "POST", "/exchanges/%2F/amq.default/publish", body, GUEST)[1] == {
        "routed": True
    }
    wanted = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert (
        call(managed.base, "POST", f"/queues/%2F/{name}/get", wanted, GUEST)[1][0]["payload"] == "x"
    )
    assert call(managed.base, "DELETE", f"/queues/%2F/{name}", None, GUEST)[0] == 204


def test_a_form_that_is_too_large_is_refused_before_it_is_read(managed: Managed) -> None:
    login = base64.b64encode(GUEST.encode()).decode()
    head = (
        "POST /api/definitions HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b"
        f"\r\nAuthorization: Basic {login}\r\nContent-Length: {1 << 40}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", managed.http_port), PATIENCE_S) as sock:
        sock.sendall(head.encode())
        assert b" 413 " in sock.recv(100)
    found = {"queues": [{"name": "sent", "vhost": "/", "durable": True, "auto_delete": False}]}
    part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    body = part + json.dumps(found).encode() + b"\r\n--b--\r\n"
    asked = Request(f"{managed.base}/api/definitions", body, method="POST")
    asked.add_header("Authorization", f"Basic {login}")
    asked.add_header("Content-Type", "multipart/form-data; boundary=b")
    with urlopen(asked, timeout=PATIENCE_S) as answer:
        assert answer.status == 204
    assert get(managed, "/queues/%2F/sent")["durable"] is True


def test_an_operator_closes_a_connection_with_a_reason(managed: Managed, channel: Any) -> None:
    [row] = [one for one in get(managed, "/connections") if one["user_provided_name"] == "web-7"]
    path = f"/connections/{quote(row['name'], safe='')}"
    assert get(managed, path)["peer_port"] == row["peer_port"]
    closing = threading.Thread(target=lambda: call(managed.base, "DELETE", path, None, GUEST))
    closing.start()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        channel.connection.process_data_events(30)
    closing.join()
    assert closed.value.reply_code == 320


def test_why_over_http_names_who_is_asked_about(managed: Managed, channel: Any) -> None:
    channel.queue_declare("why")
    channel.basic_publish("", "why", b"one")
    found = get(managed, "/flow/why/connection/web-7")
    assert "web-7" in found["text"]
    assert get(managed, "/flow/edges")["total"] >= 2
    assert call(managed.base, "GET", "/flow/why/nothing", None, GUEST)[0] == 400


def families(address: str) -> dict[str, Any]:
    with urlopen(address, timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        text = answer.read().decode()
    return {one.name: one for one in text_string_to_metric_families(text)}


def test_metrics_of_the_dashboard_count_what_clients_did(managed: Managed, channel: Any) -> None:
    forget(managed)
    before = families(managed.metrics)
    types = {
        one.labels["queue_type"] for one in before["rabbitmq_global_messages_delivered"].samples
    }
    assert types == {"rabbit_classic_queue", "rabbit_quorum_queue", "rabbit_stream_queue"}
    channel.queue_declare("metrics")
    channel.confirm_delivery()
    for _ in range(10):
        channel.basic_publish("", "metrics", b"x")
    channel.basic_publish("", "nowhere", b"x")
    got = [channel.basic_get("metrics", auto_ack=True)[0] for _ in range(4)]
    assert len(got) == 4
    channel.queue_delete("metrics")
    channel.connection.close()

    def told(name: str, found: dict[str, Any]) -> float:
        samples = [one for one in found[name].samples if one.name.endswith("_total")]
        return float(sum(one.value for one in samples))

    # What has ended counts on: counters never fall. Listings are those of a second ago at most.
    deadline = threading.Event()
    for _ in range(100):
        after = families(managed.metrics)
        if told("rabbitmq_channels_closed", after) > told("rabbitmq_channels_closed", before):
            break
        deadline.wait(0.1)
    grown = {
        name: told(f"rabbitmq_global_messages_{name}", after)
        - told(f"rabbitmq_global_messages_{name}", before)
        for name in ("received", "confirmed", "routed", "delivered", "unroutable_dropped")
    }
    assert grown == {
        "received": 11.0,
        "confirmed": 11.0,
        "routed": 10.0,
        "delivered": 4.0,
        "unroutable_dropped": 1.0,
    }


def test_metrics_of_objects(managed: Managed, channel: Any) -> None:
    channel.queue_declare("per-object")
    found = families(f"{managed.metrics}/detailed?family=queue_coarse_metrics&vhost=/")
    queues = {
        one.labels["queue"] for one in found["rabbitmq_detailed_queue_messages_ready"].samples
    }
    assert "per-object" in queues
    assert "rabbitmq_queue_consumers" in families(f"{managed.metrics}/per-object")
    assert "penstock_flow_edge_blocked_seconds" in families(f"{managed.metrics}/flow")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/per-object",
        "/flow",
        "/detailed?family=queue_coarse_metrics&family=queue_coarse_metrics&vhost=/&vhost=m2",
        "/detailed?family=connection_coarse_metrics&vhost=/&vhost=m2",
    ],
)
def test_every_metric_comes_once(managed: Managed, channel: Any, path: str) -> None:
    """Go's parser of the format, which Prometheus' tools and Telegraf have, refuses a page in which
    the type of a name is told twice; and a sum beside its parts counts twice."""
    assert call(managed.base, "PUT", "/vhosts/m2", {}, GUEST)[0] in (201, 204)
    assert call(managed.base, "PUT", "/queues/m2/q", {}, GUEST)[0] in (201, 204)
    channel.queue_declare("once")
    forget(managed)
    with urlopen(managed.metrics + path, timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    types = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    assert [name for name, count in Counter(types).items() if count > 1] == []
    series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert [name for name, count in Counter(series).items() if count > 1] == []


def test_a_sum_of_what_each_queue_has_is_what_they_have(managed: Managed, channel: Any) -> None:
    channel.queue_declare("summed")
    for _ in range(3):
        channel.basic_publish("", "summed", b"x")
    until(lambda: channel.queue_declare("summed", passive=True).method.message_count == 3, "three")
    forget(managed)
    all_of_them = families(managed.metrics)["rabbitmq_queue_messages_ready"].samples[0].value
    each = families(f"{managed.metrics}/per-object")["rabbitmq_queue_messages_ready"].samples
    assert all("queue" in one.labels for one in each)
    assert sum(one.value for one in each) == all_of_them


def test_a_virtual_host_that_is_gone_takes_no_other_one_s_metrics(managed: Managed) -> None:
    assert call(managed.base, "PUT", "/queues/%2F/kept", {}, GUEST)[0] in (201, 204)
    found = families(f"{managed.metrics}/detailed?family=queue_coarse_metrics&vhost=/&vhost=gone")
    samples = found["rabbitmq_detailed_queue_messages_ready"].samples
    assert "kept" in {one.labels["queue"] for one in samples}
    # As in RabbitMQ: dashboards join the others with it.
    assert found["rabbitmq_identity_info"].samples[0].labels["rabbitmq_endpoint"] == "detailed"


def test_the_api_outlives_its_process_and_ends_with_the_broker(tmp_path: Path) -> None:
    import psutil

    with managed_broker(tmp_path) as managed:
        [child] = psutil.Process(managed.broker.pid).children()
        child.kill()
        pause = threading.Event()
        for _ in range(300):
            try:
                assert get(managed, "/whoami")["name"] == "guest"
                break
            except OSError:
                pause.wait(0.1)
        else:
            raise AssertionError("it was not started anew")
        [other] = psutil.Process(managed.broker.pid).children()
        assert other.pid != child.pid
    other.wait(30)
