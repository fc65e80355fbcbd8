"""Tells a connection that the hop to one of its channels is open again. COMPILED."""

from penstock.broker.channel.channel import Channel
from penstock.broker.connection.connection import Connection
from penstock.flow.gate import Gate, GateObserver


class HopOpened(GateObserver):
    """Observes the gate in front of one channel, where publishes are parked."""

    __slots__ = ("channel", "connection")

    def __init__(self, connection: Connection, channel: Channel) -> None:
        self.connection = connection
        self.channel = channel

    def gate_opened(self, gate: Gate, peer: str, reason: str, now_ns: int) -> None:
        self.connection.hop_opened(self.channel, gate)
