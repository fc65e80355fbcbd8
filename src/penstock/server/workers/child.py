"""One worker: a whole broker with its own virtual hosts, started by the parent (cli/worker_child).

It stops in order when the parent is gone or wants it to: then its pipe ends.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.session.handover import NOT_ELSEWHERE
from penstock.server.boot.log_lines import log_of
from penstock.server.boot.node import MakeTokens, Node
from penstock.server.machine.clock import SystemClock
from penstock.server.machine.settle import settle_process
from penstock.server.net.listener import raise_limit
from penstock.server.workers.pipe import Ready, Start, Told, line_of

LINE_BYTES_MAX: Final = 1 << 26
"""Of all places together: some hundred thousand virtual hosts."""
MakerOf = Callable[[Config], MakeTokens | None]
"""What verifies tokens, for a configuration that wants any."""


def main(fd: int, maker_of: MakerOf) -> int:
    """The exit code: 0 after a clean stop, 1 with a sentence."""
    # Ctrl-C stops the parent, which then stops this one in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock = socket.socket(fileno=fd)
    sock.set_inheritable(False)
    return asyncio.run(_serve(sock, maker_of))


async def _serve(sock: socket.socket, maker_of: MakerOf) -> int:
    reader, writer = await asyncio.open_connection(sock=sock, limit=LINE_BYTES_MAX)
    worker: Worker | None = None
    try:
        line = await reader.readline()
        if not line:
            return 0
        worker = Worker(msgspec.json.decode(line, type=Start), maker_of)
        await worker.run(reader, writer)
    except OperatorError as fault:
        if worker is None or not worker.has_served:
            # The parent says it.
            with suppress(OSError):
                writer.write(line_of(Ready(str(fault))))
                await writer.drain()
                return 1
        print(f"Error: {fault}", file=sys.stderr, flush=True)
        return 1
    finally:
        writer.close()
    return 0


class Worker:
    """places: who has which virtual host, as the parent has said last."""

    def __init__(self, start: Start, maker_of: MakerOf) -> None:
        """Raises: OperatorError."""
        self.start = start
        config = start.config
        # A client of another worker whose TLS ends here takes two files.
        raise_limit(config.connections_max * 2)
        log = log_of(config, SystemClock())
        log.who = f"worker {start.worker}: "
        self.node = Node(config, asyncio.get_running_loop(), log, maker_of(config))
        self.node.inherited = start.inherited
        self.asked = asyncio.Event()
        self.node.on_failure = self.asked.set
        self.places = start.places
        self.has_served = False
        self.node.join(
            socket.socket(fileno=start.receive),
            {worker: socket.socket(fileno=fd) for worker, fd in start.send.items()},
            self._worker_of,
        )

    def _worker_of(self, vhost: str) -> int:
        """Which other worker has it, NOT_ELSEWHERE for none."""
        worker = self.places.get(vhost, NOT_ELSEWHERE)
        return NOT_ELSEWHERE if worker == self.start.worker else worker

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the parent wants a stop, or is gone. Raises: OperatorError."""
        node = self.node
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.asked.set)
        hearing = loop.create_task(self._hear(reader))
        try:
            await node.start()
            settle_process()
            self.has_served = True
            writer.write(line_of(self._ready()))
            await self.asked.wait()
        finally:
            hearing.cancel()
            await node.stop()
        if node.failure is not None:
            raise node.failure

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        """What the parent says, until it says no more."""
        try:
            while line := await reader.readline():
                self._told(msgspec.json.decode(line, type=Told))
        except (OSError, ValueError) as fault:
            # What cannot be read is of a parent that is none any more.
            self.node.log.error("the parent cannot be heard", fault)
        finally:
            self.asked.set()

    def _told(self, told: Told) -> None:
        if told.places is not None:
            self.places = told.places
        if told.pids is not None:
            own = os.getpid()
            self.node.probe.others = tuple(pid for pid in told.pids if pid != own)
        if told.config is not None:
            self.node.hang_up(told.config)

    def _ready(self) -> Ready:
        keeping = self.node.keeping
        if keeping is None:
            return Ready()
        back = keeping.restored
        return Ready(
            queues=back.queues,
            exchanges=back.exchanges,
            bindings=back.bindings,
            messages=keeping.stores.count + keeping.streams.count,
        )
