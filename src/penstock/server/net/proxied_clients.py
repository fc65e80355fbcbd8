"""Connections on a private socket until they have said for which client they are."""

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from typing import Final

from penstock.server.net.proxy_header import HEADER_BYTES, Header, HeaderFault, read_header

HEADER_S: Final = 5.0
Serve = Callable[[socket.socket, Header], None]


class _Waiting:
    """One of them. begun: what has come of its header."""

    __slots__ = ("begun", "timer")

    def __init__(self, timer: asyncio.TimerHandle) -> None:
        self.begun = b""
        self.timer = timer


class ProxiedClients:
    """Takes what is accepted at a Unix socket of this user's; serve: takes the socket, and
    what is known of the client, once the header has come."""

    __slots__ = ("_loop", "_serve", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, serve: Serve) -> None:
        self._loop = loop
        self._serve = serve
        self._waiting: dict[socket.socket, _Waiting] = {}

    def take(self, sock: socket.socket) -> None:
        """Sockets of other users are closed: they could claim any address."""
        sock.setblocking(False)
        if _uid_of(sock) not in (os.getuid(), 0):
            sock.close()
            return
        self._waiting[sock] = _Waiting(self._loop.call_later(HEADER_S, self._end, sock))
        self._loop.add_reader(sock, self._read, sock)

    def _read(self, sock: socket.socket) -> None:
        waiting = self._waiting[sock]
        before = len(waiting.begun)
        try:
            # What is behind the header stays where it is, for whoever serves the client.
            data = sock.recv(HEADER_BYTES, socket.MSG_PEEK)
            found = read_header(waiting.begun + data)
            if not data:
                raise HeaderFault
            sock.recv(len(data) if found is None else found.length - before)
        except BlockingIOError:
            return
        except (OSError, HeaderFault):
            self._end(sock)
            return
        if found is None:
            waiting.begun += data
            return
        self._forget(sock)
        self._serve(sock, found)

    def _forget(self, sock: socket.socket) -> None:
        self._waiting.pop(sock).timer.cancel()
        self._loop.remove_reader(sock)

    def _end(self, sock: socket.socket) -> None:
        self._forget(sock)
        sock.close()

    def close(self) -> None:
        for sock in list(self._waiting):
            self._end(sock)


def _uid_of(sock: socket.socket) -> int:
    """The user at the other end; this one where the system does not say, and the file's mode has to
    do."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return os.getuid()
    size = struct.calcsize("3i")
    return int(struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, option, size))[1])
