"""The trace file of one client: which message reached which stage when.

Lines are gathered in memory and written in blocks, so that tracing costs the client little; the
ids, names and phases are our own words and need no escaping.
"""

import time
from pathlib import Path
from types import TracebackType
from typing import Final

BLOCK_LINES: Final = 512


class Trace:
    """A trace file that is open until the end of the `with` block."""

    def __init__(self, directory: str, client: str) -> None:
        self._file = (Path(directory) / f"trace-{client}.jsonl").open("w", encoding="utf-8")
        self._client = client
        self._lines: list[str] = []

    def __enter__(self) -> "Trace":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.flush()
        self._file.close()

    def note(self, message_id: str, stage: str, queue: str, phase: str = "") -> int:
        """Note that a message reached a stage now; returns now in monotonic ns."""
        now_ns = time.monotonic_ns()
        self._lines.append(
            f'{{"id":"{message_id}","stage":"{stage}","t":{now_ns},'
            f'"client":"{self._client}","queue":"{queue}","phase":"{phase}"}}\n'
        )
        if len(self._lines) >= BLOCK_LINES:
            self.flush()
        return now_ns

    def flush(self) -> None:
        """Write what was gathered."""
        self._file.write("".join(self._lines))
        self._file.flush()
        self._lines.clear()
