"""One client's socket: bytes in to its connection, bytes out from its output buffer.

One `recv` per event and one `send` per turn on the bare socket; asyncio transports are not used
because they read on while nobody can take more (docs/adr). Reading pauses when data arrives that
the connection's closed gate keeps out, so short stops cost no system call.
"""

import socket
from contextlib import suppress
from typing import Final

from penstock.broker.actors.output import NO_PIECES, Output, OutputLine, Shell
from penstock.broker.broker import Broker
from penstock.broker.connection.connection import Connection
from penstock.broker.connection.phases import ENDS, PHASE_CLOSED
from penstock.broker.session.access import TlsPeer
from penstock.server.net.lingering import READ_BYTES, Lingering
from penstock.server.net.poller import READ, WRITE, Poller, Watched
from penstock.server.net.stall_timeout import unsent_bytes, watch_host
from penstock.server.net.tls import TlsFault, TlsSession

PIECES_PER_SEND: Final = 256
"""Pieces handed to one sendmsg; the system's own limit is 1024."""
PENDING_PIECE_BYTES: Final = 65_536
"""What waits for the socket in smaller pieces is joined into one."""


NOT_WATCHED: Final = Watched()


class SocketWatch(Watched):
    """The shell as the poller sees it."""

    __slots__ = ("shell",)

    def __init__(self, shell: "SocketShell") -> None:
        self.shell = shell

    def readable(self) -> bool:
        return self.shell.readable()

    def writable(self) -> None:
        self.shell.output.writable()

    def pause_if_stuck(self) -> None:
        self.shell.pause_if_stuck()

    def gone(self) -> None:
        self.shell.close()


class SocketOutput(Output):
    """The output buffer of one socket. `pending`: what the socket would not take yet, encrypted
    with TLS, and of its first piece only what is behind `pending_at`; shell: None once it is
    closed, when nothing is sent any more."""

    __slots__ = (
        "is_closing",
        "is_writing",
        "pending",
        "pending_at",
        "sent_bytes",
        "shell",
        "sock",
        "tls",
    )

    def __init__(
        self, line: OutputLine, high_bytes: int, sock: socket.socket, tls: TlsSession | None
    ) -> None:
        super().__init__(line, high_bytes)
        self.tls = tls
        self.takes_pieces = True
        self.sock = sock
        self.pending = NO_PIECES
        self.pending_at = 0
        self.is_writing = False
        self.is_closing = False
        self.sent_bytes = 0
        self.shell: SocketShell | None = None

    def close(self) -> None:
        super().close()
        self.pending = NO_PIECES
        self.pending_at = 0
        self.held_bytes = 0
        self.shell = None

    def _send(self) -> None:
        if self.shell is None:
            self.close()
            return
        data = self.writer.getvalue()
        self.writer.truncate(0)
        pieces = self.pieces
        if self.tls is not None:
            if pieces:
                self.pieces = NO_PIECES
                pieces.append(data)
                data = b"".join(pieces)
                pieces = []
            data = self._sealed(data)
        if pieces:
            self.pieces = NO_PIECES
            if data:
                pieces.append(data)
            self._send_pieces(pieces)
        elif self.pending:
            self._keep(data)
        elif data:
            self._offer(data)
        if self.pending:
            self._watch_writing(True)
        elif self.is_closing and self.shell is not None:
            self.shell.linger()

    def _sealed(self, data: bytes) -> bytes:
        """What TLS sends for `data`."""
        assert self.tls is not None, "whoever asks knows"
        try:
            return self.tls.sealed(data)
        except TlsFault:
            self._lost()
            return b""

    def _offer(self, data: bytes) -> None:
        """Send what the socket takes of `data` now, while nothing is pending; the rest is then."""
        try:
            count = self.sock.send(data)
        except BlockingIOError:
            count = 0
        except OSError:
            self._lost()
            return
        self.sent_bytes += count
        if count < len(data):
            self.pending = [data]
            self.pending_at = count
            self.held_bytes = len(data) - count

    def _send_pieces(self, pieces: list[bytes]) -> None:
        """`pieces` are next, and nobody else has the list."""
        if self.pending:
            for piece in pieces:
                self._keep(piece)
            return
        self.pending = pieces
        self.pending_at = 0
        size = 0
        for piece in pieces:
            size += len(piece)
        self.held_bytes = size
        self._offer_pending()

    def _keep(self, data: bytes) -> None:
        """`data` waits behind what is pending. Nothing large is copied, however much waits."""
        if not data:
            return
        pending = self.pending
        self.held_bytes += len(data)
        if len(pending[-1]) + len(data) <= PENDING_PIECE_BYTES:
            pending[-1] += data
        else:
            pending.append(data)

    def _offer_pending(self) -> None:
        """Send what the socket takes now of what is pending, without joining it."""
        pending = self.pending
        first = 0
        while first < len(pending):
            group: list[bytes | memoryview] = []
            size = -self.pending_at
            for piece in pending[first : first + PIECES_PER_SEND]:
                group.append(piece)
                size += len(piece)
            if self.pending_at > 0:
                group[0] = memoryview(pending[first])[self.pending_at :]
            try:
                count = self.sock.sendmsg(group)
            except BlockingIOError:
                count = 0
            except OSError:
                self._lost()
                return
            self.sent_bytes += count
            self.held_bytes -= count
            if count < size:
                at = self.pending_at + count
                while at >= len(pending[first]):
                    at -= len(pending[first])
                    first += 1
                self.pending_at = at
                break
            self.pending_at = 0
            first += len(group)
        if first < len(pending):
            del pending[:first]
        else:
            self.pending = NO_PIECES

    def writable(self) -> None:
        """The poller says the socket takes more."""
        self._offer_pending()
        if not self.pending:
            self._watch_writing(False)
            if self.is_closing and self.shell is not None and len(self.writer) == 0:
                self.shell.linger()
        self.settle()
        if self.shell is not None:
            self.shell.poller.request()

    def _watch_writing(self, is_writing: bool) -> None:
        if self.is_writing != is_writing and self.shell is not None:
            self.is_writing = is_writing
            self.shell.watch()

    def _lost(self) -> None:
        if self.shell is not None:
            self.shell.close()


