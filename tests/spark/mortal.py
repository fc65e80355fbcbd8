"""A broker on one port and one data directory that is killed and started again."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import TracebackType

from penstock.client.io_blocking import connect
from penstock.protocol.properties import Properties
from tests.conformance.live import free_port, wait_ready

PERSISTENT = Properties(delivery_mode=2)


class MortalBroker:
    """A broker process with its data in `folder`. options: of `serve`; lives: how often it was
    started."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.options = options
        self.port = free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"
        self.lives = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self.lives += 1
        control = str(self.folder / "c.sock")
        command = [sys.executable, "-m", "penstock.cli.main", "serve", "--port", str(self.port)]
        command += ["--data", str(self.folder / "data"), "--control", control, *self.options]
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

    def stop(self) -> None:
        """SIGTERM, and wait for its end."""
        assert self.process is not None, "it was started"
        self.process.terminate()
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


@contextmanager
def restarting(
    broker: MortalBroker, count: int, dice: Random, away_s: float, life_s: float = 0.5
) -> Iterator[threading.Event]:
    """Kills `broker` `count` times, or stops it in order, after up to `life_s`, and starts it again
    after up to `away_s`; the event says that this is over. Stops early when the block ends."""
    over, stopping = threading.Event(), threading.Event()

    def run() -> None:
        for number in range(count):
            if stopping.wait(dice.uniform(0.1, life_s)):
                break
            # Two of three by kill -9.
            broker.kill() if number % 3 else broker.stop()
            time.sleep(dice.uniform(0.0, away_s))
            broker.start()
        over.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield over
    finally:
        stopping.set()
        thread.join()
