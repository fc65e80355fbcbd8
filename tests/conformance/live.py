"""Starts a broker as a process of its own, waits until it answers, and checks how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

READY_S_MAX = 20.0
STOP_S_MAX = 15.0
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Broker:
    """Where a broker listens and who may log in.

    pid: the process, when this run started it; 0 when it was there before.
    """

    host: str
    port: int
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"
    pid: int = 0

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, as sockets want them."""
        return self.host, self.port

    @property
    def url(self) -> str:
        """The AMQP URL of the default virtual host."""
        return f"amqp://{self.user}:{self.password}@{self.host}:{self.port}/%2F"


def from_url(url: str) -> Broker:
    """The broker an `amqp://user:password@host:port/vhost` URL names; guest and 5672 by default."""
    parts = urlsplit(url)
    return Broker(
        parts.hostname or "127.0.0.1",
        parts.port or 5672,
        unquote(parts.username or "guest"),
        unquote(parts.password or "guest"),
        unquote(parts.path.removeprefix("/")) or "/",
    )


def free_port() -> int:
    """A loopback TCP port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def penstock_process(
    folder: Path, *options: str, environment: Mapping[str, str] | None = None
) -> Iterator[Broker]:
    """Run `penstock serve --memory` with its output in `folder`; stop it and check how it ended.

    Raises: AssertionError if it does not start, does not exit with 0 on SIGTERM within
    `STOP_S_MAX`, or wrote a traceback to stderr.
    """
    port = free_port()
    command = [sys.executable, "-m", "penstock.cli.main", "serve", "--memory"]
    command += ["--port", str(port), *options]
    errors_path = folder / "stderr.txt"
    with (folder / "stdout.txt").open("wb") as out, errors_path.open("wb") as err:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=err,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )
        try:
            wait_ready(process, ("127.0.0.1", port), errors_path)
            yield Broker("127.0.0.1", port, pid=process.pid)
            assert process.poll() is None, f"broker died: {_tail(errors_path)}"
            process.send_signal(signal.SIGTERM)
            code = process.wait(STOP_S_MAX)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    errors = errors_path.read_text(errors="replace")
    assert "Traceback" not in errors, _tail(errors_path)
    assert code == 0, f"exit status {code}: {_tail(errors_path)}"


def wait_ready(process: subprocess.Popen[bytes], address: tuple[str, int], errors: Path) -> None:
    """Return once `address` accepts connections; poll because a socket has no other sign of it.

    Raises: AssertionError if the process ends first or `READY_S_MAX` passes.
    """
    deadline = time.monotonic() + READY_S_MAX
    while True:
        assert process.poll() is None, f"broker did not start: {_tail(errors)}"
        try:
            socket.create_connection(address, timeout=1.0).close()
            return
        except OSError:
            assert time.monotonic() < deadline, f"broker not ready: {_tail(errors)}"
            time.sleep(POLL_S)


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-4000:]
