"""A broker that is killed and started again on its port and directory."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.client.io_blocking import connect
from penstock.protocol.properties import Properties
from tests.conformance.live import free_port, wait_ready

PERSISTENT = Properties(delivery_mode=2)


class Doomed:
    """folder: for its data and what it has to say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "penstock.cli.main", "serve", "--port", str(self.port)]
        command += ["--data", str(self.folder / "data")]
        control = str(self.folder / "c.sock")
        command += ["--control", control]
        with (self.folder / "stderr.txt").open("ab") as errors:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        wait_ready(process, self.port, self.folder / "stderr.txt", control)
        return process

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def again(self) -> None:
        """Kill it, and start it on what it has left."""
        self.kill()
        self.process = self._started()

    def publish(self, first: int, count: int) -> None:
        """Persistent messages first.. in queue `orders`, all confirmed."""
        with connect(self.url) as connection:
            channel = connection.channel()
            channel.declare_queue("orders", durable=True)
            channel.confirm_select()
            for number in range(first, first + count):
                channel.publish("", "orders", b"%d" % number, properties=PERSISTENT)
            channel.wait_for_confirms(60_000)


@contextmanager
def doomed(folder: Path) -> Iterator[Doomed]:
    folder.mkdir()
    broker = Doomed(folder)
    try:
        yield broker
    finally:
        broker.kill()
