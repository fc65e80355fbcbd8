"""Sends channel.flow to every channel of one client, as RabbitMQ 1.5 to 1.7 did (seed S2).

    an alarm begins    channel.flow active=false on every open channel, whoever the client is
    a channel opens    the same, behind its open-ok
    the last is over   channel.flow active=true on every open channel

Telling is all there is: flow-ok is not looked at, and what is published all the same is taken.
connection.blocked came later. Source: flow-semantics 11.2; RabbitMQ 1.5's rabbit_channel
(conserve_memory).
"""

from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.broker.connection.notifier import Notifier
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame


class BroadcastNotifier(Notifier):
    """One open connection's. is_paused: its client was asked to pause."""

    __slots__ = ("connection", "is_paused")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.is_paused = False

    def ask_to_pause(self, is_paused: bool) -> None:
        if is_paused == self.is_paused:
            return
        self.is_paused = is_paused
        for number in list(self.connection.channels):
            self._send(number)

    def channel_opened(self, channel: Channel) -> None:
        if self.is_paused:
            self._send(int(channel.number))

    def _send(self, number: int) -> None:
        output = self.connection.output
        output.writer.write(method_frame(number, m.ChannelFlow(not self.is_paused)))
        output.mark()
