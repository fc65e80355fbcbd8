"""Signals that end a long command as Ctrl-C does, so that it cleans up behind itself."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

ENDS: Final = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_as_by_hand() -> Iterator[None]:
    """SIGTERM, as of `timeout` or a service, and SIGHUP of a terminal that is closed, raise
    KeyboardInterrupt in the block. For the main thread."""
    before = {number: signal.getsignal(number) for number in ENDS}
    for number, handler in before.items():
        # What nohup has it ignore it ignores.
        if handler != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
