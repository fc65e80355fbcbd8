"""Signals that end a long command as Ctrl-C does, so that it cleans up behind itself."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_as_by_hand() -> Iterator[None]:
    """SIGTERM, as of `timeout` or a service, raises KeyboardInterrupt in the block. For the main
    thread."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
