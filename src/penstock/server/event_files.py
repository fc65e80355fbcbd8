"""Flow event files: what the recorder holds, written as JSON lines for replay and for Spark.

One file per run of the broker; the directory is bounded by the operator's disk, the recorder by
its ring. Samples of time and counts are taken once a period.
"""

import os
from pathlib import Path

import penstock
from penstock.base.clock import Clock
from penstock.base.errors import OperatorError
from penstock.server.consumer_holds import ConsumerHolds
from penstock.telemetry.events import CONNECTION_SAMPLE, QUEUE_SAMPLE
from penstock.telemetry.recorder import Recorder, RecorderReader
from penstock.telemetry.snapshots import ActorSnapshot
from penstock.telemetry.trace import TraceHeader, encode_events, encode_header

SAMPLED = frozenset({"conn", "chan", "queue", "consumer", "alarm"})


class EventFile:
    """An open event file. Raises: OperatorError when it cannot be made."""

    def __init__(self, directory: str, boot_id: str, clock: Clock, recorder: Recorder) -> None:
        self.recorder = recorder
        self.cursor = RecorderReader(recorder)
        self.holds = ConsumerHolds(recorder)
        path = Path(directory)
        try:
            path.mkdir(parents=True, exist_ok=True)
            self.path = path / f"events-{boot_id}.jsonl"
            self.file = self.path.open("wb")
        except OSError as error:
            raise OperatorError(
                f"cannot write event files to {directory}: {error.strerror}; choose another "
                "directory with --events"
            ) from error
        header = TraceHeader(
            os.uname().nodename,
            boot_id,
            clock.wall_ns(),
            clock.monotonic_ns(),
            penstock.__version__,
        )
        self.file.write(encode_header(header))

    def sample(self, snapshots: dict[str, ActorSnapshot]) -> None:
        """Put the actors' cumulative numbers on record."""
        for one in snapshots.values():
            self.sample_one(one)

    def sample_one(self, one: ActorSnapshot) -> None:
        """Put one actor's cumulative numbers on record; accounts and the node have no time."""
        self.holds.take(one)
        if one.kind not in SAMPLED:
            return
        record = self.recorder
        times = one.times
        record.record_times(
            one.actor, times.idle_ns, times.busy_ns, times.blocked_ns, times.waiting_ns
        )
        if one.kind in ("queue", "conn"):
            number = one.numbers
            record.record_counts(
                QUEUE_SAMPLE if one.kind == "queue" else CONNECTION_SAMPLE,
                one.actor,
                int(number.get("ready", 0)),
                int(number.get("unacked", 0)),
                int(number.get("bytes", 0)),
                int(number.get("published", 0)),
                int(number.get("delivered", 0)),
                int(number.get("acked", 0)),
                int(number.get("consumers", 0)),
                int(number.get("paged", 0)),
            )

    def write(self) -> None:
        """Everything recorded since the last call."""
        events = self.cursor.read()
        if events:
            self.file.write(encode_events(events))

    def close(self) -> None:
        self.write()
        self.file.close()
