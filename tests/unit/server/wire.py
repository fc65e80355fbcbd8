"""A node of its own inside a test's event loop, and raw AMQP clients on real sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from penstock.base.config import Config
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.methods.codec import decode_method, method_frame
from penstock.server.boot.node import Node
from tests.patience import PATIENCE_S
from tests.unit.broker.peer import LogBook, start_ok

T = TypeVar("T", bound=m.Method)


@asynccontextmanager
async def running(directory: Path, **settings: object) -> AsyncIterator[Node]:
    """A node on a free port, with its control socket in `directory`. settings: of Config."""
    settings.setdefault("control_socket", str(directory / "control.sock"))
    config = Config(port=0, **settings)  # type: ignore[arg-type]  # tests name fields of Config
    node = Node(config, asyncio.get_running_loop(), LogBook())
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


def book_of(node: Node) -> LogBook:
    assert isinstance(node.log, LogBook)
    return node.log


async def until(is_so: Callable[[], object]) -> None:
    """Return once `is_so()`. Raises: TimeoutError after PATIENCE_S."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.001)


class Wire:
    """One client. Every wait ends after PATIENCE_S at the latest."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.heartbeats = 0

    @staticmethod
    async def connect(node: Node) -> "Wire":
        assert node.listener is not None
        return Wire(*await asyncio.open_connection("127.0.0.1", node.listener.port))

    @staticmethod
    async def opened(node: Node, heartbeat_s: int = 0) -> "Wire":
        """One that has connected and said hello, with channel 1."""
        wire = await Wire.connect(node)
        await wire.open(heartbeat_s)
        return wire

    async def open(self, heartbeat_s: int = 0) -> None:
        """The whole handshake, and channel 1."""
        self.writer.write(PROTOCOL_HEADER)
        await self.expect(m.ConnectionStart)
        self.say(0, start_ok())
        await self.expect(m.ConnectionTune)
        self.say(0, m.ConnectionTuneOk(2047, 131_072, heartbeat_s), m.ConnectionOpen("/"))
        await self.expect(m.ConnectionOpenOk)
        self.say(1, m.ChannelOpen())
        await self.expect(m.ChannelOpenOk)

    def say(self, channel: int, *said: m.Method) -> None:
        self.writer.write(b"".join(method_frame(channel, one) for one in said))

    async def expect(self, kind: type[T]) -> T:
        """The next method, which must be of this kind; heartbeats are counted."""
        while True:
            head = await self.read(7)
            payload = (await self.read(int.from_bytes(head[3:], "big") + 1))[:-1]
            if head[0] == 8:
                self.heartbeats += 1
                continue
            assert head[0] == 1, f"expected {kind.__name__}, got frame {head[0]}"
            method = decode_method(payload)
            assert isinstance(method, kind), f"expected {kind.__name__}, got {method}"
            return method

    async def read(self, count: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(count), PATIENCE_S)

    async def rest(self) -> bytes:
        """Everything until the broker hangs up."""
        try:
            return await asyncio.wait_for(self.reader.read(-1), PATIENCE_S)
        except ConnectionError:
            # Reset, or a broken pipe: which one depends on who was writing at that moment.
            return b""

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            return
