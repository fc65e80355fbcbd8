"""The HTTP API of a node that does not lead: it answers for the cluster, also after a failover."""

import json
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import OperatorError
from penstock.demo.cluster_rig import ClusterRig, find_etcd
from tests.cluster.load import await_true, command
from tests.conformance.live import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def served() -> Iterator[tuple[ClusterRig, dict[str, int]]]:
    """A cluster whose nodes serve HTTP, and their ports."""
    try:
        find_etcd("")
    except OperatorError as error:
        pytest.skip(str(error))
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    rig = ClusterRig(folder, port=free_port)
    ports = {}
    for name, node in rig.nodes.items():
        ports[name] = free_port()
        where = ("--http-port", str(ports[name]), "--metrics-port", "-1")
        node.options = ("--management", *where)
    try:
        rig.start_etcd()
        for name in rig.nodes:
            rig.start(name)
        rig.await_serving()
        rig.await_whole()
        yield rig, ports
    finally:
        rig.close()
        shutil.rmtree(folder, ignore_errors=True)


def asked(port: int, method: str, path: str, body: object = None) -> Any:
    """What the API says within a minute; it is asked again while it does not answer, or says that
    no broker does."""
    end = time.monotonic() + 60
    while True:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/api/{path}",
            None if body is None else json.dumps(body).encode(),
            {"authorization": "Basic " + b64encode(b"guest:guest").decode()},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                data = answer.read()
                return json.loads(data) if data else None
        except (urllib.error.URLError, OSError) as fault:
            if time.monotonic() > end:
                said = fault.read() if isinstance(fault, urllib.error.HTTPError) else fault
                raise AssertionError(f"{method} {path} of port {port}: {said!r}") from fault
            time.sleep(0.2)


def test_any_node_answers_and_writes_and_goes_on_after_a_failover(
    served: tuple[ClusterRig, dict[str, int]],
) -> None:
    rig, ports = served
    leader = rig.await_serving()
    other = next(name for name in rig.nodes if name != leader)
    port = ports[other]
    command(rig, other, "policies", "set", "ha", "^mirrored", '{"ha-mode": "all"}')
    asked(port, "PUT", "queues/%2F/mirrored", {"durable": True})
    message = {"routing_key": "mirrored", "payload": "one", "payload_encoding": "string"}
    said = asked(port, "POST", "exchanges/%2F/amq.default/publish", {**message, "properties": {}})
    assert said == {"routed": True}
    quorum = {"durable": True, "arguments": {"x-queue-type": "quorum"}}
    asked(port, "PUT", "queues/%2F/quorum", quorum)
    everybody = {f"penstock@{name}" for name in rig.nodes}
    row = asked(port, "GET", "queues/%2F/quorum")
    assert (row["leader"], set(row["members"])) == (f"penstock@{leader}", everybody)
    cluster = asked(port, "GET", "flow/cluster")
    lags = {one["name"]: one["lag_bytes"] for one in cluster["nodes"] if not one["is_leader"]}
    assert (cluster["leader"], len(lags)) == (leader, 2)
    assert min(lags.values()) >= 0, "the leader says how far they are"
    assert asked(port, "GET", "cluster-name") == {"name": "penstock"}
    rig.kill(leader)
    second = rig.await_serving(other_than=leader)
    living = everybody - {f"penstock@{leader}"}

    def is_seen() -> bool:
        row = asked(port, "GET", "queues/%2F/quorum")
        return row["leader"] == f"penstock@{second}" and set(row["online"]) == living

    await_true(is_seen, "the third node follows the second")
    assert asked(port, "GET", "flow/cluster")["leader"] == second
    # Dashboards are filtered by it: another leader is no other cluster.
    assert asked(port, "GET", "overview")["cluster_name"] == "penstock"
    running = {one["name"]: one["running"] for one in asked(port, "GET", "nodes")}
    assert running == {name: name in living for name in everybody}
    singly = {name: asked(port, "GET", f"nodes/{name}")["running"] for name in everybody}
    assert singly == running
    gone = f"nodes/penstock@{leader}/memory"
    assert asked(port, "GET", gone) == {"memory": "not_available"}
    assert asked(port, "GET", f"auth/attempts/penstock@{leader}") == []
    row = asked(port, "GET", "queues/%2F/mirrored")
    assert set(row["slave_nodes"]) == everybody - {f"penstock@{second}"}
    assert f"penstock@{leader}" not in row["synchronised_slave_nodes"]
    (found,) = asked(
        port,
        "POST",
        "queues/%2F/mirrored/get",
        {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"},
    )
    assert found["payload"] == "one", "it was not persistent, and is mirrored all the same"
