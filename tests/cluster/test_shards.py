"""Nodes with two workers each: virtual hosts are led by different nodes, and fail one by one."""

import json
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError

import pika
import psutil
import pytest

from penstock.base.errors import OperatorError
from penstock.broker.session.passwords import SHA256, hash_password
from penstock.demo.cluster_rig import ClusterRig, find_etcd
from penstock.server.control.control_client import ask
from penstock.server.shards.spreading import LOOK_S, REST_S
from tests.cluster.load import await_true, command, load
from tests.conformance.live import free_port
from tests.patience import until

pytestmark = pytest.mark.slow

TLS_PORTS: Final[dict[str, int]] = {}
HTTP_PORTS: Final[dict[str, int]] = {}
"""Of the nodes of the cluster that all tests share."""
DURABLE: Final = pika.BasicProperties(delivery_mode=2)
LASTING_S: Final = 3.0
"""What a virtual host may be without a confirm while another one's leader is killed: a machine that
does much else at once needs some of it."""


@pytest.fixture(scope="module")
def shards() -> Iterator[ClusterRig]:
    """Three nodes with two workers each; virtual host `/` is at the first, `one` at the second."""
    try:
        find_etcd("")
    except OperatorError as error:
        pytest.skip(str(error))
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    rig = ClusterRig(folder, port=free_port, cores=2)
    try:
        certificates = folder / "certificates"
        for name, node in rig.nodes.items():
            pair = (certificates / f"{name}.pem", certificates / f"{name}.key")
            TLS_PORTS[name] = free_port()
            node.options = (
                *("--tls-port", str(TLS_PORTS[name])),
                *("--tls-cert", str(pair[0]), "--tls-key", str(pair[1])),
            )
        HTTP_PORTS["c"] = free_port()
        management = ("--http-port", str(HTTP_PORTS["c"]), "--metrics-port", "-1")
        rig.nodes["c"].options += ("--management", *management)
        rig.start_etcd()
        # Whoever is alone leads both.
        rig.start("a")
        assert rig.await_shards() == ["a", "a"]
        rig.start("b")
        rig.start("c")
        await_true(lambda: len({*rig.shard_leaders()} - {""}) == 2, "leaders are spread")
        rig.await_shards()
        command(rig, "a", "vhosts", "add", "one")
        command(rig, "b", "permissions", "set", "guest", ".*", ".*", ".*", "--vhost", "one")
        await_true(lambda: all(is_known(rig, name, "one") for name in rig.nodes), "one is known")
        yield rig
    finally:
        rig.close()
        shutil.rmtree(folder, ignore_errors=True)


def is_known(rig: ClusterRig, name: str, vhost: str) -> bool:
    return any(row["name"] == vhost for row in vhosts_of(rig, name))


def vhosts_of(rig: ClusterRig, name: str) -> list[dict[str, object]]:
    answer = rig.ask_broker(name, {"op": "objects", "do": "vhosts"})
    found = answer["items"]
    assert isinstance(found, list)
    return found


def connected(rig: ClusterRig, name: str, vhost: str) -> pika.BlockingConnection:
    return pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", rig.nodes[name].port, vhost, heartbeat=20)
    )


def spread(rig: ClusterRig) -> tuple[str, str]:
    """Different nodes lead the two shards when it returns."""
    leaders = rig.await_shards()
    if leaders[0] == leaders[1]:
        other = next(name for name in rig.nodes if name != leaders[0])
        rig.ask(other, {"op": "cluster_move", "name": other, "shard": 1})
        await_true(lambda: len(set(rig.shard_leaders())) == 2, "the shards have two leaders")
        leaders = rig.await_shards()
    return leaders[0], leaders[1]


def test_leaders_of_a_new_cluster_are_spread_once(shards: ClusterRig) -> None:
    """Those of a cluster that is used are moved by an operator."""
    logs = [node.log.read_text() for node in shards.nodes.values()]
    assert [log.count("is to lead shard 1: leaders of a new cluster") for log in logs] == [1, 0, 0]
    first, second = spread(shards)
    shards.stop(second)
    await_others(shards, second)
    shards.start(second)
    leaders = shards.await_shards()
    # With two nodes one may have led both, and keeps them.
    time.sleep(2 * LOOK_S + REST_S)
    assert shards.shard_leaders() == leaders
    assert good(shards, first, "move", first)
    time.sleep(2 * LOOK_S + REST_S)
    assert shards.shard_leaders() == [first, first]
    shards.await_shards()


