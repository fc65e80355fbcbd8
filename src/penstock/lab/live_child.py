"""What the processes are that the lab starts: ended by the command, and never longer there than it.

Ctrl-C at a terminal reaches them as it reaches the command. It is for that one, which then ends
them in order; whatever ends the command, they go with it.
"""

import os
import signal
import threading
from multiprocessing import parent_process
from multiprocessing.connection import wait
from typing import Final

ORPHANED: Final = 1
"""Exit status; nobody is left to see it."""


def begin_child() -> None:
    """Be such a process, from its first line on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A process that is forked has what the command does about it.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, name="watch the command", daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None, "this process is a child"
    wait([parent.sentinel])
    os._exit(ORPHANED)
