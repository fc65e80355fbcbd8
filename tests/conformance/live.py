"""Starts a broker as a process of its own, waits until it answers, and checks how it ends."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from urllib.parse import unquote, urlsplit

from penstock.server.control.control_client import ask, control_path
from tests.patience import PATIENCE_S

POLL_S = 0.02
# Below those the system gives to outgoing connections, and to whoever asks for any port.
PORTS = range(20_000, 32_000)
RESERVED_MAX = 64
_reserved: deque[int] = deque()


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

    def asked(self, op: str, **request: object) -> dict[str, object]:
        """What the broker answers at its control socket."""
        return ask(control_path(self.port), {"op": op, **request}, PATIENCE_S)

    def change(self, key: str, value: str) -> None:
        """What `penstock flow set KEY=VALUE` does."""
        self.asked("flow", do="set", changes={key: value})

    @property
    def patient_url(self) -> str:
        """The same for Penstock's own client, with as much time to connect as tests have."""
        return f"{self.url}?connection_timeout={PATIENCE_S * 1000:.0f}"


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


def lock_of(port: int) -> Path:
    """The file that whoever has reserved `port` holds a lock on."""
    return Path(tempfile.gettempdir(), f"penstock-test-ports-{os.getuid()}", str(port))


def free_port() -> int:
    """A loopback TCP port nobody listens on, and no other test run takes before it is used.

    It is this process's own until it ends, or has asked for RESERVED_MAX more.
    """
    # The order must differ from run to run, which the tests' own chance does not.
    for port in SystemRandom().sample(PORTS, len(PORTS)):
        path = lock_of(port)
        path.parent.mkdir(exist_ok=True)
        lock = os.open(path, os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(lock)
            continue
        if len(_reserved) == RESERVED_MAX:
            os.close(_reserved.popleft())
        _reserved.append(lock)
        return port
    raise AssertionError(f"no port of {PORTS} is free")


@contextmanager
def penstock_process(
    folder: Path,
    *options: str,
    config: str = "",
    data: Path | None = None,
    end: signal.Signals = signal.SIGTERM,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Broker]:
    """Run `penstock serve` with its output in `folder`; end it by `end` and check how it ended.

    config: the text of its configuration file, "" for none; data: where it keeps things, None for
    `--memory`.

    Raises: AssertionError if it does not start, does not exit as it should within `PATIENCE_S`, or
    wrote a traceback to stderr.
    """
    port = free_port()
    command = [sys.executable, "-m", "penstock.cli.main", "serve", "--port", str(port), *options]
    command += ["--memory"] if data is None else ["--data", str(data)]
    if config:
        (folder / "penstock.toml").write_text(config, encoding="utf-8")
        command += ["--config", str(folder / "penstock.toml")]
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
            wait_ready(process, port, errors_path)
            yield Broker("127.0.0.1", port, pid=process.pid)
            assert process.poll() is None, f"broker died: {_tail(errors_path)}"
            process.send_signal(end)
            code = process.wait(PATIENCE_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    errors = errors_path.read_text(errors="replace")
    assert "Traceback" not in errors, _tail(errors_path)
    assert code == (0 if end is signal.SIGTERM else -end), f"status {code}: {_tail(errors_path)}"


def wait_ready(
    process: subprocess.Popen[bytes], port: int, errors: Path, control: str = ""
) -> None:
    """Return once the broker accepts connections, at its control socket, too; poll because a socket
    has no other sign of it.

    control: where that is, unless where the broker puts it by itself.
    Raises: AssertionError if the process ends first or `PATIENCE_S` passes.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    waited_for: list[tuple[int, tuple[str, int] | str]] = [
        (socket.AF_INET, ("127.0.0.1", port)),
        (socket.AF_UNIX, control or control_path(port)),
    ]
    while waited_for:
        assert process.poll() is None, f"broker did not start: {_tail(errors)}"
        family, address = waited_for[0]
        with socket.socket(family) as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(address) == 0:
                del waited_for[0]
                continue
        assert time.monotonic() < deadline_s, f"broker not ready: {_tail(errors)}"
        time.sleep(POLL_S)


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-4000:]
