"""The end of a connection in batches: its consumers, its deliveries, its channels, its queues.

What the client had sent before its connection.close is done first, in its order and past closed
hops; otherwise what is left of a commit that has begun. Then consumers go, so that nothing is
delivered to a channel that ends; unanswered deliveries go back to their places oldest first, as
they would in one piece; exclusive queues go last.
"""

from collections.abc import Callable
from typing import Final

from penstock.base.limits import TURN_MESSAGES
from penstock.broker.actors.actor import Errand
from penstock.broker.actors.cleanup import BATCH, QUEUE_UNITS
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.session.piecewise import end_commit
from penstock.broker.session.verbs import ChannelVerbs
from penstock.broker.vhost.vhost import VirtualHost

TURN: Final = TURN_MESSAGES.default


class Teardown(Errand):
    """verbs: of the connection, None when it never opened; vhost: where its exclusive queues are
    removed from, None when they stay until the socket is gone; done: what comes last; finishing:
    channels whose inbox is still to be done, the next one last; is_forced: what waits in front of
    that one has been handed over."""

    __slots__ = ("connection", "done", "finishing", "is_forced", "verbs", "vhost")

    def __init__(
        self,
        connection: Connection,
        verbs: ChannelVerbs | None,
        vhost: VirtualHost | None,
        done: Callable[[], None],
    ) -> None:
        self.connection = connection
        self.verbs = verbs
        self.vhost = vhost
        self.done = done
        self.finishing: list[Channel] = []
        self.is_forced = False
        for channel in connection.channels.values():
            channel.sink.is_flow_active = False

    def finish_first(self, channels: list[Channel]) -> None:
        """Do what has arrived on `channels` before they end."""
        self.finishing = channels[::-1]

    def step(self) -> bool:
        left = BATCH
        while self.finishing:
            if left <= 0 or self._finish(self.finishing[-1]):
                return True
            self.finishing.pop()
            left -= QUEUE_UNITS
        channels = self.connection.channels
        while channels:
            if left <= 0:
                return True
            left = self._end_channel(next(iter(channels.values())), left)
        if self.vhost is not None:
            owned = self.vhost.owned.get(self.connection.identity, {})
            while owned:
                if left <= 0:
                    return True
                self.vhost.remove_queue(next(iter(owned.values())))
                left -= QUEUE_UNITS
        self.done()
        return False

    def _finish(self, channel: Channel) -> bool:
        """A turn of `channel`, which is about to end; True if there is more for it."""
        channel.inbox.end()
        if not channel.is_closed and channel.turn(TURN):
            return True
        if not channel.is_closed and not self.is_forced:
            self.is_forced = True
            channel.force_now()
            return self._finish(channel)
        self.is_forced = False
        return False

    def _end_channel(self, channel: Channel, left: int) -> int:
        """End `channel` as far as `left` units go; the units that are left."""
        verbs = self.verbs
        if verbs is not None:
            left = end_commit(channel, left)
            left = verbs.consuming.remove_some(channel, left)
            if left <= 0:
                return left
        while channel.table.count > BATCH:
            if left <= 0:
                return left
            oldest = channel.table.oldest()
            assert oldest is not None, "the table counts some"
            taken = channel.table.take_up_to(oldest.tag + BATCH)
            channel.requeue_many(taken)
            left -= len(taken)
        if verbs is not None:
            verbs.release(channel)
        self.connection.remove_channel(channel)
        return left - QUEUE_UNITS
