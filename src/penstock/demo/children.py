"""Starts the processes of a run, chooses the broker's port, and ends every process by its handle.

Each child has its own session, so that Ctrl-C at the terminal reaches the run alone, which then
ends its children in order. A child is asked first (its input is closed, then SIGTERM) and killed
when it has not ended within its time.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

from penstock.base.errors import OperatorError

HOST: Final = "127.0.0.1"
PORT_MAX: Final = 65_535
STOP_SECONDS_MAX: Final = 20.0
LOG_TAIL_BYTES: Final = 2000
LINE_BYTES_MAX: Final = 65_536
LINES_KEPT: Final = 200
"""Of what a child says in words."""

COUNTED: Final = ("published", "confirmed", "delivered")

Status = dict[str, int]


def choose_port(port: int) -> int:
    """`port` if it is free, any free one for 0.

    The port is free when asked; another program may take it first, which the broker
    then reports itself. Raises: OperatorError naming the owner and the fix.
    """
    if not 0 <= port <= PORT_MAX:
        raise OperatorError(f"port {port} does not exist; choose 1 to {PORT_MAX}, or 0 for any")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError as fault:
            raise OperatorError(
                f"port {port} may only be used by root → penstock run --port 0 picks a free port"
            ) from fault
        except OSError as fault:
            # Imported here: it needs the whole broker, and the first line is to be there at once.
            from penstock.server.net.listener import port_owner

            raise OperatorError(
                f"port {port} is used by {port_owner(port)} → penstock run --port 0 picks a free "
                "port"
            ) from fault
        bound: int = probe.getsockname()[1]
        return bound


def connected_from(pid: int, port: int) -> list[str]:
    """Local addresses of the connections of a process to `port`, sorted; [] if unknown."""
    try:
        found = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return []
    return sorted(
        f"{one.laddr.ip}:{one.laddr.port}"
        for one in found
        if one.status == psutil.CONN_ESTABLISHED and one.raddr and one.raddr.port == port
    )


class Child:
    """One running process; `status`: the latest numbers that it printed; `said`: its last lines
    of other text."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.status: Status = {}
        self.said: deque[str] = deque(maxlen=LINES_KEPT)
        self.is_ready = asyncio.Event()
        self._process = process
        self._log = log
        self._reading = asyncio.create_task(self._read(), name=f"read {name}")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.returncode

    def counts(self) -> Status:
        """Of its latest numbers, those of messages."""
        return {name: self.status[name] for name in COUNTED if name in self.status}

    def tell(self, line: str) -> None:
        """Send one line to the child's input."""
        assert self._process.stdin is not None, "every child is started with a pipe"
        self._process.stdin.write(line.encode() + b"\n")

    def close_input(self) -> None:
        """The workers take the end of their input as the wish to finish."""
        assert self._process.stdin is not None, "every child is started with a pipe"
        self._process.stdin.close()

    async def wait(self, seconds_max: float) -> int | None:
        """Its exit status, or None if it still runs after `seconds_max`."""
        try:
            async with asyncio.timeout(seconds_max):
                await self._process.wait()
                await self._reading
        except TimeoutError:
            return None
        return self._process.returncode

    async def stop(self) -> int:
        """End it: SIGTERM, then SIGKILL for one that does not listen. Returns its exit status."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            if await self.wait(STOP_SECONDS_MAX) is None:
                self._process.kill()
        status = await self._process.wait()
        await self._reading
        return status

    def send_signal(self, number: signal.Signals) -> None:
        """Signal the child alone, not what it has started."""
        self._process.send_signal(number)

    async def kill_all(self) -> None:
        """SIGKILL to it and, at once, to all that it has started and that is still of its group."""
        os.killpg(self.pid, signal.SIGKILL)
        await self._process.wait()
        await self._reading

    def log_tail(self) -> str:
        """The last lines it wrote to its log, for an error message."""
        data = self._log.read_bytes()[-LOG_TAIL_BYTES:]
        return data.decode(errors="replace").strip()

    async def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None, "every child is started with a pipe"
        while True:
            try:
                line = await stdout.readline()
            except ValueError:
                # A piece of a line that is longer than LINE_BYTES_MAX: it is no status.
                continue
            if not line:
                return
            fields = _status(line)
            if fields is not None:
                self.status.update(fields)
                self.is_ready.set()
            else:
                self.said.append(line.decode(errors="replace").rstrip())


class Children:
    """All processes of one run, in the order in which they were started."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._children: list[Child] = []

    async def start(
        self,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> Child:
        """Start this Python with `arguments`; its errors go to NAME.log."""
        log = self._log_dir / f"{name}.log"
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                limit=LINE_BYTES_MAX,
            )
        child = Child(name, process, log)
        self._children.append(child)
        return child

    async def until(
        self,
        child: Child,
        is_done: Callable[[], bool],
        seconds_max: float,
        what: str,
    ) -> None:
        """Wait for a state of `child`. Raises: OperatorError if it ends or takes too long."""
        deadline = asyncio.get_running_loop().time() + seconds_max
        while not is_done():
            if child.exit_status is not None:
                raise OperatorError(
                    f"{child.name} ended with status {child.exit_status} before it was {what}:\n"
                    f"{child.log_tail()}"
                )
            if asyncio.get_running_loop().time() > deadline:
                raise OperatorError(
                    f"{child.name} was not {what} after {seconds_max:.0f} s:\n{child.log_tail()}"
                )
            await asyncio.sleep(0.02)

    async def stop_all(self) -> None:
        """End whatever still runs, the last started first."""
        for child in reversed(self._children):
            await child.stop()


def _status(line: bytes) -> Status | None:
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    return {str(name): value for name, value in fields.items() if isinstance(value, int)}
