"""A link whose other end is a scripted broker, over a pair of connected sockets."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.base.clock import ManualClock
from penstock.client.events import ClientEvent
from penstock.client.session import ClientSession
from penstock.client.url import BrokerUrl
from penstock.perf.link import LoadConnection
from penstock.protocol import methods as m
from tests.unit.client.scripted import START_NS, ScriptedBroker


class Pair:
    """Both ends, and the one clock. `carry` moves bytes until nothing moves; the broker reads only
    then."""

    def __init__(self, ours: socket.socket, theirs: socket.socket) -> None:
        self.clock = ManualClock(START_NS)
        self.link = LoadConnection(ours, ClientSession(BrokerUrl(), "test", START_NS))
        self.broker = ScriptedBroker()
        self._theirs = theirs

    def carry(self) -> list[ClientEvent]:
        events: list[ClientEvent] = []
        while True:
            self.link.write(self.clock.monotonic_ns())
            data = self._receive()
            self.broker.feed(data)
            said = self.broker.output()
            self._theirs.sendall(said)
            events += self.link.read(self.clock.monotonic_ns())
            if not data and not said:
                return events

    def _receive(self) -> bytes:
        try:
            return self._theirs.recv(1 << 20)
        except BlockingIOError:
            return b""


@contextmanager
def open_pair(*requests: m.Method) -> Iterator[Pair]:
    """An open connection with channel 1, on which `requests` have been answered."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        pair = Pair(ours, theirs)
        pair.carry()
        pair.link.session.open_channel()
        for request in requests:
            pair.link.session.request(1, request)
        pair.carry()
        yield pair
