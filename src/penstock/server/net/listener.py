"""Listening sockets: accept, set up, and back off when the machine has no descriptors left.

A store that cannot open a file cannot confirm, so sockets leave it some: the system gives the
smallest free number to what is opened next, and a socket with one near the end means that all
before it are taken.
"""

import asyncio
import errno
import resource
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

import psutil

from penstock.base.errors import OperatorError
from penstock.base.limits import HANDLES_KEPT
from penstock.broker.broker import Broker
from penstock.broker.session.access import TlsPeer, operator
from penstock.broker.session.handover import Handover
from penstock.broker.session.negotiate import Negotiator
from penstock.broker.session.tokens import TokenFault, TokenUser
from penstock.server.net.handshakes import Handshakes
from penstock.server.net.lingering import Lingering
from penstock.server.net.poller import Poller
from penstock.server.net.proxied_clients import ProxiedClients
from penstock.server.net.proxy_header import Header
from penstock.server.net.sockets import SocketShell
from penstock.server.net.stall_timeout import watch_host
from penstock.server.net.tls import TlsSession
from penstock.server.net.tls_endpoint import TlsEndpoint

SHARE: Final = 4
"""Where few files may be open at all, one part in this many is kept."""


def raise_limit(clients_max: int) -> int:
    """Allow the process files for `clients_max` sockets and for itself, as far as the system lets
    it. Returns what is allowed then. Changes the whole process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = clients_max + HANDLES_KEPT.default
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (OSError, ValueError):
        # Some systems have a bound below the one they name; what there is has to do.
        return soft
    return allowed


def kept_of(limit: int) -> int:
    """How many of `limit` files are not for clients. limit: 0.. ."""
    return min(HANDLES_KEPT.default, limit // SHARE)


def end_for_clients() -> int:
    """The first number of a socket that is not for a client; -1 where files are unlimited."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return -1 if soft == resource.RLIM_INFINITY else soft - kept_of(soft)


ACCEPTS_PER_EVENT = 64
BACK_OFF_S = 0.1
SAID_EVERY_S = 10.0
RAISE = "raise the limit of open files (ulimit -n)"


