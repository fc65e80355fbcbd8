"""Sockets whose TLS handshake is under way, until there is a session or a reason why not.

The costly part, arithmetic with keys, is done by one other thread, a step at a time, so whoever is
connected already does not wait for newcomers (F68, F116). A first byte that cannot begin TLS costs
no step. Until the handshake is done there is no connection: the broker knows nothing of the socket.
"""

import asyncio
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from penstock.base.limits import TLS_HANDSHAKE_BYTES, TLS_HANDSHAKES
from penstock.broker.broker import Log
from penstock.server.net.tls import TlsFault, TlsSession
from penstock.server.net.tls_endpoint import TlsEndpoint

READ_BYTES: Final = 16_384
HANDSHAKE_RECORD: Final = 0x16
"""The first byte of every TLS connection (RFC 8446, 5.1)."""
AMQP: Final = b"AMQP"
SAID_EVERY_S: Final = 1.0
NS_PER_S: Final = 1_000_000_000

Serve = Callable[[socket.socket, str, int, TlsSession], None]


class _Handshake:
    """One of them. unsent: bytes that the socket would not take yet; is_working: the other thread
    has the session; result: of the last step, None before it and while it is made."""

    __slots__ = (
        "host",
        "is_done",
        "is_gone",
        "is_working",
        "port",
        "received_bytes",
        "session",
        "sock",
        "unsent",
    )

    def __init__(self, sock: socket.socket, host: str, port: int, session: TlsSession) -> None:
        self.sock = sock
        self.host = host
        self.port = port
        self.session = session
        self.unsent = b""
        self.received_bytes = 0
        self.is_working = False
        self.is_done = False
        self.is_gone = False


class Handshakes:
    """The handshakes of one TLS port. Bound: TLS_HANDSHAKES. Owner: the listener.

    serve: takes the socket, its address and the session once the handshake is done; refused: ended
    without a session; deadlines: in the loop's time, the oldest first; hosts: how many of each
    address. When there are too many, one of the address that has most makes room."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoint: TlsEndpoint,
        patience_ms: int,
        log: Log,
        serve: Serve,
    ) -> None:
        self.endpoint = endpoint
        self.refused = 0
        self.made = 0
        self.deadlines: dict[_Handshake, float] = {}
        self.hosts: dict[str, int] = {}
        self._loop = loop
        self._patience_s = patience_ms / 1000
        self._log = log
        self._serve = serve
        self._thread = ThreadPoolExecutor(1, "tls-handshake")
        self._timer: asyncio.TimerHandle | None = None
        self._quiet_until = 0.0
        self._unsaid = 0

    def take(self, sock: socket.socket, host: str, port: int) -> None:
        """A new client, whose socket does not block."""
        if len(self.deadlines) >= TLS_HANDSHAKES.default and not self._makes_room(host):
            self.refused += 1
            sock.close()
            self._say(host, port, f"{TLS_HANDSHAKES.default} handshakes are under way already")
            return
        one = _Handshake(sock, host, port, TlsSession(self.endpoint.context))
        self.deadlines[one] = self._loop.time() + self._patience_s
        self.hosts[host] = self.hosts.get(host, 0) + 1
        self._loop.add_reader(sock, self._readable, one)
        if self._timer is None:
            self._timer = self._loop.call_later(self._patience_s, self._expire)

    def close(self) -> None:
        """End them all."""
        for one in list(self.deadlines):
            self._end(one)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _readable(self, one: _Handshake) -> None:
        try:
            data = one.sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._refuse(one, "the client went away")
            return
        if one.received_bytes == 0 and data[0] != HANDSHAKE_RECORD:
            is_amqp = data.startswith(AMQP[: len(data)])
            self._refuse(
                one, "it speaks AMQP without TLS on the port for TLS" if is_amqp else "it is no TLS"
            )
            return
        one.received_bytes += len(data)
        if one.received_bytes > TLS_HANDSHAKE_BYTES.default:
            self._refuse(one, f"more than {TLS_HANDSHAKE_BYTES.default} bytes of handshake")
            return
        one.session.feed(data)
        # What comes meanwhile waits in the kernel: nobody else may touch the session.
        one.is_working = True
        self._loop.remove_reader(one.sock)
        self._loop.run_in_executor(self._thread, one.session.shake).add_done_callback(
            lambda step: self._stepped(one, step)
        )

    def _stepped(self, one: _Handshake, step: "asyncio.Future[bool]") -> None:
        one.is_working = False
        if step.cancelled() or one.is_gone:
            return
        fault = step.exception()
        one.unsent += one.session.to_send()
        if fault is not None:
            # The alert says to the client what was wrong.
            self._send(one)
            self._refuse(one, str(fault))
            if not isinstance(fault, TlsFault):
                self._log.error("internal error in a TLS handshake", fault)
            return
        one.is_done = step.result()
        self._go_on(one)

    def _go_on(self, one: _Handshake) -> None:
        if not self._send(one):
            self._refuse(one, "the client went away")
        elif one.unsent:
            self._loop.add_writer(one.sock, self._writable, one)
        elif one.is_done:
            self._forget(one)
            self.made += 1
            self._serve(one.sock, one.host, one.port, one.session)
        else:
            self._loop.add_reader(one.sock, self._readable, one)

    def _writable(self, one: _Handshake) -> None:
        self._loop.remove_writer(one.sock)
        self._go_on(one)

    def _send(self, one: _Handshake) -> bool:
        """Send what the socket takes; False if it is gone."""
        try:
            if one.unsent:
                one.unsent = one.unsent[one.sock.send(one.unsent) :]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def _expire(self) -> None:
        now = self._loop.time()
        self._timer = None
        while self.deadlines:
            one, deadline = next(iter(self.deadlines.items()))
            if deadline > now:
                self._timer = self._loop.call_at(deadline, self._expire)
                return
            self._refuse(one, f"not done within {self._patience_s:g} s")

    def _refuse(self, one: _Handshake, why: str) -> None:
        self.refused += 1
        self._end(one)
        self._say(one.host, one.port, why)

    def _end(self, one: _Handshake) -> None:
        self._forget(one)
        self._loop.remove_reader(one.sock)
        self._loop.remove_writer(one.sock)
        one.sock.close()

    def _forget(self, one: _Handshake) -> None:
        one.is_gone = True
        del self.deadlines[one]
        left = self.hosts[one.host] - 1
        if left > 0:
            self.hosts[one.host] = left
        else:
            del self.hosts[one.host]

    def _makes_room(self, host: str) -> bool:
        """End a handshake for one of `host`, unless no other address has more under way."""
        most = max(self.hosts.values())
        if self.hosts.get(host, 0) + 1 >= most:
            return False
        for one in self.deadlines:
            if self.hosts[one.host] == most:
                self._refuse(one, "others need the room of those of its address")
                break
        return True

    def _say(self, host: str, port: int, why: str) -> None:
        """Once a second: whoever tries again and again would fill the log."""
        now = self._loop.time()
        if now < self._quiet_until:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} more were not said)" if self._unsaid else ""
        self._quiet_until, self._unsaid = now + SAID_EVERY_S, 0
        self._log.warning(f"{host}:{port}: no TLS connection: {why}{more}")
