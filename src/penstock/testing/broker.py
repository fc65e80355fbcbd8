"""A broker in a process of its own, as a context manager, for tests and for trying something out.

    with Broker() as broker:
        pika.BlockingConnection(pika.URLParameters(broker.url))

    async with Broker(profile="rabbitmq-4") as broker:
        await aio_pika.connect(broker.url)

It keeps everything in memory, or in the directory `data`, listens on a free port of this machine
and ends with the block, or with this process, however that ends. A process and not a thread: tests
turn the clock back, patch sockets and block the interpreter, none of which may reach the broker.
"""

import asyncio
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from penstock.base.errors import OperatorError
from penstock.server.control.control_client import ask
from penstock.testing.leftovers import explanation, leftovers
from penstock.testing.vhost import ROWS_MAX, VirtualHost

START: Final = "import gc; gc.disable(); from penstock.testing.child import main; main()"
"""What is imported stays: looking for garbage in it takes a sixth of the time until it is ready."""
START_S: Final = 60.0
STOP_S: Final = 10.0
ANSWER_S: Final = 30.0
UNKNOWN: Final = 2
"""Exit status of `penstock why` for a name that it does not know."""
SOCKET_PATH_BYTES_MAX: Final = 100
"""What systems take as the path of a local socket, about."""
ALARMS: Final = {"memory": ("memory.high", "0"), "disk": ("disk.free_min", "9000PB")}
"""The setting that sets an alarm, and its value for that."""