class Listener:
    """One listening socket and the shells of its clients. endpoint: of TLS, None without;
    handshakes: those under way, None without TLS; lingering: the sockets of those that
    ended; proxied: of a private Unix socket, where each first says for which client it is; refused:
    closed at a bound; checking: handed over by another process, while their tokens are looked at;
    give_new: called with a socket that has just been accepted, and its host: whether another
    process has it now;
    handles_end: of sockets for clients, -1 for none, see open_files; quiet_until: loop time before
    which it is not said again that handles are scarce."""

    def __init__(
        self,
        broker: Broker,
        poller: Poller,
        loop: asyncio.AbstractEventLoop,
        host: str,
        port: int,
        endpoint: TlsEndpoint | None = None,
        sock: socket.socket | None = None,
    ) -> None:
        """sock: one that listens already, instead of a new one."""
        self.broker = broker
        self.poller = poller
        self.loop = loop
        self.sock = open_socket(host, port) if sock is None else sock
        self.host = host
        self.proxied: ProxiedClients | None = None
        self.port = -1
        if self.sock.family == socket.AF_UNIX:
            self.proxied = ProxiedClients(loop, self._forwarded)
        else:
            self.port = int(self.sock.getsockname()[1])
        self.shells: set[SocketShell] = set()
        self.lingering = Lingering(loop, broker.config.linger_ms)
        self.checking: set[socket.socket] = set()
        self.give_new: Callable[[socket.socket, str], bool] | None = None
        self.refused = 0
        self.handles_end = end_for_clients()
        self.quiet_until = 0.0
        self.endpoint = endpoint
        self.handshakes: Handshakes | None = None
        if endpoint is not None:
            patience_ms = broker.config.tls_handshake_ms
            self.handshakes = Handshakes(loop, endpoint, patience_ms, broker.log, self._serve_tls)
        loop.add_reader(self.sock, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_EVENT):
            try:
                sock, address = self.sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    if self.lingering.give_up_one():
                        continue
                    self._say(
                        f"cannot accept: {error.strerror}; trying again in {BACK_OFF_S} s; {RAISE}"
                    )
                    self.loop.remove_reader(self.sock)
                    self.loop.call_later(BACK_OFF_S, self._again)
                return
            there = self._let_in(sock)
            if there is None:
                continue
            sock = there
            if self.proxied is not None:
                self.proxied.take(sock)
            elif self.give_new is None or not self.give_new(sock, str(address[0])):
                self._arrived(sock, str(address[0]), int(address[1]))

    def take_new(self, sock: socket.socket) -> None:
        """Serve a client that another process has accepted, and not heard."""
        there = self._let_in(sock)
        if there is None:
            return
        try:
            host, port = there.getpeername()[:2]
        except OSError:
            # It has gone again already.
            there.close()
            return
        self._arrived(there, str(host), int(port))

    def _let_in(self, sock: socket.socket) -> socket.socket | None:
        """`sock`, which may have another number then; None, and it is closed, at a bound."""
        if len(self.broker.connections) >= self.broker.config.connections_max:
            self.refused += 1
            sock.close()
            return None
        if self.is_beyond(sock) and self.lingering.give_up_one():
            # The number that became free is the smallest there is.
            high, sock = sock, sock.dup()
            high.close()
        if self.is_beyond(sock):
            self.refused += 1
            sock.close()
            self._say(
                f"a connection was refused: {self.handles_end} files are open, and the rest "
                f"of those the process may have is for the disk; {RAISE}"
            )
            return None
        return sock

    def _arrived(
        self, sock: socket.socket, host: str, port: int, tls_peer: TlsPeer | None = None
    ) -> None:
        """Somebody at `host` and `port` is at the other end."""
        if not self.broker.guessing.has_room(host, self.broker.clock.monotonic_ns()):
            self.refused += 1
            sock.close()
            self._say(f"a connection of {host} was refused: it guesses, or too many wait")
            return
        self._take(sock, host, port, tls_peer)

    def _forwarded(self, sock: socket.socket, header: Header) -> None:
        """Another process of this user has a client, whose TLS, if any, ends there."""
        self._arrived(sock, header.host, header.port, header.tls)

    def is_beyond(self, sock: socket.socket) -> bool:
        """Whether the number of `sock` is one that is kept for the disk."""
        return 0 <= self.handles_end <= sock.fileno()

    def _say(self, what: str) -> None:
        """Once in a while: clients who try again would fill the log."""
        now = self.loop.time()
        if now >= self.quiet_until:
            self.quiet_until = now + SAID_EVERY_S
            self.broker.log.warning(what)

    def adopt(self, sock: socket.socket, name: str) -> None:
        """Serve an operator whose socket came in elsewhere, without TLS. name: of the user."""
        sock.setblocking(False)
        self._serve(sock, "", 0, None, operator(name))

    def take_over(self, sock: socket.socket, record: Handover) -> None:
        """Serve a client that another process has accepted and logged in. sock: its own, or what
        its TLS is relayed over."""
        there = self._let_in(sock)
        if there is None:
            return
        there.setblocking(False)
        tokens = self.broker.host.tokens
        if record.token == "":
            self._go_on(there, record, None)
        elif tokens is None:
            self._go_on(there, record, TokenFault("this process verifies none"))
        else:
            # Nothing is read meanwhile.
            self.checking.add(there)
            tokens.check(record.token, partial(self._checked, there, record))

    def _checked(
        self, sock: socket.socket, record: Handover, found: TokenUser | TokenFault
    ) -> None:
        if sock in self.checking:
            self.checking.discard(sock)
            self._go_on(sock, record, found)

    def _go_on(
        self, sock: socket.socket, record: Handover, found: TokenUser | TokenFault | None
    ) -> None:
        shell = self._shell(sock, record.peer_host, record.peer, None, record.tls_peer)
        negotiator = shell.connection.verbs
        assert isinstance(negotiator, Negotiator), "the broker makes these"
        shell.received_bytes = len(record.said)
        negotiator.go_on(shell.connection, record, found)
        self.poller.request()

    def _again(self) -> None:
        if self.sock.fileno() >= 0:
            self.loop.add_reader(self.sock, self._accept)

    def _take(self, sock: socket.socket, host: str, port: int, tls_peer: TlsPeer | None) -> None:
        sock.setblocking(False)
        try:
            set_up(sock)
        except OSError:
            # The peer has gone again already.
            sock.close()
            return
        if self.handshakes is not None:
            self.handshakes.take(sock, host, port)
        else:
            self._serve(sock, host, port, None, tls_peer)

    def _serve_tls(self, sock: socket.socket, host: str, port: int, tls: TlsSession) -> None:
        assert self.endpoint is not None, "it made the session"
        if len(self.broker.connections) >= self.broker.config.connections_max:
            self.refused += 1
            sock.close()
            return
        shell = self._serve(sock, host, port, tls, tls.peer(self.endpoint.user_from))
        # What the client said right behind its handshake came with it.
        shell.decrypt(b"")
        self.poller.request()

    def _serve(
        self,
        sock: socket.socket,
        host: str,
        port: int,
        tls: TlsSession | None,
        tls_peer: TlsPeer | None,
    ) -> SocketShell:
        shown = f"[{host}]" if ":" in host else host
        peer = f"{shown}:{port}" if host else "control"
        return self._shell(sock, host, peer, tls, tls_peer)

    def _shell(
        self,
        sock: socket.socket,
        host: str,
        peer: str,
        tls: TlsSession | None,
        tls_peer: TlsPeer | None,
    ) -> SocketShell:
        return SocketShell(
            self.broker,
            self.poller,
            sock,
            host,
            peer,
            self.shells,
            self.lingering,
            tls,
            tls_peer,
        )

    def stop_accepting(self) -> None:
        if self.sock.fileno() >= 0:
            self.loop.remove_reader(self.sock)
            self.sock.close()

    def close(self) -> None:
        """No more clients, and none of the present ones."""
        self.stop_accepting()
        if self.handshakes is not None:
            self.handshakes.close()
        if self.proxied is not None:
            self.proxied.close()
        for shell in list(self.shells):
            shell.close()
        for sock in self.checking:
            sock.close()
        self.checking.clear()
        self.shells.clear()
        self.lingering.close()


