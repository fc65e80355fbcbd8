"""The sockets on which the processes of one broker hand connections to each other.

Each worker has one end at which it receives, and its siblings share the other one, all made by the
parent (`handover_pair`), which keeps both, so that what is sent to a worker that has died waits for
the next one. What they send is in handover_messages.

Where the other one does not take more, clients wait here: unread, in order, handshake_ms at most.
What is no message is logged, and its descriptors are closed.
"""

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from penstock.base.limits import HANDOVERS_WAITING
from penstock.broker.actors.output import Shell
from penstock.broker.broker import Broker
from penstock.broker.session.handover import (
    NOT_ELSEWHERE,
    Elsewhere,
    HandoverFault,
    decode,
)
from penstock.server.net.handover_messages import (
    CONNECTION,
    IN_FILE,
    NEW,
    OPERATOR,
    content_of,
    got,
    is_hung_up,
    put,
    stream_of,
)
from penstock.server.net.listener import RAISE, Listener
from penstock.server.net.poller import Poller
from penstock.server.net.sockets import SocketShell
from penstock.server.net.tls_homes import TlsHomes
from penstock.server.net.tls_relay import TlsRelay

MESSAGES_PER_TURN: Final = 8
"""Each is a connection to be made: so many cost a few milliseconds."""
AGAIN_S: Final = 0.05
SAID_EVERY_S: Final = 10.0
_FULL: Final = (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)
"""The system has no room for one more descriptor under way, which passes."""


class _Waiting:
    """A client that waits until the other process takes it; deadline: in the loop's time."""

    __slots__ = ("deadline", "record", "shell")

    def __init__(self, record: bytes, shell: SocketShell, deadline: float) -> None:
        self.record = record
        self.shell = shell
        self.deadline = deadline


class _Way:
    """The way to one worker. waiting: the one that has waited longest first; is_full: the socket
    takes nothing more now, and is watched until it does."""

    __slots__ = ("is_full", "sock", "waiting", "worker")

    def __init__(self, worker: int, sock: socket.socket) -> None:
        self.worker = worker
        self.sock = sock
        self.waiting: deque[_Waiting] = deque()
        self.is_full = False


