"""The broker's log: a line each with time and level, text or JSON, to standard error or a file.

Text may repeat what a peer has said (a user name, a queue name), so whatever is not printable is
escaped: nobody writes lines of their own into the log, or moves the cursor of a terminal. Events
that clients cause (connects, errors of channels) are said EVENTS_PER_S times a second by kind at
most; the rest are counted, and the count is said.
"""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from traceback import format_exception
from typing import Final, TextIO

import msgspec

from penstock.base.clock import Clock
from penstock.base.config import LOG_FORMATS, LOG_LEVELS, Config
from penstock.base.errors import OperatorError
from penstock.base.limits import LOG_LINES
from penstock.base.printable import printable
from penstock.base.recent_lines import RecentLines
from penstock.broker.broker import Log

EVENTS_PER_S: Final = 20
"""Of each kind."""
NS_PER_S: Final = 1_000_000_000
NOTHING: Final[Mapping[str, object]] = {}


class _Kind:
    """Events of one kind in the present second. second: which; said, unsaid: how many."""

    __slots__ = ("said", "second", "unsaid")

    def __init__(self) -> None:
        self.second = 0
        self.said = 0
        self.unsaid = 0


class LineLog(Log):
    """stream: where lines go, flushed one by one; clock: wall time; level: the lowest that is
    written; form: of LOG_FORMATS; recent: so many of the newest, which questions are answered
    from, whatever has become of the stream; who: begins each text, where several processes write
    into one log."""

    def __init__(
        self,
        stream: TextIO,
        clock: Clock,
        level: str = "info",
        form: str = "text",
        recent: int = LOG_LINES.default,
    ) -> None:
        self.stream = stream
        self.clock = clock
        self.path = ""
        self.who = ""
        self.recent = RecentLines(recent)
        self._kinds: dict[str, _Kind] = {}
        self.set_up(level, form)

    def set_up(self, level: str, form: str) -> None:
        """From now on. Raises: OperatorError."""
        for name, value, known in (
            ("log_level", level, LOG_LEVELS),
            ("log_format", form, LOG_FORMATS),
        ):
            if value not in known:
                raise OperatorError(f"{name} = '{value}' is none of {', '.join(known)}")
        self.level = LOG_LEVELS.index(level)
        self.is_json = form == "json"

    def open(self, path: str) -> None:
        """Write to `path` from now on, "" for standard error; the same one is opened anew, after it
        was given another name. Raises: OperatorError, and everything is as it was."""
        if path:
            try:
                stream: TextIO = Path(path).open(  # noqa: SIM115  # it stays open
                    "a", encoding="utf-8", errors="backslashreplace"
                )
            except OSError as error:
                raise OperatorError(
                    f"cannot write the log {path}: {error.strerror}; give another file with "
                    "log_file, or none for standard error"
                ) from error
        else:
            stream = sys.stderr if self.path else self.stream
        before, self.stream = self.stream, stream
        if self.path and before is not stream:
            before.close()
        self.path = path

    def debug(self, text: str) -> None:
        self._write("debug", text, "", NOTHING)

    def info(self, text: str) -> None:
        self._write("info", text, "", NOTHING)

    def warning(self, text: str) -> None:
        self._write("warning", text, "", NOTHING)

    def event(self, kind: str, text: str, fields: Mapping[str, object] = NOTHING) -> None:
        level = "warning" if kind.endswith(".error") else "info"
        if self.level > LOG_LEVELS.index(level):
            return
        second = self.clock.wall_ns() // NS_PER_S
        seen = self._kinds.setdefault(kind, _Kind())
        if seen.second != second:
            unsaid, seen.second, seen.said, seen.unsaid = seen.unsaid, second, 0, 0
            if unsaid > 0:
                self._write("info", f"and {unsaid} more of {kind}", kind, {"count": unsaid})
        if seen.said >= EVENTS_PER_S:
            seen.unsaid += 1
            return
        seen.said += 1
        self._write(level, text, kind, fields)

    def say_rest(self) -> None:
        """Once a second: what was counted and not said, though nothing comes any more."""
        second = self.clock.wall_ns() // NS_PER_S
        for kind, seen in self._kinds.items():
            if seen.unsaid > 0 and seen.second != second:
                unsaid, seen.unsaid = seen.unsaid, 0
                self._write("info", f"and {unsaid} more of {kind}", kind, {"count": unsaid})

    def error(self, text: str, error: BaseException) -> None:
        """One line, and under it the traceback, for whoever mends the bug."""
        whole = f"{text}: {type(error).__name__}: {error}"
        trace = [line for part in format_exception(error) for line in part.splitlines()]
        self._write("error", whole, "", {"traceback": trace})
        level, ms = LOG_LEVELS.index("error"), self.clock.wall_ns() // 1_000_000
        for line in trace:
            self.recent.add(ms, level, "", f"    {line}")
        if self.is_json:
            return
        for line in trace:
            self._line(f"    {printable(line)}")

    def _write(self, level: str, text: str, kind: str, fields: Mapping[str, object]) -> None:
        if LOG_LEVELS.index(level) < self.level:
            return
        ms = self.clock.wall_ns() // 1_000_000
        text = self.who + text
        self.recent.add(ms, LOG_LEVELS.index(level), kind, text)
        shown = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000))
        shown = f"{shown}.{ms % 1000:03d}Z"
        if not self.is_json:
            self._line(f"{shown} {level:<7} {printable(text)}")
            return
        row: dict[str, object] = {"time": shown, "level": level, "message": text}
        if kind:
            row["event"] = kind
        self._line(msgspec.json.encode(row | dict(fields)).decode())

    def _line(self, line: str) -> None:
        try:
            self.stream.write(line + "\n")
            self.stream.flush()
        except (OSError, ValueError):
            # A full disk, or nobody reads: that must not be the end of a broker.
            return


def log_of(config: Config, clock: Clock) -> LineLog:
    """The log that `config` wants. Raises: OperatorError."""
    log = LineLog(sys.stderr, clock, config.log_level, config.log_format, config.log_lines)
    if config.log_file:
        log.open(config.log_file)
    return log
