"""The broker's log for people: one line each on standard error, with time and level.

Text may repeat what a peer has said (a user name, a queue name), so whatever is not printable is
escaped: nobody writes lines of their own into the log, or moves the cursor of a terminal.
"""

import time
from traceback import format_exception
from typing import TextIO

from penstock.base.clock import Clock
from penstock.base.printable import printable
from penstock.broker.broker import Log


class LineLog(Log):
    """stream: where lines go, flushed one by one; clock: wall time."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self.stream = stream
        self.clock = clock

    def info(self, text: str) -> None:
        self._write("info", text)

    def warning(self, text: str) -> None:
        self._write("warning", text)

    def error(self, text: str, error: BaseException) -> None:
        """One line, and under it the traceback, for whoever mends the bug."""
        self._write("error", f"{text}: {type(error).__name__}: {error}")
        for part in format_exception(error):
            for line in part.splitlines():
                self.stream.write(f"    {printable(line)}\n")
        self.stream.flush()

    def _write(self, level: str, text: str) -> None:
        ms = self.clock.wall_ns() // 1_000_000
        shown = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000))
        self.stream.write(f"{shown}.{ms % 1000:03d}Z {level:<7} {printable(text)}\n")
        self.stream.flush()
