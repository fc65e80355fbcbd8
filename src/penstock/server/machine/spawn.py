"""Starting a process of ours that serves a broker: warm, everything imported, nothing opened."""

import socket
import subprocess
import sys
from typing import Final

BROKER_CHILD: Final = "penstock.cli.broker_child"
"""The broker of a node of a cluster."""


def spawn_child(
    pass_fds: tuple[int, ...] = (), module: str = BROKER_CHILD
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The process, and this end of the pipe, which blocks. pass_fds: descriptors it is to have as
    well, under the same numbers; module: what it runs, with the number of its end of the pipe.
    Raises: OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        fd = theirs.fileno()
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", module, str(fd)],
                stdin=subprocess.DEVNULL,
                pass_fds=(fd, *pass_fds),
            )
        except OSError:
            ours.close()
            raise
    return process, ours
