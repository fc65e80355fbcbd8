"""`penstock serve --cores 2` as a stranger uses it: one port, virtual hosts at two workers."""

import gc
import http.client
import os
import re
import signal
import socket
import subprocess
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pika
import pytest

from penstock.base.errors import OperatorError
from penstock.base.limits import KEPT_SETTINGS
from penstock.cli.connections import connections
from penstock.cli.permissions import permissions
from penstock.cli.queues import queues
from penstock.cli.status import status
from penstock.cli.users import users
from penstock.cli.vhosts import vhosts
from penstock.server.control.control_client import ask
from tests.patience import PATIENCE_S, until
from tests.unit.cli.broker_process import ENVIRONMENT, PENSTOCK, BrokerProcess

GUEST = "Basic Z3Vlc3Q6Z3Vlc3Q="
DURABLE = pika.BasicProperties(delivery_mode=2)


@dataclass(frozen=True, slots=True)
class Cores:
    """workers: their processes, by number; parent: the process that was started."""

    broker: BrokerProcess
    workers: dict[int, int]
    parent: "subprocess.Popen[str]"

    def put(self, vhost: str, queue: str, *bodies: bytes) -> None:
        """Into a durable queue, confirmed."""
        with self.broker.connect(vhost) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare(queue, durable=True)
            for body in bodies:
                channel.basic_publish("", queue, body, DURABLE)

    def take(self, vhost: str, queue: str) -> list[bytes]:
        """All there is in a queue."""
        found: list[bytes] = []
        with self.broker.connect(vhost) as connection:
            channel = connection.channel()
            while (one := channel.basic_get(queue, auto_ack=True))[0] is not None:
                found.append(one[2])
        return found

    def names(self, question: dict[str, object], rows: str, field: str) -> list[str]:
        answer = ask(self.broker.control, question)
        listed = answer[rows]
        assert isinstance(listed, list)
        return [row[field] for row in listed]


@contextmanager
def cores(directory: Path, *options: str, count: int = 2) -> Iterator[Cores]:
    control = str(directory / "control.sock")
    words = ["serve", "--cores", str(count), "--port", "0", "--control", control, *options]
    with subprocess.Popen(
        [*PENSTOCK, *words], stdout=subprocess.PIPE, text=True, encoding="utf-8", env=ENVIRONMENT
    ) as process:
        try:
            assert process.stdout is not None
            port = 0
            workers: dict[int, int] = {}
            while len(workers) < count:
                line = process.stdout.readline()
                assert line, "it has ended while it was starting"
                if found := re.search(r"amqp://127.0.0.1:(\d+)", line):
                    port = int(found[1])
                if found := re.search(r"worker (\d+) pid (\d+)", line):
                    workers[int(found[1])] = int(found[2])
            yield Cores(BrokerProcess(port, control), workers, process)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cores]:
    """Two workers in memory, with a virtual host at each."""
    with cores(tmp_path_factory.mktemp("cores"), "--memory") as found:
        assert found.broker.said(vhosts, "add", options=("tenant",)).status == 0
        yield found


def test_clients_of_both_virtual_hosts_come_to_one_port(pair: Cores) -> None:
    for _ in range(4):
        # Either worker may accept; both ways are taken.
        pair.put("/", "here", b"1")
        pair.put("tenant", "there", b"2", b"3")
    assert pair.take("/", "here") == [b"1"] * 4
    assert pair.take("tenant", "there") == [b"2", b"3"] * 4


def test_commands_see_one_broker(pair: Cores) -> None:
    pair.put("/", "one", b"1")
    pair.put("tenant", "two", b"1", b"2")
    listed = pair.broker.said(queues, "list")
    assert listed.status == 0
    assert "one" in listed.out and "tenant/two" in listed.out
    names = pair.names({"op": "queues", "do": "list"}, "queues", "name")
    assert {"/one", "tenant/two"} <= set(names)
    with pair.broker.connect("/", "at-home"), pair.broker.connect("tenant", "away"):
        said = pair.broker.said(connections, "list").out
        assert "at-home" in said and "away" in said
        told = ask(pair.broker.control, {"op": "status"})
        counts = told["connections"]
        assert isinstance(counts, dict) and sum(counts.values()) == 2
    said = pair.broker.said(status).out
    assert f"worker 0     pid {pair.workers[0]}, " in said and "virtual hosts: /\n" in said
    assert f"worker 1     pid {pair.workers[1]}, " in said and "virtual hosts: tenant\n" in said
    assert pair.names({"op": "vhosts", "do": "list"}, "vhosts", "name") == ["/", "tenant"]


