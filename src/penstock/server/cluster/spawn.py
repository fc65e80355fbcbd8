"""Starting a broker child, warm: everything imported, nothing opened."""

import socket
import subprocess
import sys

MODULE = "penstock.cli.broker_child"


def spawn_child(pass_fds: tuple[int, ...] = ()) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The process, and this end of the pipe, which blocks. pass_fds: descriptors it is to have as
    well, under the same numbers. Raises: OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        fd = theirs.fileno()
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", MODULE, str(fd)],
                stdin=subprocess.DEVNULL,
                pass_fds=(fd, *pass_fds),
            )
        except OSError:
            ours.close()
            raise
    return process, ours
