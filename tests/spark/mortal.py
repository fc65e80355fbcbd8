"""A broker on one port and one data directory that is killed and started again."""

import subprocess
import sys
from pathlib import Path
from types import TracebackType

from penstock.client.io_blocking import connect
from penstock.protocol.properties import Properties
from tests.conformance.live import free_port, wait_ready

PERSISTENT = Properties(delivery_mode=2)


class MortalBroker:
    """A broker process with its data in `folder`. lives: how often it was started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"
        self.lives = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self.lives += 1
        control = str(self.folder / "c.sock")
        command = [sys.executable, "-m", "penstock.cli.main", "serve", "--port", str(self.port)]
        command += ["--data", str(self.folder / "data"), "--control", control]
        errors = self.folder / "stderr.txt"
        with (self.folder / "stdout.txt").open("wb") as out, errors.open("ab") as err:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=err, stdin=subprocess.DEVNULL
            )
        wait_ready(self.process, self.port, errors, control)

    def kill(self) -> None:
        """kill -9, and wait for its end."""
        assert self.process is not None, "it was started"
        self.process.kill()
        self.process.wait()

    def again(self) -> None:
        """Kill it, and start it on what it has left."""
        self.kill()
        self.start()

    def publish(self, first: int, count: int) -> None:
        """Persistent messages first.. in queue `orders`, all confirmed."""
        with connect(self.url) as connection:
            channel = connection.channel()
            channel.declare_queue("orders", durable=True)
            channel.confirm_select()
            for number in range(first, first + count):
                channel.publish("", "orders", b"%d" % number, properties=PERSISTENT)
            channel.wait_for_confirms(60_000)

    def __enter__(self) -> "MortalBroker":
        self.folder.mkdir(exist_ok=True)
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        assert "Traceback" not in (self.folder / "stderr.txt").read_text(errors="replace")
