"""Puts the broker's flow events into its own stream, and never holds an actor up for it.

    recorder's ring  --EVENTS_PER_MESSAGE at a time-->  one message  -->  the stream's store

One message is under way at most: while the disk is slow or full, the disk alarm is set, or a reader
group pins all the stream may have, events stay in the ring, and when that overtakes the feed, a
`dropped` event says how many are lost. A message is a batch of events by the column
(`telemetry/event_batch.py`).

Its own work makes no events about itself without end: its hop never runs out of credit, and what is
left is what every queue and store puts on record once a second.
"""

from typing import Final

from penstock.base.errors import OperatorError
from penstock.broker.actors.lane import Answerable
from penstock.broker.alarm.alarm_manager import DISK
from penstock.broker.broker import Broker
from penstock.broker.stream.internal_stream import EVENT_STREAM, ID_KEY, InternalStream, bounds
from penstock.broker.stream.stream_store import stream_request
from penstock.broker.vhost.queue_arguments import TYPE_KEY
from penstock.broker.vhost.stream_arguments import STREAM
from penstock.protocol.content import Address, Message, make_content
from penstock.protocol.properties import Properties, encode_header_payload
from penstock.protocol.values import Table
from penstock.telemetry.event_batch import encode_batch
from penstock.telemetry.events import DROPPED, Event
from penstock.telemetry.trace import TraceHeader

EVENTS_PER_MESSAGE: Final = 1000
"""About 50 kB, and some milliseconds of work where nothing is compiled."""

PATIENCE_NS: Final = 1_000_000_000
"""What is fewer waits so long for more: a message costs a sync of the disk."""

LAST_MESSAGES: Final = 70
"""At the end of the broker: all that a ring of the usual size has."""

CONTENT_TYPE: Final = "application/x-penstock-event-batch"
MESSAGE_TYPE: Final = "penstock-events"
FRAME_BYTES: Final = 131_072


class EventFeed(Answerable):
    """One life of the broker. actor: the stream; next_seq: of the first event that is not
    written; is_under_way: a message is not on the disk yet."""

    def __init__(self, broker: Broker, actor: InternalStream, header: TraceHeader) -> None:
        self.actor = actor
        self._broker = broker
        self._header = header
        self._address = Address("", EVENT_STREAM)
        self.next_seq = broker.recorder.dropped
        self._sent_ns = broker.clock.monotonic_ns()
        self.is_under_way = False

    def tick(self) -> bool:
        """Some times a second: write a message if it is time for one; whether it was."""
        waiting = self._broker.recorder.next_seq - self.next_seq
        if waiting == 0 or self.is_under_way:
            return False
        now_ns = self._broker.clock.monotonic_ns()
        if waiting < EVENTS_PER_MESSAGE and now_ns - self._sent_ns < PATIENCE_NS:
            return False
        if not self._may_write():
            return False
        self._sent_ns = now_ns
        self._write()
        return True

    def finish(self) -> None:
        """The broker ends: everything that is in the ring goes to the store."""
        for _ in range(LAST_MESSAGES):
            if self._broker.recorder.next_seq == self.next_seq or not self._may_write():
                return
            self._write()

    def accepted(self, messages: list[Message], count: int) -> None:
        """The message is on the disk."""
        self.is_under_way = False

    def _may_write(self) -> bool:
        """Not while the disk has no room for others, and no further than a group may pin."""
        is_short = f"alarm:{DISK}" in self._broker.alarms
        return self.actor.is_alive and not is_short and self.actor.stop_reason() == ""

    def _write(self) -> None:
        events = self._broker.recorder.since(self.next_seq, EVENTS_PER_MESSAGE)
        self.next_seq = events[-1].seq + 1
        for event in events:
            if event.kind == DROPPED:
                self.actor.lost_count += event.amount
        message = self._message(events)
        store, lane = self.actor.store, self.actor.lane
        assert store is not None and lane is not None, "a stream has its log before it is fed"
        self.is_under_way = True
        self.actor.messages.publish_count += 1
        payer = self._broker.node_account
        store.offered(stream_request(lane, payer, self, [message], len(message.raw)))

    def _message(self, events: list[Event]) -> Message:
        body = encode_batch(self._header, events)
        properties = Properties(
            content_type=CONTENT_TYPE,
            headers={
                "boot_id": self._header.boot_id,
                "stream_id": self.actor.stream_id,
                "seq": events[0].seq,
                "events": len(events),
            },
            delivery_mode=2,
            type=MESSAGE_TYPE,
        )
        header = encode_header_payload(len(body), properties)
        message = make_content(0, b"", header, body, FRAME_BYTES)
        message.address = self._address
        return message


def open_feed(broker: Broker, header: TraceHeader) -> EventFeed:
    """A feed into the stream that the configuration asks for, which is made if it is not there.

    Raises: OperatorError for a virtual host that is not there, and without a recorder."""
    config = broker.config
    vhost = broker.vhosts.get(config.event_stream)
    if vhost is None:
        raise OperatorError(
            f"event_stream = '{config.event_stream}': no such virtual host; one of: "
            f"{', '.join(sorted(broker.vhosts))}"
        )
    if config.recorder_events == 0:
        raise OperatorError(
            f"event_stream = '{vhost.name}' needs the flight recorder, and recorder_events is 0; "
            "leave recorder_events out"
        )
    actor = vhost.queues.get(EVENT_STREAM)
    if actor is None:
        arguments: Table = {
            TYPE_KEY: STREAM,
            **bounds(config.event_stream_bytes),
            ID_KEY: broker.host.fresh_name(""),
        }
        actor = broker.make_queue(vhost, EVENT_STREAM, True, False, "", arguments)
        actor.queue_id = vhost.catalogue.queue_added(actor)
        vhost.add_store(actor)
    assert isinstance(actor, InternalStream), "nobody else can declare that name"
    actor.feed(config.event_stream_bytes)
    return EventFeed(broker, actor, header)
