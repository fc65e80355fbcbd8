"""A broker process with a data directory, and a publisher that knows what was confirmed to it.

The publisher keeps a window of persistent publishes open on one connection and writes down which
the broker confirmed. After the broker's death, `recovered` reads every durable queue of a new
broker on the same directory.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.client.events import ChannelClosed, ClientEvent, Confirmed, Opened, Replied
from penstock.client.io_blocking import connect
from penstock.client.session import ClientSession
from penstock.client.url import parse_url
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from tests.conformance.live import free_port, wait_ready
from tests.patience import PATIENCE_S

PERSISTENT = Properties(delivery_mode=2)
WINDOW = 64


class Served:
    """A broker on `data`. prefix: a command that runs it, strace for one; settings: TOML."""

    def __init__(
        self, data: Path, folder: Path, prefix: tuple[str, ...] = (), settings: str = ""
    ) -> None:
        self.port = free_port()
        self.errors = folder / "stderr.txt"
        command = [*prefix, sys.executable, "-m", "penstock.cli.main", "serve"]
        command += ["--data", str(data), "--port", str(self.port)]
        if settings:
            (folder / "settings.toml").write_text(settings)
            command += ["--config", str(folder / "settings.toml")]
        with (folder / "stdout.txt").open("wb") as out, self.errors.open("wb") as err:
            self.process = subprocess.Popen(
                command,
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONFAULTHANDLER": ""},
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        wait_ready(self.process, self.port, self.errors)

    def kill(self) -> None:
        """With everything it was started under."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """In order; the exit code."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    @property
    def url(self) -> str:
        stall_timeout_ms = int(PATIENCE_S * 1000)
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F?connection_timeout={stall_timeout_ms}"


@contextmanager
def served(
    data: Path, folder: Path, prefix: tuple[str, ...] = (), settings: str = ""
) -> Iterator[Served]:
    """A broker that is ready, and killed at the end if it still lives."""
    broker = Served(data, folder, prefix, settings)
    try:
        broker.wait_ready()
        yield broker
    finally:
        broker.kill()


class Lost(Exception):
    """The broker is gone."""


class Publisher:
    """One connection with one confirming channel. confirmed: numbers the broker has confirmed, as
    read before it died; refused: nacked ones; said: how many were published."""

    def __init__(self, broker: Served) -> None:
        self.confirmed: set[int] = set()
        self.refused: set[int] = set()
        self.said = 0
        self._replies: list[m.Method] = []
        self._is_open = False
        self._is_refused = False
        try:
            self._socket = socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE_S)
        except OSError as error:
            raise Lost from error
        self._session = ClientSession(parse_url(broker.url), "crash", time.monotonic_ns())
        self._wait(lambda: self._is_open)
        self._channel = self._session.open_channel()[0]
        self._wait_reply()

    def declare(self, *queues: str) -> None:
        """Durable queues, all bound to amq.fanout, and confirms."""
        for name in queues:
            self.ask(m.QueueDeclare(name, durable=True))
            self.ask(m.QueueBind(name, "amq.fanout", ""))
        self.ask(m.ConfirmSelect())

    def ask(self, method: m.Method) -> m.Method:
        self._session.request(self._channel, method)
        return self._wait_reply()

    def is_refused(self, method: m.Method) -> bool:
        """Whether the broker closes the channel for `method`, which ends this publisher."""
        self._session.request(self._channel, method)
        self._wait(lambda: self._is_refused or len(self._replies) > 0)
        return self._is_refused

    def publish(self, exchange: str, key: str, body: bytes) -> None:
        """One persistent publish, whose number is `said` before it."""
        self._session.publish(self._channel, exchange, key, body, PERSISTENT)
        self.said += 1
        self._send()
        self._read(0.0)
        while self._session.unconfirmed(self._channel) >= WINDOW:
            self._read(PATIENCE_S)

    def publish_alone(self, exchange: str, key: str, body: bytes) -> None:
        """As `publish`, without waiting for anything."""
        self._session.publish(self._channel, exchange, key, body, PERSISTENT)
        self.said += 1
        self._send()

    def publish_at_once(self, exchange: str, key: str, bodies: list[bytes]) -> None:
        """As `publish_alone`, all of them in one piece."""
        for body in bodies:
            self._session.publish(self._channel, exchange, key, body, PERSISTENT)
        self.said += len(bodies)
        self._send()

    def read_what_is_there(self) -> None:
        self._read(0.0)

    def finish(self) -> None:
        """Wait for the answer to everything."""
        while self._session.unconfirmed(self._channel) > 0:
            self._read(PATIENCE_S)

    def close(self) -> None:
        self._socket.close()

    def _wait_reply(self) -> m.Method:
        self._wait(lambda: len(self._replies) > 0)
        return self._replies.pop(0)

    def _wait(self, is_there: object) -> None:
        assert callable(is_there)
        while not is_there():
            self._send()
            self._read(PATIENCE_S)

    def _send(self) -> None:
        data = self._session.output(time.monotonic_ns())
        if data:
            self._socket.settimeout(PATIENCE_S)
            try:
                self._socket.sendall(data)
            except OSError as error:
                raise Lost from error

    def _read(self, seconds: float) -> None:
        self._socket.settimeout(seconds if seconds > 0 else 0.000_001)
        try:
            data = self._socket.recv(65_536)
        except (TimeoutError, BlockingIOError):
            if seconds > 0:
                raise Lost from None
            return
        except OSError as error:
            raise Lost from error
        if not data:
            raise Lost
        for event in self._session.feed(data, time.monotonic_ns()):
            self._happened(event)
        self._send()

    def _happened(self, event: ClientEvent) -> None:
        if isinstance(event, Opened):
            self._is_open = True
        elif isinstance(event, ChannelClosed):
            self._is_refused = True
        elif isinstance(event, Replied):
            self._replies.append(event.reply)
        elif isinstance(event, Confirmed):
            numbers = {sequence - 1 for sequence in event.sequences}
            (self.confirmed if event.is_accepted else self.refused).update(numbers)


def recovered(broker: Served, queue: str, most: int = 1 << 30) -> list[bytes]:
    """The first bodies in `queue`, up to `most`, in order; they are acknowledged."""
    bodies: list[bytes] = []
    with connect(broker.url) as connection:
        channel = connection.channel()
        count = channel.declare_queue(queue, durable=True).message_count
        channel.qos(most if most < 1000 else 0)
        channel.consume(queue)
        for _ in range(min(count, most)):
            delivery = channel.next_delivery(int(PATIENCE_S * 1000))
            assert delivery is not None, f"{queue}: {len(bodies)} of {count} came"
            bodies.append(delivery.body)
            channel.ack(delivery)
    return bodies
