"""Moves bytes between the socket and the session of a blocking client. IO."""

import select
import socket
import ssl
import time
from contextlib import suppress
from typing import Final

from penstock.client.inbox import ClientInbox
from penstock.client.session import ClientSession

READ_BYTES: Final = 262_144
_NS_PER_MS: Final = 1_000_000
_NOTHING: Final = memoryview(b"")


class Transport:
    """Everything happens in the caller's thread. inbox: where what came in is put.

    Reading goes on, and heartbeats are looked at, while a write waits for the socket: neither side
    can hold the other up for ever, and a broker that is gone without a word is noticed. Moments are
    monotonic nanoseconds, None for never.
    """

    def __init__(self, sock: socket.socket, session: ClientSession, inbox: ClientInbox) -> None:
        self.socket = sock
        self._session = session
        self._inbox = inbox
        self._unsent = _NOTHING
        sock.setblocking(False)

    def write(self, end_ns: int | None) -> bool:
        """Write everything said so far. False: at `end_ns` the broker had not read it, and the next
        call goes on with the rest. Of a connection that has ended nothing is left."""
        self._keep_alive()
        while True:
            if not self._unsent:
                self._unsent = memoryview(self._session.output(time.monotonic_ns()))
            if not self._unsent:
                return True
            try:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                self._keep_alive()
                # Heartbeats, and answers to what was read: behind what waits for the socket.
                more = self._session.output(time.monotonic_ns())
                self._unsent = memoryview(b"".join((self._unsent, more))) if more else self._unsent
                if self._inbox.is_closed():
                    self._unsent = _NOTHING
                    return True
                if end_ns is not None and time.monotonic_ns() >= end_ns:
                    return False
                if self._ready(select.POLLIN | select.POLLOUT, end_ns) & select.POLLIN:
                    self._read()
            except OSError:
                self._lost()
                self._unsent = _NOTHING
                return True

    def step(self, end_ns: int | None) -> None:
        """One round: write what is there, wait for input, the heartbeat or `end_ns`, read once."""
        self.write(end_ns)
        if self._inbox.is_closed():
            return
        pending = isinstance(self.socket, ssl.SSLSocket) and self.socket.pending() > 0
        if pending or self._ready(select.POLLIN, end_ns):
            self._read()
            self.write(end_ns)

    def close(self) -> None:
        """Close the socket without a word to the broker. Idempotent."""
        self.socket.close()

    def _keep_alive(self) -> None:
        """Send the heartbeat that is due, and notice a broker that is silent: not one whose words
        nobody has read, because the program was busy with something else."""
        due_ns = self._session.next_tick_ns()
        if due_ns is not None and time.monotonic_ns() >= due_ns:
            self._read()
            self._inbox.put(self._session.tick(time.monotonic_ns()))

    def _ready(self, wanted: int, end_ns: int | None) -> int:
        """Wait for the socket, until the heartbeat or `end_ns`; what it is ready for. poll, because
        select stops at 1024 files."""
        moments = [at for at in (end_ns, self._session.next_tick_ns()) if at is not None]
        wait_ms = None
        if moments:
            wait_ms = max(0.0, (min(moments) - time.monotonic_ns()) / _NS_PER_MS)
        poll = select.poll()
        poll.register(self.socket, wanted)
        found = poll.poll(wait_ms)
        return found[0][1] if found else 0

    def _read(self) -> None:
        try:
            data = self.socket.recv(READ_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:
            self._lost()
            return
        if data:
            self._inbox.put(self._session.feed(data, time.monotonic_ns()))
        else:
            self._inbox.put(self._session.end_of_stream())

    def _lost(self) -> None:
        """The socket broke. What the broker said before that, it may still hold, comes first."""
        with suppress(OSError):
            data = self.socket.recv(READ_BYTES)
            self._inbox.put(self._session.feed(data, time.monotonic_ns()))
        self._inbox.put(self._session.end_of_stream())