class SocketShell(Shell):
    """Owns one accepted socket until it is closed; `shells`: where it is listed until then;
    `lingering`: who has the socket after that, if the peer may still write; `tls`: what its bytes
    go through, None without TLS."""

    __slots__ = (
        "broker",
        "connection",
        "is_closed",
        "is_reading",
        "lingering",
        "output",
        "poller",
        "received_bytes",
        "shells",
        "sock",
        "tls",
        "watched",
    )

    def __init__(
        self,
        broker: Broker,
        poller: Poller,
        sock: socket.socket,
        peer_host: str,
        peer: str,
        shells: "set[SocketShell]",
        lingering: Lingering,
        tls: TlsSession | None = None,
        tls_peer: TlsPeer | None = None,
    ) -> None:
        self.broker = broker
        self.tls = tls
        self.poller = poller
        self.sock = sock
        self.is_closed = False
        self.is_reading = True
        self.received_bytes = 0
        self.output = SocketOutput(
            broker.scheduler.outputs, broker.config.socket_output_high_bytes, sock, tls
        )
        self.output.shell = self
        self.watched: Watched = SocketWatch(self)
        self.connection: Connection = broker.accept(peer_host, peer, self.output, self, tls_peer)
        poller.watch(sock, self.watched, READ)
        self.lingering = lingering
        self.shells = shells
        shells.add(self)

    def readable(self) -> bool:
        """There is input; False if the connection cannot take it now."""
        connection = self.connection
        if not connection.can_receive():
            return False
        try:
            data = self.sock.recv(READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            self.close()
            return True
        if not data:
            self.close()
            return True
        self.received_bytes += len(data)
        if len(data) == READ_BYTES:
            self.poller.is_more_likely = True
            self.poller.has_backlog = True
        if self.tls is not None:
            self.decrypt(data)
        else:
            connection.receive(data)
        return True

    def decrypt(self, data: bytes) -> None:
        """Bytes of TLS have come; b"" for what came together with the end of the handshake."""
        tls = self.tls
        assert tls is not None, "whoever calls knows"
        try:
            content = tls.opened(data)
        except TlsFault as fault:
            self.broker.note(f"{self.connection.name}: TLS: {fault}; closed")
            self.close()
            return
        if tls.is_ended and not content:
            self.close()
            return
        if content:
            self.connection.receive(content)
        if tls.is_ended:
            # The socket is closed once the connection has heard all of it, see `resume`.
            self.connection.wake()
        elif tls.has_answer:
            self.output.mark()

    def pause_if_stuck(self) -> None:
        """Stop reading if the gate is closed; the peer's bytes wait in the kernel, and its silence
        counts for nothing meanwhile."""
        if self.is_reading and not self.is_closed and not self.connection.gate.is_open:
            self.is_reading = False
            self.watch()
            negotiator = self.broker.negotiators.get(self.connection.name)
            if negotiator is not None and negotiator.heartbeat is not None:
                negotiator.heartbeat.pause()

    def resume(self) -> None:
        if self.tls is not None and self.tls.is_ended:
            # Nothing more comes; what there is to say to what came goes out first.
            self.poller.loop.call_soon(self.close)
        if not self.is_reading and not self.is_closed:
            self.is_reading = True
            self.watch()
            negotiator = self.broker.negotiators.get(self.connection.name)
            if negotiator is not None and negotiator.heartbeat is not None:
                negotiator.heartbeat.resume(self.broker.clock.monotonic_ns())

    def watch(self) -> None:
        """Tell the poller what is wanted now."""
        if not self.is_closed:
            interest = (READ if self.is_reading else 0) | (WRITE if self.output.is_writing else 0)
            self.poller.change(self.sock, self.watched, interest)

    def tuned(self, heartbeat_s: int) -> None:
        try:
            watch_host(self.sock, heartbeat_s)
        except OSError:
            # The peer has gone again already, which the next read says.
            return

    def taken_bytes(self) -> int:
        """Bytes that the peer's kernel has taken."""
        return self.output.sent_bytes - unsent_bytes(self.sock)

    def close_after_output(self) -> None:
        self.output.is_closing = True
        self.output.mark()
        self.poller.request()

    def linger(self) -> None:
        """All is said: end everything that hangs on the socket, and discard what still comes in
        until the peer closes it, too; again does nothing."""
        if self.tls is not None and not self.is_closed:
            # One that has gone, or takes nothing any more, is not told.
            with suppress(OSError):
                self.sock.send(self.tls.farewell())
        self._end(True)

    def give_up(self) -> None:
        """The peer does not answer: `linger`, if it has been told all there is to say."""
        output = self.output
        self._end(output.held_bytes == 0 and len(output.writer) == 0)

    def close(self) -> None:
        """Close the socket and everything that hangs on it; again does nothing."""
        self._end(False)

    def _end(self, is_lingering: bool) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self.shells.discard(self)
        self.poller.unwatch(self.sock)
        # Nothing of it is watched any more, so that it is freed without the collector.
        self.watched = NOT_WATCHED
        self.output.close()
        if is_lingering:
            self.lingering.take(self.sock)
        else:
            self.sock.close()
        if self.connection.phase != PHASE_CLOSED:
            self.connection.move(ENDS)
            self.broker.lost(self.connection)
        self.poller.request()