class HandoverSocket(Elsewhere):
    """One worker's, in both directions. Owner: the node.

    relays: clients by TLS whose connections other processes serve; given, taken: connections so
    far; refused: clients and messages that came to nothing; is_login_wanted: by those who receive
    some, because brokers of other nodes have the virtual hosts.

        node.join(receive, send, worker_of)   # before it starts; it is made, and broker.host has it
        handover.listen(listener)             # once it has started: takes what others send
        handover.stop(), handover.close()     # takes nothing more; ends relays and what waits
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        broker: Broker,
        poller: Poller,
        receive: socket.socket,
        send: Mapping[int, socket.socket],
        worker_of: Callable[[str], int],
    ) -> None:
        """receive, send: of `handover_pair`, this worker's own end and those to its siblings by
        number; worker_of: which of these has a virtual host, -1 for none of them."""
        self.relays: set[TlsRelay] = set()
        self.given = self.taken = self.refused = 0
        self.is_login_wanted = False
        self.homes = TlsHomes()
        self._loop = loop
        self._broker = broker
        self._poller = poller
        # They may have been handed down, as numbers.
        for sock in (receive, *send.values()):
            sock.setblocking(False)
        self._receive = receive
        self._ways = {worker: _Way(worker, sock) for worker, sock in send.items()}
        self._worker_of = worker_of
        self._listener: Listener | None = None
        self._tls_listener: Listener | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._quiet_until = 0.0

    def worker_of(self, vhost: str) -> int:
        return self._worker_of(vhost)

    def keeps_logins(self) -> bool:
        return self.is_login_wanted

    def stays(self, peer_host: str) -> None:
        self.homes.told(peer_host, NOT_ELSEWHERE, self._loop.time())

    # -- giving ----------------------------------------------------------------------------------

    def take(self, worker: int, record: bytes, shell: Shell) -> None:
        assert isinstance(shell, SocketShell), "the listener makes these"
        way = self._ways.get(worker)
        if way is None:
            self._refuse(shell, f"there is no way to worker {worker}")
        elif len(way.waiting) >= HANDOVERS_WAITING.default:
            self._refuse(shell, f"{len(way.waiting)} wait for worker {worker} already")
        else:
            patience_s = self._broker.config.handshake_ms / 1000
            way.waiting.append(_Waiting(record, shell, self._loop.time() + patience_s))
            # Where others wait, somebody is at it already.
            if not way.is_full and len(way.waiting) == 1:
                self._go_on(way)

    def _go_on(self, way: _Way) -> None:
        """Give what the other process takes."""
        for _ in range(MESSAGES_PER_TURN):
            while way.waiting and way.waiting[0].shell.is_closed:
                way.waiting.popleft()
            if not way.waiting:
                return
            one = way.waiting[0]
            try:
                self._give(way, one)
            except BlockingIOError:
                way.is_full = True
                self._loop.add_writer(way.sock, self._has_room, way)
                self._watch_deadlines()
                return
            except OSError as error:
                if error.errno in _FULL:
                    way.is_full = True
                    self._loop.call_later(AGAIN_S, self._has_room, way)
                    self._watch_deadlines()
                    return
                self._refuse(one.shell, f"to worker {way.worker}: {error.strerror}")
            else:
                self.given += 1
            way.waiting.popleft()
        self._loop.call_soon(self._go_on, way)

    def _give(self, way: _Way, one: _Waiting) -> None:
        """Raises: OSError, and the client is still here."""
        shell = one.shell
        if shell.tls is None:
            put(way.sock, CONNECTION, one.record, shell.sock.fileno())
            shell.give_away()
            # Not shut down: the other process has it.
            shell.sock.close()
            return
        if len(self.relays) >= self._broker.config.connections_max:
            raise OSError(errno.EMFILE, f"{len(self.relays)} clients of TLS are relayed already")
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                ours.setblocking(False)
                theirs.setblocking(False)
                if self._listener is not None and self._listener.is_beyond(ours):
                    raise OSError(errno.EMFILE, "the files that are left are for the disk")
                put(way.sock, CONNECTION, one.record, theirs.fileno())
            except OSError:
                ours.close()
                raise
        name, tls = shell.connection.name, shell.tls
        with suppress(OSError):
            self.homes.told(str(shell.sock.getpeername()[0]), way.worker, self._loop.time())
        shell.give_away()
        relay = TlsRelay(
            self._poller,
            shell.lingering,
            tls,
            shell.sock,
            ours,
            name,
            self._broker.config.handshake_ms / 1000,
            self._broker.note,
            self.relays.discard,
        )
        if not relay.is_closed:
            self.relays.add(relay)

    def give_new(self, sock: socket.socket, host: str) -> bool:
        """A client of `host` has come to the port for TLS: whether the process that it is probably
        for has it now. If not, it is served here."""
        way = self._ways.get(self.homes.of(host, self._loop.time()))
        if way is None or way.is_full or way.waiting:
            return False
        try:
            put(way.sock, NEW, b"", sock.fileno())
        except OSError:
            return False
        sock.close()
        return True

    def _has_room(self, way: _Way) -> None:
        if way.sock.fileno() < 0:
            return
        self._loop.remove_writer(way.sock)
        way.is_full = False
        self._go_on(way)

    def _watch_deadlines(self) -> None:
        if self._timer is None:
            deadlines = [way.waiting[0].deadline for way in self._ways.values() if way.waiting]
            if deadlines:
                self._timer = self._loop.call_at(min(deadlines), self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        for way in self._ways.values():
            while way.waiting and way.waiting[0].deadline <= now:
                shell = way.waiting.popleft().shell
                if not shell.is_closed:
                    patience_s = self._broker.config.handshake_ms / 1000
                    self._refuse(
                        shell, f"worker {way.worker} did not take it within {patience_s:g} s"
                    )
        self._watch_deadlines()

    def _refuse(self, shell: SocketShell, why: str) -> None:
        self.refused += 1
        self._say(f"{shell.connection.name}: cannot be handed over: {why}; closed")
        shell.close()

    # -- taking ----------------------------------------------------------------------------------

    def listen(self, listener: Listener, tls: Listener | None = None) -> None:
        """Take what others send, also what waits already, as clients of `listener`; tls: the one
        for TLS, None where there is none."""
        self._listener = listener
        self._tls_listener = tls
        if tls is not None:
            tls.give_new = self.give_new
        self._loop.add_reader(self._receive, self._readable)

    def _readable(self) -> None:
        for _ in range(MESSAGES_PER_TURN):
            try:
                data, fds, is_whole = got(self._receive)
            except BlockingIOError:
                return
            except OSError as error:
                self._say(f"cannot take connections of other workers: {error.strerror}")
                return
            if not data and not fds and is_hung_up(self._receive):
                self._loop.remove_reader(self._receive)
                self._say("no other process hands connections over any more")
                return
            self._received(data, fds, is_whole)

    def _received(self, data: bytes, fds: list[int], is_whole: bool) -> None:
        """fds: all that came; those that are not used are closed."""
        try:
            if not is_whole:
                raise HandoverFault(
                    f"of a message {len(data)} bytes and {len(fds)} descriptors came, and not the "
                    f"rest; {RAISE}"
                )
            if not data:
                raise HandoverFault("a message is empty")
            self._serve(data[0], data[1:], fds)
        except (HandoverFault, OSError) as fault:
            self.refused += 1
            self._say(f"another worker has handed over what cannot be served: {fault}")
        finally:
            for fd in fds:
                with suppress(OSError):
                    os.close(fd)

    def _serve(self, kind: int, body: bytes, fds: list[int]) -> None:
        """Takes what it uses out of `fds`. Raises: HandoverFault, OSError."""
        listener = self._listener
        assert listener is not None, "it listens"
        if len(fds) != (2 if kind == IN_FILE else 1):
            raise HandoverFault(f"{len(fds)} descriptors came with a message of kind {kind}")
        if kind == OPERATOR:
            listener.adopt(stream_of(fds), body.decode("utf-8", "replace"))
        elif kind == NEW:
            if self._tls_listener is None:
                raise HandoverFault("a client by TLS came, and there is no TLS here")
            self._tls_listener.take_new(stream_of(fds))
        elif kind in (CONNECTION, IN_FILE):
            record = decode(content_of(fds[1]) if kind == IN_FILE else body)
            if record.tls_peer is not None and not record.tls_peer.is_operator:
                self.stays(record.peer_host)
            listener.take_over(stream_of(fds), record)
        else:
            raise HandoverFault(f"{kind} is no kind of message")
        self.taken += 1
        self._poller.request()

    # -- the end ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """Take nothing more: what others send waits for the next process at this end."""
        if self._receive.fileno() >= 0:
            self._loop.remove_reader(self._receive)

    def close(self) -> None:
        """End relays and what waits to be given, and close the sockets of `handover_pair` here."""
        self.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for relay in list(self.relays):
            relay.close()
        for way in self._ways.values():
            for one in way.waiting:
                one.shell.close()
            way.waiting.clear()
            if way.sock.fileno() >= 0:
                self._loop.remove_writer(way.sock)
            way.sock.close()
        self._receive.close()

    def _say(self, what: str) -> None:
        """Once in a while: clients who try again would fill the log."""
        now = self._loop.time()
        if now >= self._quiet_until:
            self._quiet_until = now + SAID_EVERY_S
            self._broker.log.warning(what)