def test_any_node_takes_clients_for_any_virtual_host(shards: ClusterRig) -> None:
    spread(shards)
    # Whichever process of a node accepts it: each of some.
    for turn in range(4):
        for name in shards.nodes:
            for vhost in ("/", "one"):
                with connected(shards, name, vhost) as connection:
                    channel = connection.channel()
                    channel.confirm_delivery()
                    channel.queue_declare("any", durable=True)
                    channel.basic_publish("", "any", b"%d" % turn, DURABLE)
    for vhost in ("/", "one"):
        with connected(shards, "a", vhost) as connection:
            channel = connection.channel()
            assert channel.queue_delete("any").method.message_count == 12


def test_a_virtual_host_that_there_is_not_is_refused_anywhere(shards: ClusterRig) -> None:
    for name in shards.nodes:
        for _ in range(3):
            with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="530"):
                connected(shards, name, "none")


def test_a_node_that_is_killed_takes_one_virtual_host_with_it(shards: ClusterRig) -> None:
    """Nothing that was confirmed is lost, and the other one goes on."""
    first, second = spread(shards)
    third = next(name for name in shards.nodes if name not in (first, second))
    with (
        load(shards, "goes-on", at=third) as goes_on,
        load(shards, "fails-over", vhost="one", at=third) as fails_over,
        load(shards, "handed", vhost="one", at=first) as handed,
    ):
        killed_at = goes_on.publisher.now()
        shards.kill(second)
        await_true(
            lambda: shards.shard_leaders()[1] not in ("", second), "another node leads shard 1"
        )
        goes_on.await_confirms(200)
        fails_over.await_confirms(50)
        handed.await_confirms(50)
        gap_s = goes_on.publisher.longest_gap_s(killed_at)
        other_s = fails_over.publisher.longest_gap_s(killed_at)
        print(f"without a confirm: {gap_s:.2f} s, and {other_s:.2f} s of the one that failed over")
        shards.start(second)
        shards.await_shards()
        assert gap_s < LASTING_S
        assert goes_on.publisher.connections == 1, "its publisher has not noticed"
        assert fails_over.publisher.connections == 1, "it was kept by its node"
        assert handed.publisher.connections == 1, "also by one that leads another shard"


def good(rig: ClusterRig, name: str, *words: str) -> str:
    """What `penstock cluster …` prints."""
    return command(rig, name, "cluster", *words)


def refused(rig: ClusterRig, name: str, *words: str) -> str:
    with pytest.raises(subprocess.CalledProcessError) as found:
        command(rig, name, *words)
    return str(found.value.stderr)


def test_leaders_are_spread_and_moved_and_nodes_drained(shards: ClusterRig) -> None:
    leaders = shards.await_shards()
    one = leaders[0]
    other = next(name for name in shards.nodes if name != one)
    assert good(shards, other, "move", one).splitlines() == [
        f"node {one} leads shard 0",
        f"node {one} leads shard 1",
    ]
    shards.await_shards()
    assert " leads shard " in good(shards, other, "rebalance")
    first, second = shards.await_shards()
    assert first != second
    assert "nothing is moved" in good(shards, one, "rebalance")
    assert good(shards, one, "move", first, "--vhost", "one") == f"node {first} leads shard 1\n"
    third = next(name for name in shards.nodes if name not in (first, second))
    shards.await_shards()
    assert good(shards, one, "move", third, "--shard", "0") == f"node {third} leads shard 0\n"
    shards.await_shards()
    said = good(shards, second, "status")
    for number, leader, vhost in ((0, third, "/"), (1, first, "one")):
        assert f"node {leader} leads   virtual hosts: {vhost}" in said, said
        assert f"shard {number} " in said
    # How far each is the leaders say, whichever node is asked.
    assert said.count("leader") == 2 and " - " not in said, said
    said = good(shards, second, "drain", third)
    assert f"node {third} may be stopped" in said and "leads shard 0" in said
    assert third not in shards.shard_leaders()
    assert "no vhost 'two'" in refused(shards, one, "cluster", "move", one, "--vhost", "two")
    assert "leads shard" in refused(shards, one, "cluster", "forget", "--force", first)
    shards.await_shards()


def test_commands_answer_for_all_shards_at_any_node(shards: ClusterRig) -> None:
    spread(shards)
    for vhost in ("/", "one"):
        with connected(shards, "c", vhost) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("listed", durable=True)
            channel.basic_publish("", "listed", b"x", DURABLE)
    for name in shards.nodes:
        listed = json.loads(command(shards, name, "queues", "--format", "json"))["queues"]
        assert [row["name"] for row in listed if "listed" in row["name"]] == [
            "/listed",
            "one/listed",
        ]
    hashed = {"password_hash": hash_password("secret", b"1234"), "hashing_algorithm": SHA256}
    shards.ask_broker("b", {"op": "users", "do": "add", "name": "ada", "tags": [], **hashed})
    for name, vhost in (("a", "/"), ("c", "one")):
        command(shards, name, "permissions", "set", "ada", ".*", ".*", ".*", "--vhost", vhost)
        login = pika.PlainCredentials("ada", "secret")
        where = pika.ConnectionParameters("127.0.0.1", shards.nodes[name].port, vhost, login)
        pika.BlockingConnection(where).close()
    assert json.loads(command(shards, "a", "definitions", "export"))["users"]
    command(shards, "c", "users", "delete", "ada")
    for vhost in ("/", "one"):
        with connected(shards, "a", vhost) as connection:
            connection.channel().queue_delete("listed")
    command(shards, "a", "vhosts", "add", "new")
    # Every node knows of it when the command has ended.
    command(shards, "b", "permissions", "set", "guest", ".*", ".*", ".*", "--vhost", "new")
    for name in shards.nodes:
        connected(shards, name, "new").close()
    command(shards, "c", "vhosts", "delete", "new", "--yes")


