"""What the processes of one broker send each other with a connection: a message, and a descriptor.

A message is a byte that says its kind, a record, and the client's socket:

    CONNECTION   a client that waits for its virtual host, see broker/session/handover
    IN_FILE      the same, where the record is too long for a message: it is in a second descriptor
    OPERATOR     who has asked the parent's control socket to speak AMQP
    NEW          a client by TLS that has said nothing yet, and is probably for that worker
"""

import errno
import os
import select
import socket
import tempfile
from array import array
from contextlib import suppress
from typing import IO, Final

from penstock.base.limits import HANDOVER_BYTES
from penstock.broker.session.handover import HandoverFault

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
        put(to, OPERATOR, name.encode(), sock.fileno())
    except BlockingIOError:
        return False
    return True


def put(to: socket.socket, kind: int, body: bytes, fd: int) -> None:
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


def got(sock: socket.socket) -> tuple[bytes, list[int], bool]:
    """One message, its descriptors, and whether all of it came. Raises: OSError."""
    flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    room = socket.CMSG_SPACE(DESCRIPTORS * array("i").itemsize)
    data, ancillary, came, _ = sock.recvmsg(MESSAGE_BYTES + 1, room, flags)
    fds = array("i")
    for level, kind, part in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(part[: len(part) - len(part) % fds.itemsize])
    return data, list(fds), came & (socket.MSG_TRUNC | socket.MSG_CTRUNC) == 0


def turn_away(sock: socket.socket) -> int:
    """Close all connections that wait at this end of `handover_pair`: how many there were."""
    count = 0
    with suppress(OSError):
        while True:
            data, fds, _ = got(sock)
            if not data and not fds:
                break
            for fd in fds:
                os.close(fd)
            count += 1
    return count


def is_hung_up(sock: socket.socket) -> bool:
    """Whether every end on which something could be sent is closed."""
    poll = select.poll()
    poll.register(sock, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def stream_of(fds: list[int]) -> socket.socket:
    """The first of them, taken out. Raises: HandoverFault, OSError."""
    sock = socket.socket(fileno=fds[0])
    if sock.type != socket.SOCK_STREAM:
        sock.detach()
        raise HandoverFault("a descriptor is no stream socket")
    del fds[0]
    return sock


def content_of(fd: int) -> bytes:
    """Of a file. Raises: HandoverFault, OSError."""
    size = os.fstat(fd).st_size
    if size > HANDOVER_BYTES.default:
        raise HandoverFault(f"{size} bytes, more than {HANDOVER_BYTES.default}")
    return os.pread(fd, size, 0)
