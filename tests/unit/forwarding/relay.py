"""A client behind a node that does not lead, and the real brokers in memory that die under it."""

import random
from collections.abc import Callable

from penstock.forwarding.asked import Budget, Share
from penstock.forwarding.kept_connection import TOKEN_BYTES, KeptConnection
from penstock.protocol import methods as m
from penstock.replication.seen import NOTHING, Answer
from tests.unit.broker.peer import Bed, Heard, Peer

QUEUE = "q"
"""Durable: what one broker had in it the next one has."""


class Relay(Peer):
    """A peer of a broker that a node stands before. It hears and says what a client does.

    pace: how much of what is said arrives at once, of 1. The rest is on its way until something is
    heard, or the broker dies."""

    def __init__(
        self,
        chance: random.Random,
        own_bytes: int = 1 << 24,
        pace: float = 1.0,
        *,
        is_open: bool = True,
    ) -> None:
        self.chance = chance
        self.pace = 1.0
        self.budget = Budget(1 << 26)
        self.share = Share(self.budget, own_bytes)
        self.kept = KeptConnection(self.share, 1 << 20, chance.randbytes(TOKEN_BYTES))
        self.deaths = 0
        super().__init__(self.new_bed(), "first")
        self.behind = Peer(self.bed, "behind")
        if is_open:
            self.open()
        self.pace = pace

    def send(self, *pieces: bytes) -> None:
        data = b"".join(pieces)
        while data:
            size = self.chance.choice((1, 7, 30, 400, len(data)))
            self.kept.from_client(data[:size])
            data = data[size:]
            if self.chance.random() < self.pace:
                self.move()

    def heard(self) -> list[Heard]:
        self.move()
        return super().heard()

    def move(self) -> None:
        """Until nobody says any more. Everything the client is told is in `output.sent`."""
        while True:
            said, self.kept.to_broker = b"".join(self.kept.to_broker), []
            self.behind.send(said)
            heard = bytes(self.behind.output.sent)
            self.behind.output.sent.clear()
            while heard:
                size = self.chance.choice((1, 7, 30, 400, len(heard)))
                self.kept.from_broker(heard[:size])
                heard = heard[size:]
            self.output.sent += b"".join(self.kept.to_client)
            self.kept.to_client.clear()
            if not self.kept.to_broker:
                return

    def die(self, meanwhile: Callable[[], None] | None = None, *, is_taken: bool = True) -> None:
        """The broker is gone, some of what it and the client said last with it. meanwhile: what
        happens at the next one before it is asked; is_taken: it takes the client."""
        self.cut()
        self.behind.hang_up()
        self.bed.settle()
        left = self.bed.connect("reader")
        left.call(1, m.QueueDeclare(QUEUE, durable=True), m.QueueDeclareOk)
        left.say(1, m.BasicConsume(QUEUE, "all", no_ack=True))
        messages = [one.body for one in left.heard() if one.header]
        self.bed = self.new_bed()
        writer = self.bed.connect("writer")
        writer.call(1, m.QueueDeclare(QUEUE, durable=True), m.QueueDeclareOk)
        writer.publish(QUEUE, *messages)
        writer.hang_up()
        if meanwhile is not None:
            meanwhile()
        self.kept.lost()
        self.go_on(NOTHING)
        assert self.kept.is_attached == is_taken

    def new_bed(self) -> Bed:
        """The broker of the next leader."""
        return Bed()

    def cut(self) -> None:
        """Some of what both have said last never arrives."""
        said = b"".join(self.kept.to_broker)
        self.behind.send(said[: self.chance.randrange(len(said) + 1)])
        heard = bytes(self.behind.output.sent)
        self.kept.from_broker(heard[: self.chance.randrange(len(heard) + 1)])

    def go_on(self, seen: Answer) -> None:
        """The next broker is asked for everything. seen: what its log holds of the unconfirmed."""
        self.ask(seen)
        while self.kept.say_some(self.chance.choice((1, 3, 256))):
            if self.chance.random() < 0.5:
                self.move()
        self.move()

    def ask(self, seen: Answer) -> None:
        """Begin with the next broker: it has not been told of publishes yet."""
        self.deaths += 1
        self.behind = Peer(self.bed, f"behind{self.deaths}")
        self.kept.attach(seen)
        self.move()