def setting_of(rig: ClusterRig, name: str, shard: int, key: str) -> str:
    """As the broker that leads that shard has it, asked at any node."""
    path = rig.sockets / f"penstock-{rig.nodes[name].port}-worker-{shard}.sock"
    rows = ask(str(path), {"op": "flow", "do": "settings"})["settings"]
    assert isinstance(rows, list)
    return next(str(row["value"]) for row in rows if row["key"] == key)


def test_a_setting_that_was_changed_is_in_force_wherever_a_broker_begins(
    shards: ClusterRig,
) -> None:
    """Changed at a node that never leads, and once more at another one."""
    first, second = spread(shards)
    third = next(name for name in shards.nodes if name not in (first, second))
    command(shards, third, "flow", "set", "credit.watchdog=7s")
    for shard in (0, 1):
        assert setting_of(shards, first, shard, "credit.watchdog") == "7s"
    good(shards, third, "move", second, "--shard", "0")

    def has(shard: int, value: str) -> Callable[[], bool]:
        return lambda: setting_of(shards, third, shard, "credit.watchdog") == value

    await_true(has(0, "7s"), "another node's broker has it")
    command(shards, first, "flow", "set", "credit.watchdog=9s")
    assert shards.stop(second) == 0
    await_others(shards, second)
    for shard in (0, 1):
        await_true(has(shard, "9s"), "and those after it what was said last")
    shards.start(second)
    shards.await_shards()
    good(shards, third, "move", second)
    for shard in (0, 1):
        await_true(has(shard, "9s"), "a node that was started again as well")
    command(shards, third, "flow", "set", "credit.watchdog=2s")


def test_what_a_person_publishes_at_any_node_arrives(shards: ClusterRig) -> None:
    """Over the control socket, which needs no login, so it cannot be said again either."""
    spread(shards)
    for vhost in ("/", "one"):
        for name in shards.nodes:
            command(shards, name, "queues", "declare", "typed", "--vhost", vhost)
            command(shards, name, "queues", "publish", "typed", name, "--vhost", vhost)
        words = ("queues", "get", "typed", "-n", "3", "--vhost", vhost, "--format", "json")
        got = json.loads(command(shards, "b", *words))["messages"]
        assert [one["payload"] for one in got] == list(shards.nodes)
        command(shards, "c", "queues", "delete", "typed", "--if-empty", "--yes", "--vhost", vhost)


def test_clients_by_tls_come_to_their_virtual_host(shards: ClusterRig) -> None:
    """At members, which end it, and at brokers, which relay it or are right at once."""
    spread(shards)
    context = ssl.create_default_context(cafile=str(shards.folder / "certificates" / "ca.pem"))
    context.check_hostname = False
    for turn in range(3):
        for name in shards.nodes:
            for vhost in ("/", "one"):
                where = pika.ConnectionParameters(
                    "127.0.0.1", TLS_PORTS[name], vhost, ssl_options=pika.SSLOptions(context)
                )
                with pika.BlockingConnection(where) as connection:
                    channel = connection.channel()
                    channel.confirm_delivery()
                    channel.queue_declare("safe", durable=True)
                    channel.basic_publish("", "safe", b"%d" % turn * 1000, DURABLE)
    for vhost in ("/", "one"):
        with connected(shards, "b", vhost) as connection:
            assert connection.channel().queue_delete("safe").method.message_count == 9


