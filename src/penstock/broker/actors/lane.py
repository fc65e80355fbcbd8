"""A hop with its mailbox: what one sender handed to one receiver and the receiver has not taken.

Each sender has a mailbox of its own at a receiver, so a receiver can be fair between senders and
one account pays for everything in it.
"""

from mypy_extensions import i64, mypyc_attr

from penstock.broker.actors.actor import Actor, Line
from penstock.flow.account import Account
from penstock.flow.gate import Gate
from penstock.flow.hop import Hop
from penstock.protocol.content import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Answerable:
    """Who is told that a queue has taken responsibility for a publish. Nominal base of channels."""

    __slots__ = ()

    def accepted(self, messages: list[Message], count: i64) -> None:
        """The first `count` of `messages` are in the queue."""

    def refused(self, messages: list[Message]) -> None:
        """`messages` will never be in the queue: it is gone or it crashed."""

    def timed(self, queued_ns: i64, joined_ns: i64, sent_ns: i64, done_ns: i64) -> None:
        """How long what is accepted next took on its way to the disk, see AnswerTimes.synced."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Toll:
    """What every message into a queue with a rate limit pays; see broker/queue/queue_rate. Nominal
    base."""

    __slots__ = ()

    def joined(self, lane: "Lane") -> None:
        """`lane` leads to the queue from now on."""
        raise NotImplementedError

    def spend(self, size: int) -> None:
        """A message of `size` bytes is handed over."""
        raise NotImplementedError

    def end(self) -> None:
        """The queue is gone."""
        raise NotImplementedError


class Lane(Hop):
    """items: the mailbox, oldest first, from `head`; receiving: whose it is; toll: its rate limit;
    origin: who pays for what is in it; wants_answers: the sender confirms; taken, taken_bytes: what
    the receiver has taken and not repaid yet, within a turn only; saved_bytes: see fair_take."""

    __slots__ = (
        "answerable",
        "head",
        "is_listed",
        "items",
        "origin",
        "receiving",
        "saved_bytes",
        "taken",
        "taken_bytes",
        "toll",
        "wants_answers",
    )

    def __init__(
        self,
        sender: str,
        sender_layer: int,
        sender_gate: Gate,
        receiving: "LaneReceiver",
        receiver_layer: int,
        origin: Account,
        answerable: Answerable,
    ) -> None:
        super().__init__(
            sender,
            sender_layer,
            sender_gate,
            receiving.identity,
            receiver_layer,
            receiving.gate,
        )
        self.receiving = receiving
        self.items: list[Message] = []
        self.head: i64 = 0
        self.taken: i64 = 0
        self.taken_bytes: i64 = 0
        self.is_listed = False
        self.wants_answers = False
        self.saved_bytes: i64 = 0
        self.origin = origin
        self.toll: Toll | None = None
        self.answerable = answerable

    def trim(self) -> None:
        """Drop the places of messages that were taken from the head."""
        head: i64 = self.head
        if head >= len(self.items):
            # Here too, because a budget that ends with the last message leaves the loop early.
            self.is_listed = False
            self.items = []
            self.head = 0
        elif head >= 256:
            del self.items[:head]
            self.head = 0

    def take_rest(self) -> list[Message]:
        """Take everything that is left."""
        rest = self.items[self.head :]
        self.items = []
        self.head = 0
        self.is_listed = False
        return rest


class LaneReceiver(Actor):
    """An actor with lanes: channels and queues. toll: its rate limit, None for most. Nominal
    base."""

    __slots__ = ("toll",)

    def __init__(self, identity: str, line: Line) -> None:
        super().__init__(identity, line)
        self.toll: Toll | None = None

    def offered(self, lane: Lane) -> None:
        """`lane` got its first message: see to it."""
        raise NotImplementedError

    def expects_lifetimes(self) -> None:
        """A message with a lifetime of its own is about to be handed over."""
