"""Consumers of queues that their user may not read any more are cancelled, in batches.

Source: RabbitMQ's rabbit_channel (recheck_consumers), which does so for tokens alone.
"""

from penstock.broker.actors.cleanup import BATCH, Errand
from penstock.broker.actors.deliver import write_cancel
from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.session.verbs import ChannelVerbs
from penstock.broker.vhost.rights import READ, Rights
from penstock.broker.vhost.vhost import REPLY_PREFIX


class Recheck(Errand):
    """Cancels the consumers whose queues may not be read any more, in batches."""

    __slots__ = ("_left", "_rights", "_verbs")

    def __init__(self, connection: Connection, verbs: ChannelVerbs, rights: Rights) -> None:
        self._verbs = verbs
        self._rights = rights
        self._left: list[tuple[Channel, str, str]] = [
            (channel, tag, actor.name)
            for channel in connection.channels.values()
            for tag, actor in channel.queues_of.items()
            if not actor.name.startswith(REPLY_PREFIX)
        ]

    def step(self) -> bool:
        for _ in range(min(BATCH, len(self._left))):
            channel, tag, queue = self._left.pop()
            if tag not in channel.consumers or self._rights.may(READ, queue):
                continue
            self._verbs.consuming.remove(channel, tag)
            if channel.cancel_notify and not channel.is_closed:
                write_cancel(channel.output.writer, channel.number, tag)
                channel.output.mark()
        return len(self._left) > 0