def http(path: str, method: str = "GET") -> Any:
    """What node c says."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{HTTP_PORTS['c']}/{path}",
        headers={"authorization": "Basic " + b64encode(b"guest:guest").decode()},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def serves_http() -> bool:
    try:
        return b"rabbitmq_version" in http("api/overview")
    except OSError:
        return False


def test_http_and_pages_are_of_all_shards(shards: ClusterRig) -> None:
    spread(shards)
    for vhost in ("/", "one"):
        with connected(shards, "a", vhost) as connection:
            connection.channel().queue_declare("seen", durable=True)
    until(serves_http, "node c serves HTTP")
    rows = json.loads(http("api/queues"))
    assert {(row["vhost"], row["name"]) for row in rows} >= {("/", "seen"), ("one", "seen")}
    for vhost in ("%2F", "one"):
        assert json.loads(http(f"api/aliveness-test/{vhost}"))["status"] == "ok"
        assert json.loads(http(f"api/queues/{vhost}/seen"))["name"] == "seen"
        http(f"api/queues/{vhost}/seen", "DELETE")
    cluster = json.loads(http("api/flow/cluster"))
    assert [one["vhosts"] for one in cluster["shards"]] == [["/"], ["one"]]
    with connected(shards, "a", "one") as connection:
        assert not {row["name"] for row in json.loads(http("api/queues"))} & {"seen"}
        assert connection.is_open


def is_critical() -> bool:
    """By the health check that rolling upgrades and Kubernetes ask."""
    try:
        http("api/health/checks/node-is-quorum-critical")
    except HTTPError as error:
        return error.code == 503
    return False


def test_one_shard_that_may_lose_no_node_makes_the_cluster_critical(shards: ClusterRig) -> None:
    _, second = spread(shards)
    until(serves_http, "node c serves HTTP")
    await_true(lambda: not is_critical(), "every shard may lose one")
    other = next(name for name in shards.nodes if name not in (second, "c"))
    member = shards.members(other)[1]
    member.suspend()
    try:
        await_true(is_critical, "shard 1 has two of three")
        said = good(shards, "c", "status")
        assert said.count("node-is-quorum-critical") == 1, said
    finally:
        member.resume()
    shards.await_shards()
    await_true(lambda: not is_critical(), "it has three again")


def test_a_member_that_is_killed_is_started_again(shards: ClusterRig) -> None:
    first, second = spread(shards)
    with load(shards, "undisturbed", at=first) as goes_on:
        process = shards.nodes[second].process
        assert process is not None
        parent = psutil.Process(process.pid)
        members = [one for one in parent.children() if "shard_child" in " ".join(one.cmdline())]
        killed_at = goes_on.publisher.now()
        members[1].kill()
        await_true(lambda: shards.shard_leaders()[1] not in ("", second), "another node leads")
        goes_on.await_confirms(100)
        assert goes_on.publisher.longest_gap_s(killed_at) < LASTING_S
        shards.await_shards()
    assert "worker 1 is there again" in shards.nodes[second].log.read_text()


def test_a_member_that_stands_still_does_not_close_its_node(shards: ClusterRig) -> None:
    """Nor does its broker, to whom the other member leaves the clients of this node; those for the
    member's own virtual host are passed on to the next leader of it."""
    _, second = spread(shards)
    process = shards.nodes[second].process
    assert process is not None
    children = psutil.Process(process.pid).children()
    member = [one for one in children if "shard_child" in " ".join(one.cmdline())][1]
    still = [member, *member.children()]
    for one in still:
        one.suspend()
    try:
        for _ in range(3):
            connected(shards, second, "/").close()
        with connected(shards, second, "one") as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("passed-on", durable=True)
            channel.basic_publish("", "passed-on", b"x", DURABLE)
    finally:
        for one in still:
            with suppress(psutil.NoSuchProcess):
                one.resume()
    shards.await_shards()
    with connected(shards, second, "one") as connection:
        assert connection.channel().queue_delete("passed-on").method.message_count == 1


def test_clients_for_a_member_that_stands_still_are_taken_by_another(shards: ClusterRig) -> None:
    """Where a broker of another virtual host serves, who has heard them, and cannot know of it."""
    first, second = spread(shards)
    process = shards.nodes[first].process
    assert process is not None
    member = shards.members(first)[1]
    still = [member, *member.children()]
    for one in still:
        one.suspend()
    try:
        with connected(shards, first, "one") as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("covered", durable=True)
            channel.basic_publish("", "covered", b"x", DURABLE)
    finally:
        for one in still:
            one.resume()
    shards.await_shards()
    with connected(shards, first, "one") as connection:
        assert connection.channel().queue_delete("covered").method.message_count == 1
    assert shards.shard_leaders() == [first, second]


def await_others(rig: ClusterRig, name: str) -> None:
    """Until other nodes than this one lead both shards."""
    await_true(lambda: {*rig.shard_leaders()}.isdisjoint({"", name}), "others lead")


def test_nodes_are_stopped_and_started_in_order(shards: ClusterRig) -> None:
    spread(shards)
    with load(shards, "rolling") as one, load(shards, "rolling-too", vhost="one") as two:
        for name in list(shards.nodes):
            assert shards.stop(name) == 0
            await_others(shards, name)
            one.await_confirms(20)
            two.await_confirms(20)
            shards.start(name)
            shards.await_shards()
