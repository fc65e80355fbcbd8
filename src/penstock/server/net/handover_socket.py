"""The sockets on which the processes of one broker hand connections to each other.

Each worker has one end at which it receives, and its siblings share the other one, all made by the
parent (`handover_pair`), which keeps both, so that what is sent to a worker that has died waits for
the next one. A message is a byte that says its kind, a record, and the client's socket:

    CONNECTION   a client that waits for its virtual host, see broker/session/handover
    IN_FILE      the same, where the record is too long for a message: it is in a second descriptor
    OPERATOR     who has asked the parent's control socket to speak AMQP
    NEW          a client by TLS that has said nothing yet, and is probably for that worker

Where the other one does not take more, clients wait here: unread, in order, handshake_ms at most.
What is no message is logged, and its descriptors are closed.
"""

import asyncio
import errno
import os
import select
import socket
import tempfile
from array import array
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Final

from penstock.base.limits import HANDOVER_BYTES, HANDOVERS_WAITING
from penstock.broker.actors.output import Shell
from penstock.broker.broker import Broker
from penstock.broker.session.handover import Elsewhere, HandoverFault, decode
from penstock.server.net.listener import RAISE, Listener
from penstock.server.net.poller import Poller
from penstock.server.net.sockets import SocketShell
from penstock.server.net.tls_homes import TlsHomes
from penstock.server.net.tls_relay import TlsRelay

CONNECTION: Final = 1
IN_FILE: Final = 2
OPERATOR: Final = 3
NEW: Final = 4

MESSAGE_BYTES: Final = 98_304
"""Of a record in a message: more than one read of a client. A longer one goes in a file."""
BUFFER_BYTES: Final = 262_144
"""Of what is under way to one worker, a hundred clients or more; the system may give less."""
DESCRIPTORS: Final = 8
"""Looked for in one message: more than any has, so that none is overlooked."""
MESSAGES_PER_TURN: Final = 32
AGAIN_S: Final = 0.05
SAID_EVERY_S: Final = 10.0
_FULL: Final = (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)
"""The system has no room for one more descriptor under way, which passes."""


def handover_pair() -> tuple[socket.socket, socket.socket]:
    """The end at which one worker receives, and the one on which its siblings and the parent send.
    Neither blocks. Raises: OSError."""
    receive, send = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    receive.setblocking(False)
    send.setblocking(False)
    send.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    return receive, send


def send_operator(to: socket.socket, sock: socket.socket, name: str) -> bool:
    """Hand the socket of an operator, who speaks AMQP from now on, to the worker that receives from
    `to`. name: of the user. False where it does not take more now. The caller closes its `sock`,
    either way. Raises: OSError."""
    try:
        _put(to, OPERATOR, name.encode(), sock.fileno())
    except BlockingIOError:
        return False
    return True


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
    far; refused: clients and messages that came to nothing.

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
            if not way.is_full:
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
            _put(way.sock, CONNECTION, one.record, shell.sock.fileno())
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
                _put(way.sock, CONNECTION, one.record, theirs.fileno())
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
            _put(way.sock, NEW, b"", sock.fileno())
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
                data, fds, is_whole = _got(self._receive)
            except BlockingIOError:
                return
            except OSError as error:
                self._say(f"cannot take connections of other workers: {error.strerror}")
                return
            if not data and not fds and _is_hung_up(self._receive):
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
            listener.adopt(_stream(fds), body.decode("utf-8", "replace"))
        elif kind == NEW:
            if self._tls_listener is None:
                raise HandoverFault("a client by TLS came, and there is no TLS here")
            self._tls_listener.take_new(_stream(fds))
        elif kind in (CONNECTION, IN_FILE):
            record = decode(_content(fds[1]) if kind == IN_FILE else body)
            listener.take_over(_stream(fds), record)
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


def _put(to: socket.socket, kind: int, body: bytes, fd: int) -> None:
    """Raises: OSError; BlockingIOError where there is no room now."""
    fds = array("i", [fd])
    if len(body) <= MESSAGE_BYTES:
        try:
            to.sendmsg((bytes((kind,)), body), ((socket.SOL_SOCKET, socket.SCM_RIGHTS, fds),))
        except OSError as error:
            # The buffers of this system are small.
            if error.errno != errno.EMSGSIZE:
                raise
        else:
            return
    with _file() as file:
        file.write(body)
        file.flush()
        fds.append(file.fileno())
        to.sendmsg((bytes((IN_FILE,)),), ((socket.SOL_SOCKET, socket.SCM_RIGHTS, fds),))


def _file() -> IO[bytes]:
    """An empty one without a name, in memory where the system has such."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("handover"), "w+b")
    return tempfile.TemporaryFile()


def _got(sock: socket.socket) -> tuple[bytes, list[int], bool]:
    """One message, its descriptors, and whether all of it came. Raises: OSError."""
    flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    room = socket.CMSG_SPACE(DESCRIPTORS * array("i").itemsize)
    data, ancillary, came, _ = sock.recvmsg(MESSAGE_BYTES + 1, room, flags)
    fds = array("i")
    for level, kind, part in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(part[: len(part) - len(part) % fds.itemsize])
    return data, list(fds), came & (socket.MSG_TRUNC | socket.MSG_CTRUNC) == 0


def _is_hung_up(sock: socket.socket) -> bool:
    """Whether every end on which something could be sent is closed."""
    poll = select.poll()
    poll.register(sock, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def _stream(fds: list[int]) -> socket.socket:
    """The first of them, taken out. Raises: HandoverFault, OSError."""
    sock = socket.socket(fileno=fds[0])
    if sock.type != socket.SOCK_STREAM:
        sock.detach()
        raise HandoverFault("a descriptor is no stream socket")
    del fds[0]
    return sock


def _content(fd: int) -> bytes:
    """Of a file. Raises: HandoverFault, OSError."""
    size = os.fstat(fd).st_size
    if size > HANDOVER_BYTES.default:
        raise HandoverFault(f"{size} bytes, more than {HANDOVER_BYTES.default}")
    return os.pread(fd, size, 0)
