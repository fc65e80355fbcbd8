"""Closes channels whose oldest unacknowledged delivery exceeds the consumer timeout.

It looks at the oldest unanswered delivery of each channel, at each channel once
a minute, a sixtieth of the connections a second: one of `timeout` is found between `timeout` and
`timeout` + 61 s after it was given. Where queues with different timeouts share a channel the
oldest delivery stands before the others, as in RabbitMQ.
Source: flow-semantics 4.4; scenario 90; RabbitMQ's rabbit_channel (evaluate_consumer_timeout).
"""

from collections.abc import Callable, Mapping

from penstock.base.errors import ChannelFault
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.connection.phases import PHASE_OPEN
from penstock.broker.queue.queue_actor import QueueActor, QueueClient
from penstock.queues.applied import merge_arguments
from penstock.queues.policy_keys import CONSUMER_TIMEOUT
from penstock.queues.unacked import STAMP_NS, Stamp

ROUND_TICKS = 60
NS_PER_MS = 1_000_000
TIMEOUT_ARGUMENT = "x-consumer-timeout"


class ConsumerTimeout:
    """connections: of the broker, live; timeout_ms: of consumers, 0 for none; note: one line for
    the log. Owner: the broker."""

    def __init__(
        self,
        connections: Mapping[str, Connection],
        stamp: Stamp,
        timeout_ms: int,
        note: Callable[[str], None],
    ) -> None:
        self.connections = connections
        self.stamp = stamp
        self.timeout_ms = timeout_ms
        self.note = note
        self.round: list[Connection] = []
        self.step = 1

    def tick(self, now_ns: int) -> None:
        """Once a second: date deliveries, and look for those that wait too long."""
        self.stamp.now_ns = now_ns
        if not self.round:
            self.round = list(self.connections.values())
            self.step = -(-len(self.round) // ROUND_TICKS)
        some = self.round[-self.step :]
        del self.round[-self.step :]
        for connection in some:
            if connection.phase == PHASE_OPEN:
                self._look_at_deliveries(connection, now_ns)

    def _look_at_deliveries(self, connection: Connection, now_ns: int) -> None:
        for channel in list(connection.channels.values()):
            if channel.table.count > 0:
                timeout_ms = self._overdue_ms(channel, now_ns)
                if timeout_ms > 0:
                    self._close(connection, channel, timeout_ms)

    def _overdue_ms(self, channel: Channel, now_ns: int) -> int:
        """The timeout that the oldest delivery has passed, 0 if it has not."""
        oldest = channel.table.oldest()
        if oldest is None:
            return 0
        queue = oldest.queue
        timeout_ms = self.timeout_ms
        if isinstance(queue, QueueClient):
            timeout_ms = timeout_of(queue.actor, timeout_ms)
        # Never early: the delivery may have been given up to a second after its date.
        is_late = now_ns - int(oldest.given_ns) >= timeout_ms * NS_PER_MS + STAMP_NS
        return timeout_ms if timeout_ms > 0 and is_late else 0

    def _close(self, connection: Connection, channel: Channel, timeout_ms: int) -> None:
        self.note(
            f"{channel.identity}: a delivery has not been acknowledged for {timeout_ms} ms; the "
            "channel is closed and its deliveries go back to their queues"
        )
        text = (
            f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: "
            f"{timeout_ms} ms. This timeout value can be configured, see consumers doc guide to "
            "learn more"
        )
        connection.verbs.close_channel(connection, channel, ChannelFault(406, text))


def timeout_of(queue: QueueActor, default_ms: int) -> int:
    """Milliseconds, 0 for none: the queue's own x-consumer-timeout or its policy's, or the
    broker's."""
    own = queue.arguments.get(TIMEOUT_ARGUMENT)
    if queue.applied is not None:
        own = merge_arguments(queue.arguments, queue.applied.definition).get(CONSUMER_TIMEOUT)
    if isinstance(own, int) and not isinstance(own, bool):
        return own
    return default_ms
