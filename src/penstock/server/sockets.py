"""One client's socket: bytes in to its connection, bytes out from its output buffer.

The data path is `add_reader`, one `recv` per event and one `send` per turn; asyncio transports are
not used because they read on while nobody can take more (docs/adr). Reading pauses when the
connection's gate is closed while data arrives, so short stops cost no system call.
"""

import asyncio
import socket

from penstock.broker.broker import Broker
from penstock.broker.output import Output, OutputLine
from penstock.broker.reader import PHASE_CLOSED, PHASE_CLOSING, Connection
from penstock.broker.shell import Shell
from penstock.server.turns import Turns

READ_BYTES = 65_536
"""One read: the quantum of fairness between connections."""


class SocketOutput(Output):
    """The output buffer of one socket. `pending`: bytes the socket would not take yet."""

    __slots__ = ("is_closing", "is_writing", "loop", "pending", "sent_bytes", "shell", "sock")

    def __init__(
        self,
        line: OutputLine,
        high_bytes: int,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
    ) -> None:
        super().__init__(line, high_bytes)
        self.loop = loop
        self.sock = sock
        self.pending = b""
        self.is_writing = False
        self.is_closing = False
        self.sent_bytes = 0
        self.shell: SocketShell | None = None

    def _send(self) -> None:
        data = self.writer.getvalue()
        self.writer.truncate(0)
        if self.pending:
            self.pending += data
        elif data:
            self.pending = self._offer(data)
        self.held_bytes = len(self.pending)
        if self.pending:
            if not self.is_writing:
                self.is_writing = True
                self.loop.add_writer(self.sock, self.writable)
        elif self.is_closing and self.shell is not None:
            self.shell.close()

    def _offer(self, data: bytes) -> bytes:
        """Send what the socket takes now; the rest."""
        try:
            count = self.sock.send(data)
        except BlockingIOError:
            return data
        except OSError:
            if self.shell is not None:
                self.shell.lost()
            return b""
        self.sent_bytes += count
        return data[count:] if count < len(data) else b""

    def writable(self) -> None:
        """The loop says the socket takes more."""
        self.pending = self._offer(self.pending)
        self.held_bytes = len(self.pending)
        if not self.pending:
            self.stop_writing()
            if self.is_closing and self.shell is not None and len(self.writer) == 0:
                self.shell.close()
        self.settle()
        if self.shell is not None:
            self.shell.turns.request()

    def stop_writing(self) -> None:
        if self.is_writing:
            self.is_writing = False
            self.loop.remove_writer(self.sock)

    def close(self) -> None:
        super().close()
        self.stop_writing()


class SocketShell(Shell):
    """Owns one accepted socket until it is closed."""

    __slots__ = (
        "broker",
        "connection",
        "is_closed",
        "is_reading",
        "loop",
        "output",
        "received_bytes",
        "sock",
        "turns",
    )

    def __init__(
        self,
        broker: Broker,
        turns: Turns,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        peer_host: str,
        peer: str,
    ) -> None:
        self.broker = broker
        self.turns = turns
        self.loop = loop
        self.sock = sock
        self.is_closed = False
        self.is_reading = True
        self.received_bytes = 0
        self.output = SocketOutput(
            broker.scheduler.outputs, broker.config.socket_output_high_bytes, loop, sock
        )
        self.output.shell = self
        self.connection: Connection = broker.accept(peer_host, peer, self.output, self)
        loop.add_reader(sock, self.readable)

    def readable(self) -> None:
        """The loop says there is input."""
        connection = self.connection
        if not connection.can_receive():
            if not connection.gate.is_open:
                self.pause()
            return
        try:
            data = self.sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.lost()
            return
        if not data:
            self.lost()
            return
        self.received_bytes += len(data)
        connection.receive(data)
        self.turns.request()

    def pause(self) -> None:
        """Stop reading; the peer's bytes wait in the kernel, and its silence counts for nothing."""
        if self.is_reading:
            self.is_reading = False
            self.loop.remove_reader(self.sock)
            negotiator = self.broker.negotiators.get(self.connection.name)
            if negotiator is not None and negotiator.heartbeat is not None:
                negotiator.heartbeat.pause()

    def resume(self) -> None:
        if not self.is_reading and not self.is_closed:
            self.is_reading = True
            self.loop.add_reader(self.sock, self.readable)
            negotiator = self.broker.negotiators.get(self.connection.name)
            if negotiator is not None and negotiator.heartbeat is not None:
                negotiator.heartbeat.resume(self.broker.clock.monotonic_ns())

    def close_after_output(self) -> None:
        self.output.is_closing = True
        self.output.mark()
        self.turns.request()

    def lost(self) -> None:
        """The peer is gone."""
        self.close()

    def close(self) -> None:
        """Close the socket and everything that hangs on it; again does nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        if self.is_reading:
            self.is_reading = False
            self.loop.remove_reader(self.sock)
        self.output.close()
        self.sock.close()
        if self.connection.phase != PHASE_CLOSED:
            self.connection.phase = PHASE_CLOSING
            self.broker.lost(self.connection)
        self.turns.request()
