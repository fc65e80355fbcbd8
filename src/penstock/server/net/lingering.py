"""Sockets on which everything has been said, until their peers close them. COMPILED."""

import asyncio
import socket
from typing import Final

from penstock.base.limits import LINGERING_SOCKETS

READ_BYTES: Final = 65_536
"""One read: the quantum of fairness between connections."""

READ_BYTES_MIN: Final = 4096
TURN_BYTES: Final = 1_048_576
"""Thrown away in one turn of the loop, by all of them together, unless they are very many."""


class Lingering:
    """deadlines: by socket, the one that has lingered longest first, in the loop's time, seconds;
    sockets_max: 1.. . Owner: the listener.

    Closing a socket that still has input resets it: a peer that is in the middle of writing gets an
    error, and may lose our last words. So the sending side is shut down, which the peer reads as
    the end, and what it still writes is read and thrown away unlooked at. RabbitMQ does so for
    thirty seconds. To the broker these connections are closed; nothing waits for their sockets."""

    __slots__ = ("_timer", "_waste", "deadlines", "linger_s", "loop", "sockets_max")

    def __init__(self, loop: asyncio.AbstractEventLoop, linger_ms: int) -> None:
        self.loop = loop
        self.linger_s = linger_ms / 1000
        self.sockets_max = LINGERING_SOCKETS.default
        self.deadlines: dict[socket.socket, float] = {}
        self._waste = bytearray(READ_BYTES)
        self._timer: asyncio.TimerHandle | None = None

    def take(self, sock: socket.socket) -> None:
        """Everything has been said on `sock`, and nobody else watches it."""
        if self.linger_s <= 0:
            sock.close()
            return
        try:
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            # The peer has gone already.
            sock.close()
            return
        if len(self.deadlines) >= self.sockets_max:
            self.give_up_one()
        self.deadlines[sock] = self.loop.time() + self.linger_s
        self.loop.add_reader(sock, self._discard, sock)
        if self._timer is None:
            self._timer = self.loop.call_later(self.linger_s, self._expire)

    def give_up_one(self) -> bool:
        """Close the socket that has lingered longest; False if there is none."""
        for sock in self.deadlines:
            self._end(sock)
            return True
        return False

    def close(self) -> None:
        """Close them all."""
        while self.give_up_one():
            pass
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _discard(self, sock: socket.socket) -> None:
        share = TURN_BYTES // len(self.deadlines)
        try:
            count = sock.recv_into(self._waste, max(READ_BYTES_MIN, min(READ_BYTES, share)))
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if count == 0:
            self._end(sock)

    def _expire(self) -> None:
        now = self.loop.time()
        self._timer = None
        while self.deadlines:
            sock, deadline = next(iter(self.deadlines.items()))
            if deadline > now:
                self._timer = self.loop.call_at(deadline, self._expire)
                return
            self._end(sock)

    def _end(self, sock: socket.socket) -> None:
        del self.deadlines[sock]
        self.loop.remove_reader(sock)
        sock.close()
