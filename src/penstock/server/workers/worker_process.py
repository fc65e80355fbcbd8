"""One worker as the parent sees it: a process that is started, heard, told and stopped."""

import asyncio
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from penstock.base.errors import OperatorError
from penstock.server.machine.spawn import spawn_child
from penstock.server.workers.pipe import Ready, line_of

MODULE: Final = "penstock.cli.worker_child"
STOP_S: Final = 30.0
"""For a worker to write what it has, after which it is killed."""
LINE_BYTES: Final = 1 << 20


class StartOf(Protocol):
    """The first line to it."""

    @property
    def worker(self) -> int: ...


class WorkerProcess:
    """Of one start. handles: descriptors that it inherits; shape: of what it says, which `heard` is
    called with. ready: set once it serves, or has said
    why not; ended: its exit code, once it is gone. Raises: OperatorError when there is none."""

    def __init__(
        self,
        start: StartOf,
        handles: tuple[int, ...],
        module: str = MODULE,
        shape: type[Ready] = Ready,
        heard: Callable[[Ready], None] | None = None,
    ) -> None:
        self.worker = start.worker
        self._shape = shape
        self._told_of = heard
        try:
            self.process, self._sock = spawn_child(handles, module)
        except OSError as fault:
            raise OperatorError(f"worker {start.worker} cannot be started: {fault}") from fault
        self._sock.setblocking(False)
        self._writer: asyncio.StreamWriter | None = None
        self._unsent = [line_of(start)]
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[Ready] = loop.create_future()
        self.ended: asyncio.Task[int] = loop.create_task(self._run())

    @property
    def pid(self) -> int:
        return self.process.pid

    async def _run(self) -> int:
        reader, writer = await asyncio.open_connection(sock=self._sock, limit=LINE_BYTES)
        self._writer = writer
        for line in self._unsent:
            writer.write(line)
        self._unsent.clear()
        try:
            # Its end is the end of the process, or will be.
            while line := await reader.readline():
                self._heard(msgspec.json.decode(line, type=self._shape))
        except (OSError, ValueError):
            # Cut off in the middle, which the end of the process says as well.
            pass
        code = await asyncio.get_running_loop().run_in_executor(None, self._wait)
        writer.close()
        self._writer = None
        self._heard(Ready(f"it has ended before it served ({shown(code)})"))
        return code

    def _heard(self, said: Ready) -> None:
        if self._told_of is not None:
            self._told_of(said)
        if not self.ready.done():
            self.ready.set_result(said)

    def _wait(self) -> int:
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def tell(self, told: msgspec.Struct) -> None:
        line = line_of(told)
        if self._writer is None:
            self._unsent.append(line)
        else:
            self._writer.write(line)

    async def stop(self) -> int:
        """In order. The exit code."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.write_eof()
        return await self.ended


def shown(code: int) -> str:
    """An exit code, for people."""
    if code >= 0:
        return f"status {code}"
    try:
        return f"signal {-code}, {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