def test_a_user_is_known_to_both_workers(pair: Cores) -> None:
    broker = pair.broker
    added = broker.said(users, "add", options=("app", "secret"))
    assert added.status == 0, added
    for vhost in ("/", "tenant"):
        allowed = broker.said(
            permissions,
            "set",
            options=("app", ".*", ".*", ".*", "--vhost", vhost),
        )
        assert allowed.status == 0, allowed
        login = pika.PlainCredentials("app", "secret")
        where = pika.ConnectionParameters("127.0.0.1", broker.port, vhost, credentials=login)
        with pika.BlockingConnection(where) as connection:
            connection.channel().queue_declare("of-app")
    assert broker.said(users, "delete", options=("app",)).status == 0
    for vhost in ("/", "tenant"):
        where = pika.ConnectionParameters("127.0.0.1", broker.port, vhost, credentials=login)
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            pika.BlockingConnection(where)


def test_why_names_who_waits_at_another_worker(pair: Cores) -> None:
    pair.put("tenant", "no-reader", b"1")
    said = pair.broker.said(queues, "show", options=("no-reader", "--vhost", "tenant"))
    assert said.status == 0 and "no-reader" in said.out


def test_a_virtual_host_that_there_is_not_is_refused_as_ever(pair: Cores) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="530"):
        pair.broker.connect("nowhere")


