"""The audit log: who did what, when and from where, as JSON lines in a file of bounded size.

    DIR/audit.jsonl                the newest, or where `audit_log` says
    DIR/audit.1.jsonl .. 3.jsonl   older ones; a file that is full takes the place of the next

A line has at (UTC), user, address, did, vhost and what. Lines are gathered, and written ten times a
second; the last ones are lost when the broker is killed. It is readable by its owner alone.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from penstock.base.clock import Clock
from penstock.base.errors import OperatorError
from penstock.base.limits import AUDIT_BYTES, AUDIT_LINES
from penstock.broker.actors.log import Log
from penstock.broker.session.audit import Audit

NAME: Final = "audit.jsonl"
OLDER: Final = 3
LINES_PER_WRITE: Final = 1000
FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class AuditFile(Audit):
    """path: the newest file; dropped: lines that were lost since the last that was written. Bounds:
    AUDIT_LINES that wait, AUDIT_BYTES a file."""

    __slots__ = ("_clock", "_is_failing", "_log", "_waiting", "bytes_max", "dropped", "path")

    def __init__(self, path: Path, clock: Clock, log: Log) -> None:
        self.path = path
        self.bytes_max = AUDIT_BYTES.default
        self.dropped = 0
        self._clock = clock
        self._log = log
        self._waiting: list[bytes] = []
        self._is_failing = False

    def open(self) -> None:
        """Find out whether it can be written, before anybody relies on it. Raises: OperatorError
        that names the file."""
        try:
            os.close(os.open(self.path, FLAGS, 0o600))
        except OSError as error:
            raise OperatorError(
                f"cannot write the audit log {self.path}: {error.strerror}; give another file with "
                "audit_log, or none to go without"
            ) from error

    def note(
        self, user: str, address: str, did: str, vhost: str, what: Mapping[str, object]
    ) -> None:
        if len(self._waiting) >= AUDIT_LINES.default:
            self.dropped += 1
            return
        ms = self._clock.wall_ns() // 1_000_000
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"
        row = {"at": at, "user": user, "address": address, "did": did, "vhost": vhost}
        self._waiting.append(msgspec.json.encode({**row, "what": dict(what)}))

    def write(self) -> None:
        """Some of what waits. A disk that takes nothing is named once; its lines wait."""
        lines = self._waiting[:LINES_PER_WRITE]
        if not lines:
            return
        if self.dropped > 0 and len(self._waiting) < AUDIT_LINES.default:
            count, self.dropped = self.dropped, 0
            self.note("", "", "lines dropped", "", {"count": count})
        data = b"\n".join(lines) + b"\n"
        try:
            self._append(data)
        except OSError as error:
            if not self._is_failing:
                self._log.warning(f"the audit log {self.path} cannot be written: {error}")
            self._is_failing = True
            return
        self._is_failing = False
        del self._waiting[: len(lines)]

    def close(self) -> None:
        """Write all that waits."""
        before = -1
        while self._waiting and len(self._waiting) != before:
            before = len(self._waiting)
            self.write()

    def _append(self, data: bytes) -> None:
        descriptor = os.open(self.path, FLAGS, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            if size > 0 and size + len(data) > self.bytes_max:
                os.close(descriptor)
                descriptor = -1
                self._rotate()
                descriptor = os.open(self.path, FLAGS, 0o600)
                size = 0
            if os.write(descriptor, data) < len(data):
                # Half a line would spoil the next one.
                os.ftruncate(descriptor, size)
                raise OSError(28, "no room for the whole of it")
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def _rotate(self) -> None:
        for number in range(OLDER, 0, -1):
            older = self._older(number)
            newer = self.path if number == 1 else self._older(number - 1)
            if newer.exists():
                os.replace(newer, older)

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.stem}.{number}{self.path.suffix}")