class Broker(VirtualHost):
    """A broker, and its virtual host "/".

    data: a directory for what is kept, made where it is missing and left there at the end; None for
    everything in memory. settings: keys of the configuration file (docs/profiles.md,
    docs/limits.md), as `profile="rabbitmq-4"` or `queue_depth_bytes=1_000_000`.
    pid: of its process, 0 while there is none.
    """

    def __init__(self, data: str | Path | None = None, **settings: object) -> None:
        super().__init__(self.ask, "127.0.0.1", 0, "/")
        self.data = "" if data is None else str(Path(data).absolute())
        self.settings = settings
        self.control = ""
        self._folder: Path | None = None
        self._process: subprocess.Popen[str] | None = None
        self._made = 0
        self._vhosts: list[VirtualHost] = []
        self._before: dict[str, str] = {}

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    # -- start and stop --------------------------------------------------------------------------

    def start(self) -> Self:
        """Return when clients may come. Raises: OperatorError with what the broker said."""
        assert self._process is None, "it is started once"
        folder = Path(tempfile.mkdtemp(prefix="penstock-test-"))
        if len(os.fsencode(folder)) > SOCKET_PATH_BYTES_MAX - len("/control"):
            folder.rmdir()
            folder = Path(tempfile.mkdtemp(prefix="penstock-test-", dir="/tmp"))
        self._folder = folder
        try:
            self._begin(folder)
        except BaseException:
            self.stop()
            raise
        return self

    def restart(self, is_killed: bool = False) -> None:
        """Stop it and start it again, on the same port: with what it has in `data`, empty without,
        but for virtual hosts, which are there again. Clients are told, or, with is_killed, lose
        their connections as by `kill -9`. Alarms that were raised are over.
        Raises: OperatorError."""
        folder = self._folder
        if folder is None:
            raise OperatorError("the broker for tests is not running; there is nothing to restart")
        self._end(is_killed)
        self._before.clear()
        # As systemd does: what a broker that was killed has left is no other broker's.
        (folder / "control").unlink(missing_ok=True)
        self._begin(folder)
        names = self._vhost_names()
        for one in self._vhosts:
            if not one.is_deleted and one.name not in names:
                self.ask("vhosts", do="add", name=one.name)

    def _begin(self, folder: Path) -> None:
        """Raises: OperatorError with what the broker said."""
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                # -P: what lies in the current directory is not imported instead of a library.
                [sys.executable, "-P", "-c", START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Ctrl-C is for the test run, which then stops its broker.
                start_new_session=True,
            )
        request = {"folder": str(folder), "settings": self.settings}
        self._meet(self._process, {**request, "data": self.data, "port": self.port})

    def _meet(self, process: subprocess.Popen[str], request: dict[str, object]) -> None:
        assert process.stdin is not None and process.stdout is not None, "asked for"
        # A path is as good as its text.
        process.stdin.write(json.dumps(request, default=str) + "\n")
        process.stdin.flush()
        line = _line_of(process.stdout, START_S)
        if not line:
            raise OperatorError(f"the broker for tests did not start:\n{self.log()}")
        answer = json.loads(line)
        if "error" in answer:
            raise OperatorError(answer["error"])
        self.port = answer["port"]
        self.control = answer["control"]

    def stop(self) -> None:
        """End it; its clients are told. Nothing is kept but what is in `data`."""
        self._end(is_killed=False)
        folder, self._folder = self._folder, None
        self.port = 0
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _end(self, is_killed: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        (process.kill if is_killed else process.terminate)()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None, "asked for"
            pipe.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        try:
            if error is not None:
                error.add_note(self.leftovers())
        finally:
            self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, at)

    # -- looking ---------------------------------------------------------------------------------

    def ask(self, op: str, **request: object) -> dict[str, Any]:
        """One question to its control socket, as commands ask it. Raises: OperatorError."""
        if self._process is None:
            raise OperatorError(
                "the broker for tests is not running; use it inside its `with` block"
            )
        if self._process.poll() is not None:
            status = self._process.returncode
            raise OperatorError(
                f"the broker for tests has ended with status {status}:\n{self.log()}"
            )
        return ask(self.control, {"op": op, **request}, ANSWER_S)

    def why(self, kind: str = "publish", name: str = "", window_s: float = 10.0) -> str:
        """What `penstock why KIND NAME` prints: who waits, for whom, since when and why, up to this
        moment. It takes up to 0.2 s."""
        return str(explanation(self.ask, kind, name, window_s)["text"])

    def blocked_share(self, kind: str, name: str, window_s: float = 10.0) -> float:
        """For how much of the last seconds a connection, channel or queue was held, 0.0 to 1.0.

        Raises: LookupError if the broker knows nothing of that name; OperatorError."""
        answer = explanation(self.ask, kind, name, window_s)
        if answer["exit_status"] == UNKNOWN:
            raise LookupError(answer["text"])
        return float(answer["explanation"]["blocked_share"])

    def log(self, from_bytes: int = 0) -> str:
        """What the broker has written to its log, "" before it was started."""
        if self._folder is None:
            return ""
        return (self._folder / "log").read_bytes()[from_bytes:].decode(errors="replace")

    def log_bytes(self) -> int:
        """How long its log is now."""
        return 0 if self._folder is None else (self._folder / "log").stat().st_size

    def leftovers(self, vhost: str = "", log_from: int = 0, window_s: float = 10.0) -> str:
        """For a failed test: what is left in queues, of one virtual host or of all (""), who is
        held, alarms, and the log of the broker."""
        return leftovers(self.ask, vhost, self.log(log_from), window_s)

    # -- acting ----------------------------------------------------------------------------------

    @contextmanager
    def vhost(self, name: str = "") -> Iterator[VirtualHost]:
        """A virtual host of its own for the block, removed afterwards with all that is in it."""
        made = self.new_vhost(name)
        try:
            yield made
        finally:
            made.delete()

    def new_vhost(self, name: str = "") -> VirtualHost:
        """A virtual host that stays until its `delete`. name: as given if it is free, with a number
        behind it otherwise."""
        self._made += 1
        wanted = name or f"test-{self._made}"
        if wanted in self._vhost_names():
            wanted = f"{wanted}-{self._made}"
        self.ask("vhosts", do="add", name=wanted)
        made = VirtualHost(self.ask, self.host, self.port, wanted)
        self._vhosts = [*(one for one in self._vhosts if not one.is_deleted), made]
        return made

    def _vhost_names(self) -> set[str]:
        answer = self.ask("vhosts", do="list", limit=ROWS_MAX)
        return {row["name"] for row in answer["vhosts"]}

    def raise_alarm(self, resource: str = "memory") -> None:
        """Set the alarm of `memory` or `disk`: clients that publish are told connection.blocked and
        held, in all virtual hosts, until it is cleared."""
        key, value = _alarm(resource)
        before = self.ask("flow", do="set", changes={key: value})["changes"][0]["before"]
        self._before.setdefault(resource, before)

    def clear_alarm(self, resource: str = "memory") -> None:
        """End it; nothing if it is not set."""
        before = self._before.pop(resource, None)
        if before is not None:
            self.ask("flow", do="set", changes={_alarm(resource)[0]: before})

    def calm(self) -> None:
        """Clear the alarms that were raised, and resume the queues of the virtual host `/` that
        were paused, for the next test. Nothing where it has died: whoever asks it is told."""
        if self._process is None or self._process.poll() is not None:
            return
        for resource in list(self._before):
            self.clear_alarm(resource)
        if self.paused:
            for queue in self.paused & self.queues().keys():
                self.resume(queue)
        self.paused.clear()


def _alarm(resource: str) -> tuple[str, str]:
    if resource not in ALARMS:
        raise ValueError(f"alarm '{resource}' is unknown; one of: {', '.join(ALARMS)}")
    return ALARMS[resource]


def _line_of(pipe: IO[str], seconds: float) -> str:
    """The first line of `pipe`, "" when it ends, or nothing comes for that long."""
    end_s = time.monotonic() + seconds
    found = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not found.endswith(b"\n"):
            if not selector.select(max(0.0, end_s - time.monotonic())):
                return ""
            piece = os.read(pipe.fileno(), 65_536)
            if not piece:
                return ""
            found += piece
    return found.decode()
