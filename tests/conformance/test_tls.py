"""Unmodified clients over TLS, by password and by certificate."""

import ssl
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from subprocess import run

import aio_pika
import pika
import pytest

from penstock.cli.certificates import make_authority, make_client, make_server
from penstock.client.io_blocking import connect
from tests.conformance.live import free_port, penstock_process
from tests.patience import PATIENCE_S

BODY = bytes(range(256)) * 1000


class Safe:
    """A broker that wants a certificate of every client. shelf: where they are."""

    def __init__(self, shelf: Path, port: int) -> None:
        self.shelf = shelf
        self.port = port

    def context(self, user: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.shelf / "ca.pem"))
        context.load_cert_chain(self.shelf / f"{user}.pem", self.shelf / f"{user}.key")
        return context


@pytest.fixture(scope="module")
def safe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Safe]:
    shelf = tmp_path_factory.mktemp("shelf")
    now = datetime.now(UTC)
    make_authority(shelf, 2, now)
    make_server(shelf, "server", ["localhost"], 2, now)
    make_client(shelf, "guest", 2, now)
    port = free_port()
    options = ["--tls-port", str(port), "--tls-cert", str(shelf / "server.pem")]
    options += ["--tls-key", str(shelf / "server.key"), "--tls-ca", str(shelf / "ca.pem")]
    with penstock_process(tmp_path_factory.mktemp("broker"), *options):
        yield Safe(shelf, port)


@pytest.mark.parametrize("is_external", [False, True])
def test_pika(safe: Safe, is_external: bool) -> None:
    credentials: pika.credentials.PlainCredentials | pika.credentials.ExternalCredentials = (
        pika.credentials.ExternalCredentials()
        if is_external
        else pika.PlainCredentials("guest", "guest")
    )
    parameters = pika.ConnectionParameters(
        "localhost",
        safe.port,
        credentials=credentials,
        ssl_options=pika.SSLOptions(safe.context("guest"), "localhost"),
    )
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, BODY)
        assert channel.basic_get(queue, auto_ack=True)[2] == BODY


async def test_aio_pika(safe: Safe) -> None:
    connection = await aio_pika.connect(
        f"amqps://guest:guest@localhost:{safe.port}/",
        ssl_context=safe.context("guest"),
        timeout=PATIENCE_S,
    )
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(aio_pika.Message(BODY), queue.name)
        message = await queue.get(timeout=PATIENCE_S, no_ack=True)
        assert message.body == BODY


def test_kombu(safe: Safe) -> None:
    """In a process of its own: kombu keeps connections of a process in pools."""
    text = f"""
import kombu
from queue import Empty
keys = {{
    "ca_certs": r"{safe.shelf / "ca.pem"}",
    "certfile": r"{safe.shelf / "guest.pem"}",
    "keyfile": r"{safe.shelf / "guest.key"}",
    "server_hostname": "localhost",
}}
for method in ("PLAIN", "EXTERNAL"):
    url = "amqp://guest:guest@localhost:{safe.port}//"
    with kombu.Connection(url, ssl=keys, login_method=method) as connection:
        queue = connection.SimpleQueue("over-tls-" + method)
        queue.put("x" * 300_000)
        assert queue.get(timeout={PATIENCE_S}).payload == "x" * 300_000
        queue.close()
print("done")
"""
    ended = run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=2 * PATIENCE_S
    )
    assert ended.stdout == "done\n", ended.stderr


def test_own_client(safe: Safe) -> None:
    url = f"amqps://guest:guest@localhost:{safe.port}/%2F"
    with connect(url, context=safe.context("guest")) as connection:
        channel = connection.channel()
        queue = channel.declare_queue("", exclusive=True).queue
        channel.publish("", queue, BODY)
        found = channel.get(queue)
        assert found is not None and found.body == BODY
