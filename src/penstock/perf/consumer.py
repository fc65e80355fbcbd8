"""A consumer under load: takes deliveries, pretends to work on them if asked to, acknowledges."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from penstock.client.events import (
    Cancelled,
    ChannelClosed,
    ClientEvent,
    ConnectionClosed,
    Delivery,
)
from penstock.perf.link import LoadConnection, LoadMember
from penstock.perf.meter import OLDEST_NS, Tally, read_stamp
from penstock.perf.plan import LoadPlan

WAITING_MAX: Final = 1000
"""Deliveries a slow consumer holds before it stops reading its socket (auto-ack, no prefetch)."""
_BODY_AT: Final = 15
"""Behind the header payload: its own end octet and envelope, then the body frame's envelope."""


class LoadConsumer(LoadMember):
    """One consumer with a connection and a channel of its own.

    early: deliveries that came in before the loop began. `received`: deliveries processed;
    `unique`: those of this run that the broker did not mark as redelivered. Without producers in
    this run, every message not older than an hour is its own.
    """

    def __init__(
        self, name: str, link: LoadConnection, channel: int, early: Iterable[Delivery],
        plan: LoadPlan,
        tally: Tally, start_ns: int,
    ) -> None:  # fmt: skip
        super().__init__(name, link)
        self.received = 0
        self.unique = 0
        self._plan = plan
        self._tally = tally
        self._start_ns = start_ns
        self._channel = channel
        self._interval_ns = plan.consumer_interval_ns()
        self._ready_ns = start_ns
        self._waiting: deque[Delivery] = deque(early)
        self._unacked = 0
        self._last_tag = 0

    def is_done(self) -> bool:
        """Whether it has had all it was to have, or can have no more."""
        total = self._plan.messages_per_consumer
        return self.failed is not None or (0 < total <= self.received)

    def is_reading(self) -> bool:
        """Whether it wants more from its socket."""
        return len(self._waiting) < WAITING_MAX and not self.is_done()

    def next_ns(self) -> int | None:
        """When it wants its next turn; None when only its socket can bring one."""
        return self._ready_ns if self._waiting and not self.is_done() else None

    def take(self, events: list[ClientEvent], now_ns: int) -> None:
        """What the broker said."""
        if not self._waiting and self._ready_ns < now_ns:
            # Idle time is not saved up: a slow worker cannot work ahead of what it has not got.
            self._ready_ns = now_ns
        for event in events:
            if isinstance(event, Delivery):
                self._waiting.append(event)
            elif isinstance(event, ChannelClosed | ConnectionClosed):
                self.fail(event.code, event.text)
            elif isinstance(event, Cancelled):
                self.fail(0, "its queue was deleted")
        self.turn(now_ns)

    def turn(self, now_ns: int) -> None:
        """Process what is waiting, as fast as it pretends to be, and write the acks."""
        waiting = self._waiting
        interval_ns = self._interval_ns
        if interval_ns:
            while waiting and self._ready_ns <= now_ns and not self.is_done():
                self._ready_ns += interval_ns
                self._process(waiting.popleft(), now_ns)
        else:
            while waiting and not self.is_done():
                self._process(waiting.popleft(), now_ns)
        if self.is_done():
            self.settle()
        self.link.write(now_ns)

    def settle(self) -> None:
        """Acknowledge what has been processed and not yet acknowledged."""
        if self._unacked and self.failed is None:
            self.link.session.ack(self._channel, self._last_tag, True)
            self._unacked = 0

    def _process(self, delivery: Delivery, now_ns: int) -> None:
        tally = self._tally
        message = delivery.message
        self.received += 1
        tally.received += 1
        tally.received_bytes += int(message.body_bytes)
        redelivered = delivery.redelivered
        if redelivered:
            tally.redelivered += 1
        oldest_ns = now_ns - self._start_ns if self._plan.producers else OLDEST_NS
        at = int(message.header_bytes) + _BODY_AT
        latency = read_stamp(message.raw, at, now_ns, oldest_ns)
        if latency is None:
            tally.foreign += 1
        else:
            tally.intended_latency.record(latency[0])
            tally.sent_latency.record(latency[1])
            if not redelivered:
                self.unique += 1
        if not self._plan.auto_ack:
            self._last_tag = delivery.delivery_tag
            self._unacked += 1
            if self._unacked >= self._plan.ack_every:
                self.link.session.ack(self._channel, self._last_tag, self._plan.ack_every > 1)
                self._unacked = 0
