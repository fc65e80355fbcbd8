"""The output buffer of one client's socket, and what the socket would not take of it. COMPILED."""

import socket
from typing import TYPE_CHECKING, Final

from penstock.broker.actors.output import NO_PIECES, Output, OutputLine
from penstock.server.net.tls import TlsFault, TlsSession

if TYPE_CHECKING:
    from penstock.server.net.sockets import SocketShell

PIECES_PER_SEND: Final = 256
"""Pieces handed to one sendmsg; the system's own limit is 1024."""
PENDING_PIECE_BYTES: Final = 65_536
"""What waits for the socket in smaller pieces is joined into one."""


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
        self.takes_pieces = True
        self.is_writing = False
        self.is_closing = False
        self.tls = tls
        self.sock = sock
        self.pending = NO_PIECES
        self.pending_at = 0
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
            self.shell.said_all()

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
                self.shell.said_all()
        self.settle()
        if self.shell is not None:
            self.shell.poller.request()

    def _watch_writing(self, is_writing: bool) -> None:
        if self.is_writing != is_writing and self.shell is not None:
            self.is_writing = is_writing
            self.shell.watch()

    def _lost(self) -> None:
        if self.shell is not None:
            self.shell.lost()
