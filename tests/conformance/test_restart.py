"""What is durable is there again after a clean stop and after kill -9; pika and real files."""

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pika import BasicProperties, BlockingConnection
from pika.exceptions import AMQPError, ChannelClosedByBroker

from tests.conformance import through_pika
from tests.conformance.live import Broker, penstock_process
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow

CLI = (sys.executable, "-m", "penstock.cli.main")
FIXTURE = Path(__file__).parents[1] / "fixtures" / "definitions-rabbitmq-3.10.json"


@contextmanager
def serving(folder: Path, end: signal.Signals, *options: str) -> Iterator[int]:
    """The port of a broker that keeps its data in `folder`; `end` is how it ends."""
    with penstock_process(folder, *options, data=folder / "data", end=end) as broker:
        yield broker.port


def connect(
    port: int, vhost: str = "/", user: str = "guest", password: str = "guest"
) -> BlockingConnection:
    return through_pika.connect(Broker("127.0.0.1", port, user, password, vhost))


@contextmanager
def connected(port: int) -> Iterator[BlockingConnection]:
    """A connection until the block ends."""
    connection = connect(port)
    try:
        yield connection
    finally:
        with suppress(AMQPError):
            connection.close()


def command(port: int, *words: str) -> str:
    done = subprocess.run(
        [*CLI, *words, "--port", str(port)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return done.stdout


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
def test_durable_things_are_there_after_the_end(tmp_path: Path, end: signal.Signals) -> None:
    arguments = {"x-max-length": 10, "x-message-ttl": 600_000}
    with serving(tmp_path, end) as port, connected(port) as connection:
        channel = connection.channel()
        channel.exchange_declare("orders", "topic", durable=True)
        channel.exchange_declare("fleeting", "topic")
        channel.queue_declare("kept", durable=True, arguments=arguments)
        channel.queue_declare("transient")
        for queue in ("kept", "transient"):
            channel.queue_bind(queue, "orders", "a.#")
        # A confirm of a persistent message needs its queue on disk, so it orders the kill.
        channel.confirm_delivery()
        channel.basic_publish("orders", "a.b", b"x", BasicProperties(delivery_mode=2))
        command(port, "policies", "set", "short", "^kept", '{"max-length": 3}')
        if end is signal.SIGKILL:
            _wait_for(tmp_path / "data" / "metadata.sqlite", "parameters")
    with serving(tmp_path, end) as port, connected(port) as connection:
        channel = connection.channel()
        channel.queue_declare("kept", durable=True, arguments=arguments)
        assert channel.queue_declare("kept", passive=True).method.message_count == 1
        channel.exchange_declare("orders", "topic", passive=True)
        for thing in ("exchange", "queue"):
            with pytest.raises(ChannelClosedByBroker) as caught:
                if thing == "queue":
                    connection.channel().queue_declare("transient", passive=True)
                else:
                    connection.channel().exchange_declare("fleeting", "topic", passive=True)
            assert caught.value.reply_code == 404
        channel.queue_purge("kept")
        channel.confirm_delivery()
        for number in range(5):
            channel.basic_publish("orders", "a.b", b"%d" % number, mandatory=True)
        found = channel.queue_declare("kept", passive=True)
        assert found.method.message_count == 3, "the policy came back"


def test_definitions_of_rabbitmq_survive_a_kill(tmp_path: Path) -> None:
    exported = tmp_path / "out.json"
    with serving(tmp_path, signal.SIGKILL) as port:
        assert "4 queues" in command(port, "definitions", "import", str(FIXTURE))
        _wait_for(tmp_path / "data" / "metadata.sqlite", "bindings", 3)
    with serving(tmp_path, signal.SIGTERM) as port:
        connect(port, "tenant", "app", "secret").close()
        with pytest.raises(AMQPError):
            connect(port, "tenant", "app", "wrong")
        command(port, "definitions", "export", str(exported))
    found = json.loads(exported.read_text(encoding="utf-8"))
    wanted = json.loads(FIXTURE.read_text(encoding="utf-8"))
    names = {row["name"] for row in wanted["queues"] if row["durable"]}
    assert {row["name"] for row in found["queues"]} == names
    assert exported.stat().st_mode & 0o777 == 0o600


def test_a_kill_at_any_moment_leaves_a_first_part(tmp_path: Path) -> None:
    """Queues are declared without waiting; those that are there afterwards are the first ones."""
    for round_ in range(3):
        with serving(tmp_path, signal.SIGKILL) as port, connected(port) as connection:
            channel = connection.channel()
            for number in range(300 * (round_ + 1)):
                channel.queue_declare(f"q{number:04}", durable=True)
            if round_ == 2:
                # The rest may or may not get there.
                _wait_for(tmp_path / "data" / "metadata.sqlite", "queues", 301)
    with serving(tmp_path, signal.SIGTERM) as port:
        found = json.loads(command(port, "definitions", "export"))
    names = sorted(row["name"] for row in found["queues"])
    assert names == [f"q{number:04}" for number in range(len(names))] and len(names) > 300


def _wait_for(path: Path, table: str, count: int = 1) -> None:
    """Until the disk has it: another process may look into the file at any time."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with sqlite3.connect(f"file:{path}?mode=ro", PATIENCE_S, uri=True) as db:
            (found,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()
        db.close()
        if found >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"{table} has fewer than {count} rows")


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
def test_delayed_messages_come_at_their_time_after_the_end(
    tmp_path: Path, end: signal.Signals
) -> None:
    """Persistent ones of a durable exchange; those that are overdue come at once, once."""
    delayed = (b"late", 5000, 2), (b"overdue", 300, 2), (b"fleeting", 300, 1)
    with serving(tmp_path, end) as port, connected(port) as connection:
        channel = connection.channel()
        table = {"x-delayed-type": "topic"}
        channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=table)
        channel.queue_declare("q", durable=True)
        channel.queue_bind("q", "later", "a.#")
        channel.confirm_delivery()
        start = time.monotonic()
        for body, delay_ms, mode in delayed:
            properties = BasicProperties(delivery_mode=mode, headers={"x-delay": delay_ms})
            channel.basic_publish("later", "a.b", body, properties)
    with serving(tmp_path, end) as port, connected(port) as connection:
        seen: list[bytes] = []
        for method, properties, body in connection.channel().consume("q", inactivity_timeout=0.1):
            passed_s = time.monotonic() - start
            if method is not None:
                assert isinstance(method.routing_key, str) and body is not None
                assert (method.routing_key, method.exchange) == ("a.b", "later")
                seen.append(body)
                delay_ms = {one[0]: one[1] for one in delayed}[body]
                assert properties.headers == {"x-delay": -delay_ms}
                assert passed_s * 1000 >= delay_ms
            if (len(seen) == 2 and method is None) or passed_s > PATIENCE_S:
                break
        assert seen == [b"overdue", b"late"]


@pytest.mark.parametrize("mode", ["always", "interval", "none"])
def test_what_was_confirmed_or_committed_survives_a_kill(tmp_path: Path, mode: str) -> None:
    """In every mode of the store: they differ in what a loss of power takes."""
    kept = BasicProperties(delivery_mode=2)
    with serving(tmp_path, signal.SIGKILL, "--sync", mode) as port, connected(port) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        for number in range(20):
            channel.basic_publish("", "q", b"confirmed %d" % number, kept)
        channel = connection.channel()
        channel.tx_select()
        for number in range(20):
            channel.basic_publish("", "q", b"committed %d" % number, kept)
            channel.tx_commit()
        channel.basic_publish("", "q", b"never", kept)
    with serving(tmp_path, signal.SIGTERM) as port, connected(port) as connection:
        channel = connection.channel()
        found = [channel.basic_get("q", auto_ack=True)[2] for _ in range(40)]
        assert found == [
            b"%s %d" % (word, number)
            for word in (b"confirmed", b"committed")
            for number in range(20)
        ]
        assert channel.basic_get("q")[0] is None
