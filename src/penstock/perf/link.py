"""The connections of a load run: socket, session and unsent bytes, without blocking. IO.

`LoadMember` is the base of producers and consumers.
"""

import selectors
import socket
import time
from collections.abc import Sequence
from typing import Final

from penstock.client.events import ClientEvent
from penstock.client.session import ClientSession

READ_BYTES: Final = 262_144
GOODBYE_S: Final = 1.0
"""Seconds a broker has to answer connection.close before the sockets are closed anyway."""


class LoadConnection:
    """A connection after its opening. `unsent`: bytes the socket would not take yet.

    Bounded by its user: a producer adds nothing while anything is unsent, a consumer only the
    acks of what it has read.
    """

    __slots__ = ("is_ended", "session", "sock", "unsent")

    def __init__(self, sock: socket.socket, session: ClientSession) -> None:
        self.sock = sock
        self.session = session
        self.unsent: memoryview[int] = memoryview(b"")
        self.is_ended = False

    def fileno(self) -> int:
        """The socket's number, for the selector."""
        return self.sock.fileno()

    def write(self, now_ns: int) -> bool:
        """Write what is unsent and what the session has to say; True when all of it went out."""
        unsent = self.unsent
        if not unsent:
            unsent = memoryview(self.session.output(now_ns))
        while unsent:
            try:
                unsent = unsent[self.sock.send(unsent) :]
            except BlockingIOError:
                self.unsent = unsent
                return False
            except OSError:
                # Reading will tell why, or that there is no reason to be had.
                unsent = memoryview(b"")
                break
            if not unsent:
                unsent = memoryview(self.session.output(now_ns))
        self.unsent = unsent
        return True

    def read(self, now_ns: int) -> list[ClientEvent]:
        """Read once; what it meant. The end of the stream becomes a ConnectionClosed event."""
        try:
            data = self.sock.recv(READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if data:
            return self.session.feed(data, now_ns)
        self.is_ended = True
        return self.session.end_of_stream()

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self.sock.close()


def watch(
    selector: selectors.BaseSelector, sock: socket.socket, before: int, wanted: int, data: object
) -> None:
    """Listen for `wanted` on `sock` instead of `before`; 0 is nothing, which selectors refuse."""
    if wanted == before:
        return
    if before == 0:
        selector.register(sock, wanted, data)
    elif wanted == 0:
        selector.unregister(sock)
    else:
        selector.modify(sock, wanted, data)


def say_goodbye(links: Sequence[LoadConnection]) -> None:
    """Write out what `links` have to say last, wait a moment for close-ok, close the sockets.

    A socket closed with unread bytes in it resets the connection, and the broker would lose the
    acks still on their way to it.
    """
    end_s = time.monotonic() + GOODBYE_S
    with selectors.DefaultSelector() as selector:
        for link in links:
            if not link.is_ended:
                link.write(time.monotonic_ns())
                selector.register(link.sock, selectors.EVENT_READ, link)
        while selector.get_map() and time.monotonic() < end_s:
            for key, _ in selector.select(end_s - time.monotonic()):
                now_ns = time.monotonic_ns()
                key.data.read(now_ns)
                key.data.write(now_ns)
                if key.data.is_ended or key.data.session.is_closed():
                    selector.unregister(key.data.sock)
    for link in links:
        link.close()


class LoadMember:
    """One connection with a part in the run; nominal base of Producer and Consumer.

    name: for people. failed: why its channel or connection was closed, None while it is open.
    """

    def __init__(self, name: str, link: LoadConnection) -> None:
        self.name = name
        self.link = link
        self.failed: str | None = None

    def take(self, events: list[ClientEvent], now_ns: int) -> None:
        """What the broker said, in order."""
        raise NotImplementedError

    def fail(self, code: int, text: str) -> None:
        """Its channel or connection was closed. The first reason is kept."""
        if self.failed is None:
            self.failed = f"{self.name}: {code} {text}" if code else f"{self.name}: {text}"
