"""Flow event files: what the recorder holds, written as JSON lines for replay and for Spark.

One file per run of the broker; the directory is bounded by the operator's disk, the recorder by
its ring.
"""

from pathlib import Path

from penstock.base.errors import OperatorError
from penstock.telemetry.recorder import Recorder, RecorderReader
from penstock.telemetry.trace import TraceHeader, encode_events, encode_header


class EventFile:
    """An open event file. Raises: OperatorError when it cannot be made."""

    def __init__(self, directory: str, header: TraceHeader, recorder: Recorder) -> None:
        self.cursor = RecorderReader(recorder)
        path = Path(directory)
        try:
            path.mkdir(parents=True, exist_ok=True)
            self.path = path / f"events-{header.boot_id}.jsonl"
            self.file = self.path.open("wb")
        except OSError as error:
            raise OperatorError(
                f"cannot write event files to {directory}: {error.strerror}; choose another "
                "directory with --events"
            ) from error
        self.file.write(encode_header(header))

    def write(self) -> None:
        """Everything recorded since the last call."""
        events = self.cursor.read()
        if events:
            self.file.write(encode_events(events))

    def close(self) -> None:
        self.write()
        self.file.close()
