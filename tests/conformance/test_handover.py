"""Unmodified clients of a broker of two processes: either may accept them, with TLS and without."""

import os
import re
import signal
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import aio_pika
import pika
import pytest
from pika.exceptions import ProbableAccessDeniedError

from penstock.cli.certificates import make_authority, make_client, make_server
from penstock.server.control.control_client import ask, control_path
from tests.conformance.live import free_port, penstock_process
from tests.patience import PATIENCE_S, until

BODY = bytes(range(256)) * 4096
VHOSTS = ("/", "tenant")
TRIES = 8
"""Which process accepts a client is chance: so often it is each of them, all but once in 128."""


class Two:
    """Where clients come. shelf: of certificates."""

    def __init__(self, shelf: Path, port: int, tls_port: int) -> None:
        self.shelf = shelf
        self.port = port
        self.tls_port = tls_port

    def context(self, version: ssl.TLSVersion) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.shelf / "ca.pem"))
        context.load_cert_chain(self.shelf / "guest.pem", self.shelf / "guest.key")
        context.minimum_version = context.maximum_version = version
        return context

    @contextmanager
    def connect(
        self, vhost: str, version: ssl.TLSVersion | None = None, heartbeat_s: int = 0
    ) -> Iterator[pika.BlockingConnection]:
        """version: of TLS, then by certificate; None for neither."""
        if version is None:
            parameters = pika.ConnectionParameters(
                "localhost", self.port, vhost, heartbeat=heartbeat_s
            )
        else:
            parameters = pika.ConnectionParameters(
                "localhost",
                self.tls_port,
                vhost,
                credentials=pika.credentials.ExternalCredentials(),
                ssl_options=pika.SSLOptions(self.context(version), "localhost"),
                heartbeat=heartbeat_s,
            )
        connection = pika.BlockingConnection(parameters)
        try:
            yield connection
        finally:
            if connection.is_open:
                connection.close()

    def rows(self) -> list[dict[str, object]]:
        answer = ask(control_path(self.port), {"op": "objects", "do": "connections"})
        found = answer["items"]
        assert isinstance(found, list)
        return found


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shelf = tmp_path_factory.mktemp("shelf")
    now = datetime.now(UTC)
    make_authority(shelf, 2, now)
    make_server(shelf, "server", ["localhost"], 2, now)
    make_client(shelf, "guest", 2, now)
    return shelf


def tls_options(shelf: Path, port: int) -> list[str]:
    options = ["--tls-port", str(port), "--tls-cert", str(shelf / "server.pem")]
    return [*options, "--tls-key", str(shelf / "server.key"), "--tls-ca", str(shelf / "ca.pem")]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, shelf: Path) -> Iterator[Two]:
    tls_port = free_port()
    options = ["--cores", "2", *tls_options(shelf, tls_port)]
    folder = tmp_path_factory.mktemp("broker")
    with penstock_process(folder, *options, config='vhosts = ["/", "tenant"]\n') as broker:
        yield Two(shelf, broker.port, tls_port)


VERSIONS = (None, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("vhost", VHOSTS)
def test_pika(pair: Two, vhost: str, version: ssl.TLSVersion | None) -> None:
    for _ in range(TRIES):
        with pair.connect(vhost, version) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.basic_publish("", queue, BODY)
            for method, _properties, body in channel.consume(queue, inactivity_timeout=PATIENCE_S):
                assert body == BODY
                channel.basic_ack(method.delivery_tag)
                break
            channel.cancel()


@pytest.mark.parametrize("vhost", VHOSTS)
async def test_aio_pika(pair: Two, vhost: str) -> None:
    for _ in range(TRIES):
        connection = await aio_pika.connect(
            host="localhost",
            port=pair.port,
            virtualhost=vhost,
            timeout=PATIENCE_S,
        )
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(BODY), queue.name)
            message = await queue.get(timeout=PATIENCE_S, no_ack=True)
            assert message is not None and message.body == BODY


def test_many_at_once_each_with_messages(pair: Two) -> None:
    def work(number: int) -> int:
        version = VERSIONS[number % 3]
        with pair.connect(VHOSTS[number % 2], version) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            queue = channel.queue_declare("", exclusive=True).method.queue
            for at in range(20):
                channel.basic_publish("", queue, b"%d" % at)
            found = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(20)]
            assert found == [b"%d" % at for at in range(20)]
        return number

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(work, range(48))) == list(range(48))


@pytest.mark.parametrize("version", [None, ssl.TLSVersion.TLSv1_3])
def test_heartbeats(pair: Two, version: ssl.TLSVersion | None) -> None:
    """Also through the process that has the TLS, for longer than one may be silent."""
    with pair.connect("tenant", version, 1) as one, pair.connect("/", version, 1) as other:
        end_s = time.monotonic() + 4
        while time.monotonic() < end_s:
            one.process_data_events(0.1)
            other.process_data_events(0.1)
        one.channel()
        other.channel()


def test_it_is_listed_as_it_came(pair: Two) -> None:
    with pair.connect("tenant", ssl.TLSVersion.TLSv1_3), pair.connect("/"):
        rows = pair.rows()
        assert {(row["vhost"], row["ssl"], row.get("ssl_protocol")) for row in rows} == {
            ("tenant", True, "TLSv1.3"),
            ("/", False, None),
        }
        assert {row["user"] for row in rows} == {"guest"}
    until(lambda: not pair.rows(), "no connections")


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_refused_is_refused_in_words(pair: Two, version: ssl.TLSVersion | None) -> None:
    with (
        pytest.raises(ProbableAccessDeniedError, match="vhost nowhere not found"),
        pair.connect("nowhere", version),
    ):
        raise AssertionError("it was let in")


def worker_pid(folder: Path) -> int:
    """Of worker 1, 0 before it is announced."""
    said = (folder / "stdout.txt").read_text(encoding="utf-8")
    found = re.search(r"worker 1 pid (\d+) ", said)
    return 0 if found is None else int(found[1])


@pytest.mark.parametrize("is_safe", [False, True])
def test_one_who_comes_while_his_process_is_away_is_served_by_the_next(
    tmp_path: Path, shelf: Path, is_safe: bool
) -> None:
    """Others accept him, and he waits."""
    tls_port = free_port()
    options = ["--cores", "2", *tls_options(shelf, tls_port)]
    vhosts, at_once = 'vhosts = ["/", "tenant"]\n', {"PYTHONUNBUFFERED": "1"}
    with penstock_process(tmp_path, *options, config=vhosts, environment=at_once) as broker:
        pair = Two(shelf, broker.port, tls_port)
        until(lambda: worker_pid(tmp_path) > 0, "the pid of worker 1 is announced")
        os.kill(worker_pid(tmp_path), signal.SIGKILL)
        with pair.connect("tenant", VERSIONS[-1] if is_safe else None) as connection:
            channel = connection.channel()
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.basic_publish("", queue, BODY)
            assert channel.basic_get(queue, auto_ack=True)[2] == BODY
