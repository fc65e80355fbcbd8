"""One client's socket: bytes in to its connection, bytes out from its output buffer.

One `recv` per event and one `send` per turn on the bare socket; asyncio transports are not used
because they read on while nobody can take more (docs/adr). Reading pauses when data arrives that
the connection's closed gate keeps out, so short stops cost no system call.
"""

import socket
from contextlib import suppress
from typing import Final

from penstock.broker.actors.output import Shell
from penstock.broker.broker import LOST, Broker
from penstock.broker.connection.connection import Connection
from penstock.broker.connection.phases import ENDS, PHASE_CLOSED, PHASE_OPEN
from penstock.broker.session.access import TlsPeer
from penstock.server.net.lingering import READ_BYTES, Lingering
from penstock.server.net.poller import READ, WRITE, Poller, Watched
from penstock.server.net.socket_output import SocketOutput
from penstock.server.net.stall_timeout import unsent_bytes, watch_host
from penstock.server.net.tls import TlsFault, TlsSession

NOT_WATCHED: Final = Watched()


class SocketWatch(Watched):
    """The shell as the poller sees it."""

    __slots__ = ("shell",)

    def __init__(self, shell: "SocketShell") -> None:
        self.shell = shell

    def readable(self) -> bool:
        return self.shell.readable()

    def is_entering(self) -> bool:
        return self.shell.connection.phase < PHASE_OPEN

    def writable(self) -> None:
        self.shell.output.writable()

    def watch_again(self) -> None:
        self.shell.watch()

    def pause_if_stuck(self) -> None:
        self.shell.pause_if_stuck()

    def gone(self) -> None:
        self.shell.lost()


class SocketShell(Shell):
    """Owns one accepted socket until it is closed; `shells`: where it is listed until then;
    `lingering`: who has the socket after that, if the peer may still write; `looked_bytes`: of
    `received_bytes`, when the heartbeat was looked at last; `tls`: what its bytes
    go through, None without TLS; `leaving`: the process that it goes to, and its record, None while
    it stays."""

    __slots__ = (
        "broker",
        "connection",
        "is_closed",
        "is_reading",
        "leaving",
        "lingering",
        "looked_bytes",
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
        self.leaving: tuple[int, bytes] | None = None
        self.received_bytes = 0
        self.looked_bytes = 0
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
            data = b""
        if not data:
            self.lost()
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
            self.lost()
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
        if self.tls is not None and self.tls.is_ended and self.leaving is None:
            # Nothing more comes; what there is to say to what came goes out first.
            self.poller.loop.call_soon(self.lost)
        if not self.is_reading and not self.is_closed and self.leaving is None:
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

    def hand_over(self, worker: int, record: bytes) -> None:
        self.leaving = (worker, record)
        self.is_reading = False
        self.watch()
        self.close_after_output()

    def said_all(self) -> None:
        """The socket has taken everything: it is closed, or goes to another process."""
        leaving, elsewhere = self.leaving, self.broker.host.elsewhere
        if leaving is None or elsewhere is None:
            self.linger()
            return
        self.output.is_closing = False
        elsewhere.take(leaving[0], leaving[1], self)

    def give_away(self) -> None:
        """Another process has the socket, or a relay: end everything that hangs on it, and leave it
        as it is."""
        if not self.is_closed:
            self._let_go()

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

    def lost(self) -> None:
        """The peer has gone: `close`, and where it has not said so before the log does."""
        negotiator = self.broker.negotiators.get(self.connection.name)
        if negotiator is not None and self.connection.phase == PHASE_OPEN:
            negotiator.close_reason = negotiator.close_reason or LOST
        self.close()

    def close(self) -> None:
        """Close the socket and everything that hangs on it; again does nothing."""
        self._end(False)

    def _end(self, is_lingering: bool) -> None:
        if self.is_closed:
            return
        self._let_go()
        if is_lingering:
            self.lingering.take(self.sock)
        else:
            self.sock.close()

    def _let_go(self) -> None:
        self.is_closed = True
        self.shells.discard(self)
        self.poller.unwatch(self.sock)
        # Nothing of it is watched any more, so that it is freed without the collector.
        self.watched = NOT_WATCHED
        self.output.close()
        if self.connection.phase != PHASE_CLOSED:
            self.connection.move(ENDS)
            self.broker.lost(self.connection)
        self.poller.request()
