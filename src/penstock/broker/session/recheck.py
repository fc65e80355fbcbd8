"""Consumers of queues that their user may not read any more are cancelled, in batches.

Source: RabbitMQ's rabbit_channel (recheck_consumers), which does so for tokens alone.
"""

from collections.abc import Callable
from typing import Final

from penstock.broker.actors.actor import Errand
from penstock.broker.actors.cleanup import BATCH
from penstock.broker.actors.deliver import write_cancel
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.verbs import ChannelVerbs
from penstock.broker.vhost.rights import READ, Rights
from penstock.broker.vhost.vhost import REPLY_PREFIX

CONNECTIONS_AT_ONCE: Final = 16


class Recheck(Errand):
    """Cancels the consumers whose queues may not be read any more, in batches."""

    __slots__ = ("_channel", "_channels", "_left", "_rights", "_verbs")

    def __init__(self, connection: Connection, verbs: ChannelVerbs, rights: Rights) -> None:
        self._verbs = verbs
        self._rights = rights
        self._channels = list(connection.channels.values())
        self._channel: Channel | None = None
        self._left: list[tuple[str, QueueActor]] = []

    def step(self) -> bool:
        for _ in range(BATCH):
            if not self._left:
                if not self._channels:
                    return False
                self._channel = self._channels.pop()
                self._left = list(self._channel.queues_of.items())
                continue
            channel = self._channel
            assert channel is not None, "what is left is of one"
            tag, actor = self._left.pop()
            queue = actor.name
            if tag not in channel.consumers or queue.startswith(REPLY_PREFIX):
                continue
            if self._rights.may(READ, queue):
                continue
            self._verbs.consuming.remove(channel, tag)
            if channel.cancel_notify and not channel.is_closed:
                write_cancel(channel.output.writer, channel.number, tag)
                channel.output.mark()
        return True


class RecheckAll(Errand):
    """The same for all of a user's connections to a virtual host, CONNECTIONS_AT_ONCE a step.
    recheck: of one of them, None where nothing is to be done."""

    __slots__ = ("_left", "_now", "_recheck")

    def __init__(
        self, connections: list[Connection], recheck: Callable[[Connection], Recheck | None]
    ) -> None:
        self._left = connections
        self._recheck = recheck
        self._now: Recheck | None = None

    def step(self) -> bool:
        for _ in range(CONNECTIONS_AT_ONCE):
            if self._now is not None and self._now.step():
                return True
            if not self._left:
                self._now = None
                return False
            self._now = self._recheck(self._left.pop())
        return True
