"""Relays in front of a broker that hang or block from the first publish on, or deliver late."""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from penstock.client.url import parse_url
from penstock.protocol.methods import ConnectionBlocked, ConnectionUnblocked
from penstock.protocol.methods.codec import method_frame

PUBLISH = b"\x00\x3c\x00\x28"
DELIVER = b"\x00\x3c\x00\x3c"
REASON = "low on memory"


@contextmanager
def hanging_broker(upstream: str) -> Iterator[str]:
    """The URL of a relay to `upstream` for one connection, which swallows every publish."""
    with _relay_to(upstream, lambda client: False) as url:
        yield url


@contextmanager
def blocking_broker(upstream: str, blocked_s: float) -> Iterator[str]:
    """The URL of a relay that says connection.blocked at the first publish and passes it on after
    `blocked_s`, as a broker with a short alarm does."""

    def block(client: socket.socket) -> bool:
        client.sendall(method_frame(0, ConnectionBlocked(REASON)))
        # The alarm's length; nothing else happens on this connection meanwhile, but its end.
        poll = select.poll()
        poll.register(client, select.POLLRDHUP)
        if poll.poll(blocked_s * 1000):
            # A client that does not wait has hung up.
            return False
        client.sendall(method_frame(0, ConnectionUnblocked()))
        return True

    with _relay_to(upstream, block) as url:
        yield url


@contextmanager
def late_broker(upstream: str, late_s: float) -> Iterator[str]:
    """The URL of a relay to `upstream` for one connection, with deliveries `late_s` late."""
    with _relay_to(upstream, lambda client: True, late_s) as url:
        yield url


@contextmanager
def _relay_to(
    upstream: str, at_publish: Callable[[socket.socket], bool], late_s: float = 0.0
) -> Iterator[str]:
    where = parse_url(upstream)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection((where.host, where.port)) as broker,
    ):
        thread = threading.Thread(target=_relay, args=(listener, broker, at_publish, late_s))
        thread.start()
        try:
            yield f"amqp://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            # A client that was here has gone, so the relay reads its end; else it waits for one.
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _relay(
    listener: socket.socket,
    broker: socket.socket,
    at_publish: Callable[[socket.socket], bool],
    late_s: float,
) -> None:
    """Copy both ways; `at_publish` says whether the first publish and what follows goes on."""
    try:
        client, _ = listener.accept()
    except OSError:
        # Nobody came.
        return
    with client:
        back = threading.Thread(target=_copy, args=(broker, client, late_s))
        back.start()
        is_open, is_first = True, True
        # A client that gives up leaves without reading what there was.
        with suppress(OSError):
            while data := client.recv(65_536):
                if is_first and PUBLISH in data:
                    is_first = False
                    is_open = at_publish(client)
                if is_open:
                    broker.sendall(data)
        with suppress(OSError):
            broker.shutdown(socket.SHUT_RDWR)
        back.join()


def _copy(source: socket.socket, target: socket.socket, late_s: float) -> None:
    """The first delivery is late; those behind it have waited meanwhile, as on a slow link."""
    is_first = True
    try:
        while data := source.recv(65_536):
            if is_first and DELIVER in data:
                is_first = False
                threading.Event().wait(late_s)
            target.sendall(data)
    except OSError:
        # The client has hung up first.
        return