def test_what_is_kept_comes_back_at_its_worker(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with cores(tmp_path, "--data", data) as first:
        first.broker.said(vhosts, "add", options=("tenant",))
        first.broker.said(users, "add", options=("app", "secret"))
        first.put("/", "here", b"1")
        first.put("tenant", "there", b"2")
    with cores(tmp_path, "--data", data, count=3) as again:
        assert again.take("/", "here") == [b"1"]
        assert again.take("tenant", "there") == [b"2"]
        assert "app" in again.names({"op": "users", "do": "list"}, "users", "name")
    alone = subprocess.run(
        [*PENSTOCK, "serve", "--port", "0", "--data", data],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=ENVIRONMENT,
    )
    assert alone.returncode == 2
    assert "virtual host 'tenant' would be missing: start it with --cores 2" in alone.stderr


def test_a_worker_that_is_killed_comes_back_and_others_go_on(tmp_path: Path) -> None:
    with cores(tmp_path, "--data", str(tmp_path / "data")) as found:
        found.broker.said(vhosts, "add", options=("tenant",))
        found.put("tenant", "there", b"kept")
        with found.broker.connect("/") as connection:
            channel = connection.channel()
            channel.queue_declare("here")
            os.kill(found.workers[1], signal.SIGKILL)
            until(lambda: _is_open(found, "tenant"), "worker 1 serves again")
            # Nobody has noticed.
            channel.basic_publish("", "here", b"1")
            assert channel.basic_get("here", auto_ack=True)[2] == b"1"
        assert found.take("tenant", "there") == [b"kept"]


def _is_open(found: Cores, vhost: str) -> bool:
    try:
        found.broker.connect(vhost).close()
    except pika.exceptions.AMQPError:
        return False
    return True


def test_over_http_a_listing_says_whose_part_it_lacks(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    options = ("--management", "--http-port", port, "--metrics-port", "-1")
    with cores(tmp_path, "--memory", *options) as found:
        until(lambda: _lacking(port) == "", "HTTP is served")
        os.kill(found.workers[1], signal.SIGKILL)
        until(
            lambda: (_lacking(port) or "").startswith("worker 1: "), "it says that worker 1 is away"
        )
        until(lambda: _lacking(port) == "", "worker 1 is back")


def _lacking(port: str) -> str | None:
    """What the listing of queues says that it lacks; None when there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE_S)
    try:
        connection.request("GET", "/api/queues", headers={"Authorization": GUEST})
        answer = connection.getresponse()
        return answer.getheader("x-penstock-missing", "") if answer.status == 200 else None
    except OSError:
        return None
    finally:
        connection.close()


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    with cores(tmp_path, "--memory") as found:
        found.parent.kill()
        for pid in found.workers.values():
            until(partial(_has_ended, pid), f"process {pid} has ended")


def test_sighup_reaches_every_worker(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('memory_high = "1GB"\n')
    with cores(tmp_path, "--memory", "--config", str(path)) as found:
        own = [str(tmp_path / f"control-worker-{worker}.sock") for worker in found.workers]
        marks = [ask(one, {"op": "status"})["memory_high_bytes"] for one in own]
        assert marks == [10**9] * 2
        user = '[[users]]\nname = "app"\npassword = "pw"\n'
        path.write_text(f'memory_high = "2GB"\n{user}')
        found.parent.send_signal(signal.SIGHUP)
        for one in own:
            until(partial(_has_mark, one, 2 * 10**9), f"{one} has the new mark")
        # What waits for a restart of them all does not come with that of one.
        os.kill(found.workers[1], signal.SIGKILL)
        until(partial(_has_ended_or_waits, found.workers[1]), "worker 1 has ended")
        until(partial(_knows, own[1], "guest"), "worker 1 knows the users of before")
        assert _has_mark(own[1], 2 * 10**9) and not _knows(own[1], "app")


def test_sighup_has_the_last_word_also_at_a_worker_that_begins_later(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('memory_high = "1GB"\n')
    with cores(tmp_path, "--memory", "--config", str(path)) as found:
        own = [str(tmp_path / f"control-worker-{worker}.sock") for worker in found.workers]
        changes = ("memory.high=3GB", "credit.watchdog=7s")
        assert found.broker.flow("set", *changes).status == 0
        path.write_text('memory_high = "2GB"\n')
        found.parent.send_signal(signal.SIGHUP)
        for one in own:
            until(partial(_has_mark, one, 2 * 10**9), f"{one} has the new mark")
        os.kill(found.workers[1], signal.SIGKILL)
        until(partial(_has_ended_or_waits, found.workers[1]), "worker 1 has ended")
        until(partial(_has_setting, own[1], "credit.watchdog", "7s"), "worker 1 is told again")
        assert _has_mark(own[1], 2 * 10**9)


def _has_mark(control: str, mark_bytes: int) -> bool:
    return ask(control, {"op": "status"})["memory_high_bytes"] == mark_bytes


def _has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_user_made_while_a_worker_is_away_is_there_when_it_is_back(tmp_path: Path) -> None:
    with cores(tmp_path, "--data", str(tmp_path / "data")) as found:
        found.broker.said(vhosts, "add", options=("tenant",))
        assert found.broker.flow("set", "credit.watchdog=7s").status == 0
        os.kill(found.workers[1], signal.SIGKILL)
        until(partial(_has_ended_or_waits, found.workers[1]), "worker 1 has ended")
        said = found.broker.said(users, "add", options=("app", "secret"))
        assert said.status == 2 and "but not at worker 1" in said.error
        said = found.broker.flow("set", "consumer.timeout=40s")
        assert said.status == 2 and "but not at worker 1" in said.error
        own = str(tmp_path / "control-worker-1.sock")
        until(partial(_knows, own, "app"), "worker 1 knows the user")
        rows = ask(own, {"op": "flow", "do": "settings"})["settings"]
        assert isinstance(rows, list)
        values = {one["key"]: one["value"] for one in rows}
        assert (values["credit.watchdog"], values["consumer.timeout"]) == ("7s", "40s")


def test_a_setting_that_a_worker_cannot_have_keeps_no_other_away(tmp_path: Path) -> None:
    log = tmp_path / "penstock.log"
    with cores(tmp_path, "--data", str(tmp_path / "data"), "--log-file", str(log)) as found:
        found.broker.said(vhosts, "add", options=("tenant",))
        found.broker.said(vhosts, "add", options=("other",))
        found.broker.said(vhosts, "add", options=("late",))
        changes = ("account.vhost.high:late=1MiB", "account.vhost.high:tenant=1MiB")
        assert found.broker.flow("set", *changes, "credit.watchdog=7s").status == 0
        assert found.broker.said(vhosts, "delete", options=("late", "--yes")).status == 0
        os.kill(found.workers[1], signal.SIGKILL)
        until(partial(_has_ended_or_waits, found.workers[1]), "worker 1 has ended")
        own = str(tmp_path / "control-worker-1.sock")
        until(partial(_has_setting, own, "credit.watchdog", "7s"), "it has the other one")
        assert _has_setting(own, "account.vhost.high:tenant", "1MiB/512KiB")
        said = log.read_text()
        assert said.count("account.vhost.high:late=1MiB: there is no virtual host 'late'") == 1


def _has_setting(control: str, key: str, value: str) -> bool:
    try:
        rows = ask(control, {"op": "flow", "do": "settings"})["settings"]
    except OperatorError:
        return False
    assert isinstance(rows, list)
    return any(one["key"] == key and one["value"] == value for one in rows)


def test_no_more_settings_are_kept_than_may_be(tmp_path: Path) -> None:
    with cores(tmp_path, "--memory") as found:
        control = found.broker.control
        keys = [f"rate.user.messages:{number}" for number in range(KEPT_SETTINGS.default)]
        ask(control, {"op": "flow", "do": "set", "changes": dict.fromkeys(keys, "9/s")})
        assert found.broker.flow("set", f"{keys[7]}=8/s").status == 0
        said = found.broker.flow("set", "consumer.timeout=40s")
        assert said.status == 2 and "it is done, but 2048 settings are kept already" in said.error


def test_who_comes_for_a_worker_that_does_not_start_is_turned_away(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with cores(tmp_path, "--data", str(data)) as found:
        found.broker.said(vhosts, "add", options=("tenant",))
        (data / "workers" / "1" / "VERSION").write_text("spoilt")
        os.kill(found.workers[1], signal.SIGKILL)
        until(partial(_has_ended_or_waits, found.workers[1]), "worker 1 has ended")
        with pytest.raises(pika.exceptions.AMQPError) as refused:
            found.broker.connect("tenant")
        assert "Timeout" not in str(refused.value) + repr(refused.value)
        with found.broker.connect("/") as connection:
            connection.channel()


def _has_ended_or_waits(pid: int) -> bool:
    """A process that was killed is there until its parent has looked."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def _knows(control: str, user: str) -> bool:
    try:
        rows = ask(control, {"op": "users", "do": "kept"})["users"]
    except OperatorError:
        return False
    assert isinstance(rows, list)
    return user in [row["name"] for row in rows]


def test_a_start_that_fails_leaves_nothing_and_says_it_once(tmp_path: Path) -> None:
    data = tmp_path / "data"
    config = tmp_path / "penstock.toml"
    config.write_text('vhosts = ["/", "tenant"]\n')
    words = ("--cores", "2", "--data", str(data), "--config", str(config), "--tls-port", "-1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = _refused(*words, "--port", str(taken.getsockname()[1]))
    assert "is used by" in said and "ResourceWarning" not in said, said
    # Nobody has been at work there: one broker alone may be.
    assert not (data / "workers.json").exists()
    # Neither is anything said twice of which a worker has told its parent.
    (data / "workers" / "1").mkdir(parents=True)
    (data / "workers" / "1" / "something").touch()
    said = _refused(*words, "--port", "0")
    assert "worker 1: " in said and said.count("is not a data directory") == 1, said


def _refused(*words: str) -> str:
    """What `penstock serve` says on standard error where it does not start."""
    done = subprocess.run(
        [*PENSTOCK, "serve", "--no-management", *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=ENVIRONMENT,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    return done.stderr


def test_who_comes_while_workers_start_finds_his_virtual_host(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with cores(tmp_path, "--data", data) as first:
        first.broker.said(vhosts, "add", options=("tenant",))
        port = first.broker.port
    served = threading.Event()
    with ThreadPoolExecutor(4) as comers:
        come = partial(_come_again, BrokerProcess(port, ""), served)
        refused = [comers.submit(come, vhost) for vhost in ("/", "tenant") * 2]
        try:
            with cores(tmp_path, "--data", data, "--port", str(port)):
                served.set()
        finally:
            served.set()
    said = [one.result() for one in refused]
    # pika leaves sockets open where a connection comes to nothing, which the next test is told of.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    assert said == [[]] * 4


def _come_again(broker: BrokerProcess, served: threading.Event, vhost: str) -> list[str]:
    """As a client does whose broker is away: with what words it is refused until it is there."""
    refused = []
    while not served.is_set():
        try:
            broker.connect(vhost).close()
        except pika.exceptions.ProbableAccessDeniedError as fault:
            # It says so of whatever ends a connection at that point.
            if "530" in str(fault):
                refused.append(str(fault))
        except (pika.exceptions.AMQPError, OSError):
            # Not there yet, or no more.
            pass
    return refused
