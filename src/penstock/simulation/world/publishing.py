"""A client that publishes: some messages to some addresses, with or without confirms.

Each body begins with the publishing channel's key and the publish's number, by which the twin in
books knows it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.client.events import ChannelClosed, ClientEvent, Confirmed, ReturnedPublish
from penstock.protocol import methods as m
from penstock.protocol.properties import Properties
from penstock.simulation.laws.oracle import Identity, Publishes
from penstock.simulation.machine.faults import LawBroken
from penstock.simulation.world.clients import Role

BODY_HEAD_BYTES = 8
NO_PROPERTIES = Properties()
PERSISTENT = Properties(delivery_mode=2)


def identity_of(body: bytes) -> Identity:
    """Who published it. Raises: LawBroken when the body is not one of ours."""
    if len(body) < BODY_HEAD_BYTES:
        raise LawBroken(f"a body of {len(body)} bytes, which nobody published")
    return int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big")


@dataclass(frozen=True, slots=True)
class PublishTarget:
    """Where a publish goes, and the queues it must reach."""

    exchange: str
    routing_key: str
    queues: tuple[str, ...]


def to_queue(name: str) -> PublishTarget:
    """Through the default exchange."""
    return PublishTarget("", name, (name,))


@dataclass(frozen=True, slots=True)
class Load:
    """What one publisher does. count: messages; body_bytes_max: 8..; is_confirming; window: most
    unconfirmed at a time; burst: most in one act; pause_percent: how often it rests after an act,
    for up to pause_ns; is_alternating: addresses in turn, otherwise drawn; mandatory_percent:
    publishes that want to come back when they reach no queue."""

    addresses: Sequence[PublishTarget]
    count: int
    body_bytes_max: int = 200
    is_confirming: bool = True
    window: int = 1_000_000
    burst: int = 20
    pause_percent: int = 5
    pause_ns: int = 50_000_000
    is_alternating: bool = False
    mandatory_percent: int = 0


class PublishingRole(Role):
    """One publishing channel. It is done when all is said, and answered if it confirms."""

    def __init__(self, load: Load) -> None:
        super().__init__()
        self.load = load
        self.said = 0
        self.unanswered = 0
        self.is_resting = False
        self.publishes: Publishes | None = None
        self.mandatory: set[int] = set()
        self.returned: set[int] = set()

    def opened(self) -> None:
        super().opened()
        if self.load.is_confirming:
            self.client.session.request(self.channel, m.ConfirmSelect())
        self.publishes = self.client.books.begin_channel()

    def can_act(self) -> bool:
        return (
            self.channel > 0
            and not self.is_done
            and not self.is_resting
            and self.said < self.load.count
            and self.unanswered < self.load.window
        )

    def act(self) -> None:
        load = self.load
        dice = self.client.dice
        for _ in range(dice.skewed(load.burst)):
            if not self.can_act():
                break
            self._publish()
        if dice.happens(load.pause_percent):
            self.is_resting = True
            self.client.timers.after(dice.between(1, load.pause_ns), self._wake)
        self._see_to_end()

    def _publish(self) -> None:
        load = self.load
        dice = self.client.dice
        publishes = self.publishes
        assert publishes is not None, "a role that acts is open"
        address = load.addresses[self.said % len(load.addresses)]
        if not load.is_alternating:
            address = dice.one_of(load.addresses)
        key, number = self.client.books.published(publishes, address.queues)
        body = key.to_bytes(4, "big") + number.to_bytes(4, "big")
        body += b"." * (dice.skewed(load.body_bytes_max - BODY_HEAD_BYTES + 1) - 1)
        is_mandatory = load.mandatory_percent > 0 and dice.happens(load.mandatory_percent)
        if is_mandatory and not address.queues:
            self.mandatory.add(number)
        self.client.session.publish(
            self.channel,
            address.exchange,
            address.routing_key,
            body,
            self.properties(),
            mandatory=is_mandatory,
        )
        self.said += 1
        if load.is_confirming:
            self.unanswered += 1

    def properties(self) -> Properties:
        """Of the next message; none by default, persistent where something is kept."""
        return PERSISTENT if self.client.broker.stores.stores else NO_PROPERTIES

    def _wake(self) -> None:
        self.is_resting = False

    def happened(self, event: ClientEvent) -> None:
        publishes = self.publishes
        if isinstance(event, Confirmed) and publishes is not None:
            for sequence in event.sequences:
                if event.is_accepted:
                    self.client.books.confirmed(publishes, sequence - 1)
                else:
                    self.client.books.refused(publishes, sequence - 1)
                if sequence - 1 in self.mandatory and sequence - 1 not in self.returned:
                    raise LawBroken(f"publish {sequence} is confirmed before it comes back")
            self.unanswered -= len(event.sequences)
            self._see_to_end()
        elif isinstance(event, ReturnedPublish):
            self._returned(identity_of(event.message.body()))
        elif isinstance(event, ChannelClosed) and event.code != 404 and not self.is_killed:
            raise LawBroken(f"{self.client.link.name}: {event.code} {event.text}")

    def _returned(self, identity: Identity) -> None:
        publishes = self.publishes
        assert publishes is not None, "a role that is told of something is open"
        key, number = identity
        if key != publishes.key or number in self.returned:
            raise LawBroken(f"{identity} came back, and not for the first time or to its publisher")
        self.returned.add(number)
        if self.client.books.is_lasting(publishes.queues[number]):
            raise LawBroken(f"publish {number + 1} came back although its queues are there")

    def _see_to_end(self) -> None:
        if self.said >= self.load.count and self.unanswered == 0:
            self.is_done = True

    def end(self) -> None:
        is_open = self.channel > 0 and not self.client.is_over()
        super().end()
        if is_open and self.publishes is not None:
            self.publishes.is_certain = True

    def fault(self) -> None:
        """Publish to an exchange that does not exist: the broker closes the channel, but what was
        said before that counts."""
        if self.channel > 0 and self.publishes is not None and not self.client.is_over():
            self.is_done = True
            self.publishes.is_certain = True
            self.client.session.publish(self.channel, "no such exchange", "", b"12345678")

    def lost(self) -> None:
        super().lost()
        if self.client.is_vanished and self.publishes is not None:
            self.publishes.is_certain = False
