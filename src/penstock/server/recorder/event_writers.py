"""Where the flow events of a running broker go: an event file, the broker's own stream, or both.

Event files hold what the recorder holds as JSON lines, one file for each run of the broker; the
directory is bounded by the operator's disk, the recorder by its ring. Once a period every actor
puts its times, its counts and what holds its consumers on record.
"""

import os
import platform
from dataclasses import fields
from pathlib import Path
from typing import Final

import penstock
from penstock.base.clock import Clock
from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.admin.event_feed import EventFeed, open_feed
from penstock.broker.admin.views import actor_snapshots
from penstock.broker.broker import Broker
from penstock.server.recorder.consumer_holds import ConsumerHolds
from penstock.telemetry.events import (
    CONNECTION_SAMPLE,
    COUNT_FIELDS,
    QUEUE_SAMPLE,
    TIME_FIELDS,
    CountSample,
    TimeSample,
)
from penstock.telemetry.recorder import Recorder, RecorderReader
from penstock.telemetry.snapshots import ActorSnapshot
from penstock.telemetry.trace import TraceHeader, encode_events, encode_header

SAMPLED: Final = frozenset({"conn", "chan", "queue", "consumer", "alarm"})


def facts_of(config: Config) -> dict[str, str]:
    """What a reader of events may have to know of their broker: its Python, and settings that are
    not the usual ones, numbers and switches only, as texts may be secrets or paths."""
    usual, found = Config(), {"python": platform.python_version(), "profile": config.profile}
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, int | float) and value != getattr(usual, field.name):
            found[field.name] = str(value)
    return found


class EventSamples:
    """For whoever writes events down, once for all of them."""

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self.recorder = recorder
        self.clock = clock
        self.holds = ConsumerHolds(recorder)

    def take(self, one: ActorSnapshot) -> None:
        """Put one actor's cumulative numbers on record; accounts and the node have no time."""
        self.holds.take(one)
        if one.kind not in SAMPLED:
            return
        recorder = self.recorder
        times = [getattr(one.times, name) for name in TIME_FIELDS]
        now_ns = self.clock.monotonic_ns()
        recorder.keep(TimeSample(recorder.next_seq, now_ns, one.actor, *times))
        if one.kind in ("queue", "conn"):
            kind = QUEUE_SAMPLE if one.kind == "queue" else CONNECTION_SAMPLE
            counts = [int(one.numbers.get(name, 0)) for name in (*COUNT_FIELDS, "paged")]
            recorder.keep(CountSample(recorder.next_seq, now_ns, kind, one.actor, *counts))


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


FILE_S: Final = 0.25
FEED_S: Final = 0.05
"""20,000 events a second pass; of more the ring loses some, which is told."""


class EventWriters:
    """file, feed: None where they are not asked for; samples: None where neither is.

    Raises: OperatorError."""

    def __init__(self, broker: Broker, boot_id: str) -> None:
        config = broker.config
        clock = broker.clock
        header = TraceHeader(
            os.uname().nodename,
            boot_id,
            clock.wall_ns(),
            clock.monotonic_ns(),
            penstock.__version__,
            facts_of(config),
        )
        self.broker = broker
        self.file: EventFile | None = None
        self.feed: EventFeed | None = None
        self.samples: EventSamples | None = None
        if config.events_dir != "":
            self.file = EventFile(config.events_dir, header, broker.recorder)
        if config.event_stream != "":
            self.feed = open_feed(broker, header)
        if self.file is not None or self.feed is not None:
            self.samples = EventSamples(broker.recorder, clock)

    def sample(self) -> None:
        """Put on record what everybody has to say now."""
        if self.samples is not None:
            for one in actor_snapshots(self.broker).values():
                self.samples.take(one)

    def close(self) -> None:
        """Sample once more, then write everything. The stream has it when its store is closed."""
        self.sample()
        if self.file is not None:
            self.file.close()
        if self.feed is not None:
            self.feed.finish()
