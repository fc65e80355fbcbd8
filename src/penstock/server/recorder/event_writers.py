"""Where the flow events of a running broker go: an event file, the broker's own stream, or both."""

import os
from typing import Final

import penstock
from penstock.broker.admin.event_feed import EventFeed, open_feed
from penstock.broker.admin.views import actor_snapshots
from penstock.broker.broker import Broker
from penstock.server.recorder.event_files import EventFile
from penstock.server.recorder.event_samples import EventSamples
from penstock.telemetry.trace import TraceHeader

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
            self.samples = EventSamples(broker.recorder)

    def sample(self) -> None:
        """Put on record what everybody has to say now."""
        if self.samples is not None:
            self.samples.take_all(actor_snapshots(self.broker))

    def close(self) -> None:
        """Sample once more, then write everything. The stream has it when its store is closed."""
        self.sample()
        if self.file is not None:
            self.file.close()
        if self.feed is not None:
            self.feed.finish()
