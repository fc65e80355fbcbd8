"""What the processes are that the lab starts: ended by the command, and never longer there than it.

Ctrl-C at a terminal, and the end of that terminal, reach them as they reach the command. It is for
that one, which then ends them in order; whatever ends the command, they go with it.
"""

import os
import signal
import threading
from multiprocessing import parent_process
from multiprocessing.connection import wait
from typing import Final

OF_TERMINALS: Final = (signal.SIGINT, signal.SIGHUP)
"""Signals that every process of a terminal gets."""
ORPHANED: Final = 1
"""Exit status; nobody is left to see it."""


def begin_child() -> None:
    """Be such a process, from its first line on."""
    for number in OF_TERMINALS:
        signal.signal(number, signal.SIG_IGN)
    # A process that is forked has what the command does about it.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, name="watch the command", daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None, "this process is a child"
    wait([parent.sentinel])
    os._exit(ORPHANED)
