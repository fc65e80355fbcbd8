"""A broker on one port and one data directory that is killed and started again."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests.conformance.live import free_port, wait_ready


class MortalBroker:
    """A broker process with a data directory in `folder`. lives: how often it was started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.lives = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self.lives += 1
        command = [sys.executable, "-m", "penstock.cli.main", "serve"]
        command += ["--data", str(self.folder / "data"), "--port", str(self.port)]
        errors = self.folder / "stderr.txt"
        with (self.folder / "stdout.txt").open("wb") as out, errors.open("ab") as err:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env=dict(os.environ)
            )
        wait_ready(self.process, self.port, errors)

    def kill(self) -> None:
        """kill -9, and wait for its end."""
        assert self.process is not None, "it was started"
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> "MortalBroker":
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
