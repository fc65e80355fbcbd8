"""The broker for tests: it starts and ends with its block, and can be looked at."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import pika
import psutil
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock.base.errors import OperatorError
from penstock.testing import Broker, NotEmptyError, VirtualHost
from penstock.testing.child import configured
from tests.patience import PATIENCE_S, until
from tests.unit.testing.broker_for_tests import channel_of, put


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(queue_depth_bytes=1_000_000) as running:
        yield running


@pytest.fixture
def vhost(broker: Broker) -> Iterator[VirtualHost]:
    with broker.vhost() as made:
        yield made


@pytest.fixture
def channel(vhost: VirtualHost) -> Iterator[BlockingChannel]:
    with channel_of(vhost) as opened:
        yield opened


def test_it_says_what_its_queues_hold(vhost: VirtualHost, channel: BlockingChannel) -> None:
    assert vhost.queues() == {}
    put(channel, "orders", 3)
    put(channel, "a/b", 1)
    channel.basic_get("orders")
    orders = vhost.queues()["orders"]
    assert (orders.messages_ready, orders.messages_unacknowledged, orders.messages) == (2, 1, 3)
    assert (orders.consumers, orders.state) == (0, "running")
    assert vhost.queues()["a/b"].messages == 1


def test_waiting_ends_when_everything_is_acknowledged(
    vhost: VirtualHost, channel: BlockingChannel
) -> None:
    put(channel, "orders")
    put(channel, "others")
    method, _, _ = channel.basic_get("orders")
    with pytest.raises(NotEmptyError, match="orders: 0 ready, 1 unacknowledged"):
        vhost.wait_for_empty("orders", timeout_s=0.0)
    channel.basic_ack(method.delivery_tag)
    vhost.wait_for_empty("orders", timeout_s=PATIENCE_S)
    with pytest.raises(NotEmptyError, match="others: 1 ready") as left:
        vhost.wait_for_empty(timeout_s=0.0)
    assert "orders" not in str(left.value)
    with pytest.raises(KeyError, match="no queue 'order' in virtual host"):
        vhost.wait_for_empty("order")


async def test_a_coroutine_waits_for_consumers_of_its_own_loop(broker: Broker) -> None:
    with broker.vhost() as vhost:
        connection = await aio_pika.connect(vhost.url, timeout=PATIENCE_S)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("orders")
            for number in range(20):
                message = aio_pika.Message(b"%d" % number)
                await channel.default_exchange.publish(message, "orders")
            seen = []

            async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
                seen.append(message.body)
                await message.ack()

            await queue.consume(take)
            await vhost.until_empty("orders", timeout_s=PATIENCE_S)
    assert len(seen) == 20


def test_a_paused_queue_delivers_nothing_until_it_is_resumed(
    vhost: VirtualHost, channel: BlockingChannel
) -> None:
    put(channel, "orders")
    vhost.pause("orders")
    seen: list[bytes] = []
    channel.basic_consume("orders", lambda *said: seen.append(said[3]), auto_ack=True)
    put(channel, "orders")
    assert seen == [] and vhost.queues()["orders"].messages_ready == 2
    assert vhost.queues()["orders"].state == "paused"
    vhost.resume("orders")
    until(lambda: len(seen) == 2, "both", lambda: channel.connection.process_data_events(0.05))


@pytest.mark.parametrize("resource", ["memory", "disk"])
def test_an_alarm_blocks_publishers_until_it_is_cleared(
    broker: Broker, vhost: VirtualHost, resource: str
) -> None:
    told: list[str] = []
    with channel_of(vhost, confirms=False) as channel:
        connection = channel.connection
        connection.add_on_connection_blocked_callback(lambda *_: told.append("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
        channel.queue_declare("orders")
        broker.raise_alarm(resource)
        broker.raise_alarm(resource)
        assert f"{resource} alarm, for" in broker.leftovers()
        # Only who publishes is told.
        channel.basic_publish("", "orders", b"held")
        until(lambda: told == ["blocked"], "told", lambda: connection.process_data_events(0.05))
        assert vhost.queues()["orders"].messages == 0
        broker.clear_alarm(resource)
        until(lambda: len(told) == 2, "told", lambda: connection.process_data_events(0.05))
        broker.clear_alarm(resource)
        assert told[1] == "unblocked" and f"{resource} alarm, for" not in broker.leftovers()
        until(lambda: vhost.queues()["orders"].messages == 1, "what was held is there")


def test_only_alarms_there_are_can_be_raised(broker: Broker) -> None:
    with pytest.raises(ValueError, match="alarm 'cpu' is unknown; one of: memory, disk"):
        broker.raise_alarm("cpu")


def test_virtual_hosts_have_queues_of_their_own_and_end_with_their_connections(
    broker: Broker,
) -> None:
    with broker.vhost("ten/ant ü") as one, broker.vhost("ten/ant ü") as other:
        assert one.name == "ten/ant ü" and other.name != one.name
        with channel_of(one) as channel, channel_of(other) as others:
            put(channel, "orders", 2)
            put(others, "orders", 1)
            assert one.queues()["orders"].messages == 2
            assert other.queues()["orders"].messages == 1
            one.pause("orders")
            assert other.queues()["orders"].state == "running"
            assert broker.queues() == {}
    names = {row["name"] for row in broker.ask("vhosts", do="list")["vhosts"]}
    assert not names & {one.name, other.name}


def test_it_explains_who_waits_and_for_what(broker: Broker) -> None:
    with broker.vhost() as vhost, channel_of(vhost, "web-7", confirms=False) as channel:
        channel.queue_declare("orders")
        # More than the depth mark and what is lent above it, less than would stop this test.
        for _ in range(110):
            channel.basic_publish("", "orders", b"x" * 10_000)
        until(lambda: broker.blocked_share("connection", "web-7", 1.0) > 0.5, "it is held")
        assert "start a consumer on queue" in broker.why("connection", "web-7", 2.0)
        said = broker.leftovers(vhost.name, 0, 2.0)
        # One message less where the accounts of other connections leave less room.
        assert re.search(r"queue orders: (99|100) ready, 0 unacknowledged, 0 consumers, deep", said)
        assert "waits for queue:" in said and "why the publisher that waited most did:" in said
    with pytest.raises(LookupError, match="web-8"):
        broker.blocked_share("connection", "web-8")


def test_settings_are_those_of_the_configuration_file() -> None:
    with Broker(profile="rabbitmq-4", product="RabbitMQ") as broker:
        assert broker.ask("status")["profile"] == "rabbitmq-4"
        with channel_of(broker) as channel:
            told = channel.connection._impl.server_properties
            assert told["product"] == "RabbitMQ"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"profil": "none"}, "unknown key 'profil'; did you mean profile?"),
        ({"heartbeat_s": -1}, "heartbeat_s = -1 is not within 0..65535 seconds"),
        ({"port": 5672}, "port is chosen by the broker for tests; leave it out"),
    ],
)
def test_wrong_settings_are_told_as_those_of_a_file(
    settings: dict[str, object], words: str
) -> None:
    with pytest.raises(OperatorError, match="settings of the broker for tests: ") as told:
        configured("/tmp", settings)
    assert words in str(told.value)


def test_what_keeps_it_from_starting_is_told() -> None:
    with pytest.raises(OperatorError, match="broker for tests: unknown key 'profil'"):
        Broker(profil="none").start()


def test_nothing_is_left_when_it_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The path of a local socket may not be as long as this; it goes elsewhere then.
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with Broker() as broker:
        pid, control = broker.pid, Path(broker.control)
        assert control.is_socket()
        assert broker.log() == ""
    assert not psutil.pid_exists(pid) and not control.parent.exists()
    assert list(long.iterdir()) == []
    with pytest.raises(OperatorError, match="is not running; use it inside its `with` block"):
        broker.queues()


async def test_it_is_an_asynchronous_context_manager_too() -> None:
    async with Broker() as broker:
        async with await aio_pika.connect(broker.url, timeout=PATIENCE_S) as connection:
            await (await connection.channel()).declare_queue("orders")
        pid = broker.pid
    assert not psutil.pid_exists(pid)


def test_what_is_left_is_a_note_of_the_error_that_ends_the_block() -> None:
    with pytest.raises(ZeroDivisionError) as raised, Broker() as broker:
        with channel_of(broker) as channel:
            put(channel, "orders", 2)
        1 / 0  # noqa: B018  # only its error is wanted
    assert "queue /orders: 2 ready" in "".join(raised.value.__notes__)


def test_a_broker_that_has_died_is_told_with_its_log() -> None:
    with Broker() as broker:
        os.kill(broker.pid, signal.SIGKILL)
        until(lambda: psutil.Process(broker.pid).status() == psutil.STATUS_ZOMBIE, "it is dead")
        with pytest.raises(OperatorError, match="has ended with status -9"):
            broker.queues()
        assert "cannot be asked" in broker.leftovers()


def test_it_ends_with_a_test_run_that_is_killed() -> None:
    program = (
        "from penstock.testing import Broker\n"
        "broker = Broker().start(); print(broker.pid, broker.control, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        pid, control = run.stdout.readline().split()
        broker = psutil.Process(int(pid))
        run.kill()
    until(lambda: not broker.is_running(), "the broker has ended, too")
    assert not Path(control).parent.exists()


def test_a_look_at_the_broker_is_taken_at_once_but_not_too_often(broker: Broker) -> None:
    first = broker.ask("record", do="round")["rounds"]
    began_s = time.monotonic()
    assert broker.ask("record", do="round")["rounds"] > first
    assert time.monotonic() - began_s > 0.15


def test_what_it_has_on_the_disk_is_there_after_a_restart(tmp_path: Path) -> None:
    """On the same port, whether it is stopped or killed; clients connect again."""
    with Broker(data=tmp_path / "kept") as broker:
        url, pid = broker.url, broker.pid
        for number, is_killed in enumerate((False, True)):
            with channel_of(broker) as channel:
                channel.queue_declare("orders", durable=True)
                lasting = pika.BasicProperties(delivery_mode=2)
                channel.basic_publish("", "orders", b"%d" % number, lasting)
                channel.basic_publish("", "orders", b"fleeting")
                broker.raise_alarm("memory")
                broker.restart(is_killed)
                with pytest.raises(pika.exceptions.AMQPConnectionError):
                    channel.connection.process_data_events(PATIENCE_S)
            assert broker.url == url and broker.pid != pid
            assert broker.queues()["orders"].messages_ready == number + 1
            alarms = broker.ask("flow", do="alarms")["alarms"]
            assert not any(alarm["is_set"] for alarm in alarms)
        pid = broker.pid
    assert not psutil.pid_exists(pid)
    with Broker(data=str(tmp_path / "kept")) as another:
        assert another.queues()["orders"].messages_ready == 2


def test_in_memory_it_comes_back_empty(tmp_path: Path) -> None:
    with Broker() as broker:
        with channel_of(broker) as channel:
            put(channel, "orders")
        url = broker.url
        broker.restart()
        assert (broker.url, broker.queues()) == (url, {})
        with channel_of(broker):
            assert len(re.findall("opened, user guest", broker.log())) == 2, "its log goes on"
    with pytest.raises(OperatorError, match="nothing to restart"):
        broker.restart()


def test_a_data_directory_is_no_setting() -> None:
    with pytest.raises(OperatorError, match=r"Broker\(data=\.\.\.\)"):
        configured("/tmp", {"data_dir": "/tmp/kept"})


def test_a_pause_ends_with_the_test(broker: Broker) -> None:
    with channel_of(broker) as channel:
        put(channel, "slow")
        put(channel, "gone")
        broker.pause("slow")
        broker.pause("gone")
        channel.queue_delete("gone")
        broker.calm()
        assert broker.queues()["slow"].state == "running"
        channel.queue_delete("slow")
        broker.calm()


def test_a_path_is_a_setting(tmp_path: Path) -> None:
    with Broker(log_file=tmp_path / "log.txt") as broker, channel_of(broker):
        until(lambda: "opened, user guest" in (tmp_path / "log.txt").read_text(), "it is logged")


def test_there_may_be_more_virtual_hosts_than_a_listing_shows(broker: Broker) -> None:
    made = [broker.new_vhost(f"many-{number:02}") for number in range(60)]
    try:
        assert broker.new_vhost("many-59").name != "many-59"
    finally:
        for one in broker.ask("vhosts", do="list", limit=100)["vhosts"]:
            if one["name"] != "/":
                broker.ask("vhosts", do="delete", name=one["name"])
    assert len({one.name for one in made}) == 60