def set_up(sock: socket.socket) -> None:
    """The options of a client's socket. Raises: OSError."""
    if sock.family == socket.AF_UNIX:
        # Whoever forwards a client watches its host.
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Until the heartbeat is known, as if it were the shortest.
    watch_host(sock, 1)


def open_socket(host: str, port: int, option: str = "--port") -> socket.socket:
    """A listening socket. option: of the command line, which chooses the port.

    Raises: OperatorError naming the port's owner, or what is wrong."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(1024)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise OperatorError(
                f"port {port} on {host} is used by {port_owner(port)}; stop it, or choose another "
                f"port with {option} (0 picks a free one)"
            ) from error
        raise OperatorError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    except OverflowError as error:
        sock.close()
        raise OperatorError(f"port {port} does not exist; choose one of 0..65535") from error
    return sock


def port_owner(port: int) -> str:
    """`pid 912 (beam.smp)`, or that it cannot be told."""
    try:
        for one in psutil.net_connections(kind="tcp"):
            if one.laddr and one.laddr.port == port and one.status == psutil.CONN_LISTEN:
                if one.pid is None:
                    break
                return f"pid {one.pid} ({psutil.Process(one.pid).name()})"
    except (psutil.Error, OSError):
        return "a process that this user may not see"
    return "a process that this user may not see"
