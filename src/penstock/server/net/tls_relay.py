"""A client's TLS that stays here while its connection is served by another process.

The state of TLS cannot be moved, so what goes to the other process is one end of a pair of sockets,
and between the other end and the client the content is relayed:

    client  --TLS-->  opened  --content-->  pair  -->  the process that has the virtual host
            <--TLS--  sealed  <--content--        <--

Each way holds what one read has brought and reads no more before that has gone, so whoever is slow
holds only himself. Each turn is one read, as with any other client.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.server.net.lingering import READ_BYTES, Lingering
from penstock.server.net.poller import READ, WRITE, Poller, Watched
from penstock.server.net.tls import TlsFault, TlsSession

NOT_WATCHED: Final = -1
"""In the place of what a socket is watched for."""


class _End(Watched):
    """One of the two sockets of a relay. data: what it has not taken yet, from `at` on; interest:
    for which it is watched."""

    __slots__ = ("at", "data", "interest", "is_client", "poller", "relay", "sock")

    def __init__(self, relay: "TlsRelay", sock: socket.socket, is_client: bool) -> None:
        self.relay = relay
        self.poller = relay.poller
        self.sock = sock
        self.is_client = is_client
        self.data = b""
        self.at = 0
        self.interest = 0
        self.poller.watch(sock, self, 0)

    def readable(self) -> bool:
        if self.is_client:
            self.relay.client_says()
        else:
            self.relay.broker_says()
        return True

    def writable(self) -> None:
        self.relay.go_on()

    def pause_if_stuck(self) -> None:
        """It is never stuck: what it waits for is another socket."""

    def gone(self) -> None:
        if self.is_client:
            self.relay.close()
        else:
            self.relay.broker_gone()

    def offer(self) -> None:
        """Send what it takes now. Raises: OSError."""
        while self.data:
            try:
                self.at += self.sock.send(memoryview(self.data)[self.at :])
            except BlockingIOError:
                return
            if self.at >= len(self.data):
                self.data = b""
                self.at = 0

    def want(self, interest: int) -> None:
        """From now on it is watched for this."""
        if interest != self.interest and self.interest != NOT_WATCHED:
            self.interest = interest
            self.poller.change(self.sock, self, interest)

    def unwatch(self) -> None:
        """Nothing is told of it any more."""
        if self.interest != NOT_WATCHED:
            self.interest = NOT_WATCHED
            self.poller.unwatch(self.sock)

    def end(self) -> None:
        """The same, and it leads back to the relay no more: it is freed without the collector."""
        self.unwatch()
        self.data = b""
        del self.relay


class TlsRelay:
    """One client. name: of the client, for the log; note: takes a line for that; ended: called once
    it has; patience_s: how long it may take the last words; is_silent: the client says nothing
    more, and is_told: the other process knows; is_over: that one says nothing more."""

    __slots__ = (
        "_client",
        "_ended",
        "_is_closed",
        "_is_over",
        "_is_silent",
        "_is_told",
        "_lingering",
        "_name",
        "_note",
        "_pair",
        "_patience_s",
        "_timer",
        "_tls",
        "poller",
    )

    def __init__(
        self,
        poller: Poller,
        lingering: Lingering,
        tls: TlsSession,
        client: socket.socket,
        pair: socket.socket,
        name: str,
        patience_s: float,
        note: Callable[[str], None],
        ended: Callable[["TlsRelay"], None],
    ) -> None:
        """client, pair: do not block, and belong to the relay from now on."""
        self.poller = poller
        self._lingering = lingering
        self._tls = tls
        self._name = name
        self._note = note
        self._ended = ended
        self._is_closed = False
        self._is_silent = False
        self._is_over = False
        self._is_told = False
        self._timer: asyncio.TimerHandle | None = None
        self._patience_s = patience_s
        self._client = _End(self, client, True)
        self._pair = _End(self, pair, False)
        self.go_on()

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""
        return self._is_closed

    def client_says(self) -> None:
        """The client's socket has something, and the pair has taken all that was before."""
        if self._pair.data or self._is_silent:
            # Since it was asked for, another event has changed that.
            return
        try:
            data = self._client.sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if not data:
            self._is_silent = True
            self.go_on()
            return
        try:
            self._pair.data = self._tls.opened(data)
        except TlsFault as fault:
            self._note(f"{self._name}: TLS: {fault}; closed")
            self.close()
            return
        self.go_on()

    def broker_says(self) -> None:
        """The pair has something, and the client has taken all that was before."""
        if self._client.data or self._is_over:
            return
        data = b""
        try:
            data = self._pair.sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._seal(data)
        else:
            self._end_soon()
        self.go_on()

    def broker_gone(self) -> None:
        """The other process has closed its end while the client had to take something first. What
        it has said is still there; nobody hears the client any more."""
        self._pair.unwatch()
        self._end_soon()
        self.go_on()

    def _end_soon(self) -> None:
        """A client that takes nothing of the last words is not waited for without end."""
        self._is_over = True
        if self._timer is None:
            self._timer = self.poller.loop.call_later(self._patience_s, self.close)

    def _seal(self, data: bytes) -> None:
        try:
            self._client.data = self._tls.sealed(data)
        except TlsFault:
            self.close()

    def go_on(self) -> None:
        """Send what can be sent, and say what is waited for then."""
        if self._is_closed:
            return
        client, pair = self._client, self._pair
        if not client.data and self._tls.has_answer:
            client.data = self._tls.to_send()
        try:
            client.offer()
        except OSError:
            self.close()
            return
        if pair.interest == NOT_WATCHED:
            self._drain()
            return
        try:
            pair.offer()
        except OSError:
            # Nobody hears the client any more; what was said to it is still to be read.
            pair.data = b""
            self._is_silent = True
        if self._tls.is_ended:
            self._is_silent = True
        if self._is_silent and not pair.data and not self._is_told:
            self._is_told = True
            with suppress(OSError):
                pair.sock.shutdown(socket.SHUT_WR)
        if self._is_over and not client.data:
            self._farewell()
            return
        client.want((0 if self._is_silent or pair.data else READ) | (WRITE if client.data else 0))
        pair.want((0 if self._is_over or client.data else READ) | (WRITE if pair.data else 0))

    def _drain(self) -> None:
        """The other process has gone: its last words, as the client takes them."""
        client = self._client
        while not client.data and not self._is_closed:
            try:
                data = self._pair.sock.recv(READ_BYTES)
            except OSError:
                data = b""
            if not data:
                self._farewell()
                return
            self._seal(data)
            try:
                client.offer()
            except OSError:
                self.close()
        if not self._is_closed:
            client.want(WRITE)

    def _farewell(self) -> None:
        """All is said: tell the client so, and discard what it still sends until it closes, too."""
        if self._is_closed:
            return
        sock = self._client.sock
        with suppress(OSError):
            sock.send(self._tls.farewell())
        self._let_go()
        self._lingering.take(sock)

    def close(self) -> None:
        """Both ends; again does nothing."""
        if not self._is_closed:
            self._let_go()
            self._client.sock.close()

    def _let_go(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pair.end()
        self._client.end()
        self._pair.sock.close()
        self._ended(self)
