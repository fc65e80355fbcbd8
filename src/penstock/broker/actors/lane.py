"""A hop with its mailbox: what one sender handed to one receiver and the receiver has not taken.

Each sender has a mailbox of its own at a receiver, so a receiver can be fair between senders and
one account pays for everything in it.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.broker.actors.actor import Actor, Line
from penstock.broker.actors.whole_publishes import WholePublishes
from penstock.flow.account import Account
from penstock.flow.gate import Gate
from penstock.flow.hop import HELD_RATE, Hop
from penstock.flow.pending import Commands
from penstock.flow.rate import QUANTUM_NS, Meter, RateWaiter
from penstock.flow.room import Room
from penstock.protocol.content import Message

LANE_NS: Final = 50_000
"""Opening and closing one lane may cost this share of the time between two openings."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Answerable:
    """Who is told that a queue has taken responsibility for a publish. Nominal base of channels."""

    __slots__ = ()

    def accepted(self, messages: list[Message], count: i64) -> None:
        """The first `count` of `messages` are in the queue."""

    def next_bytes(self, lane: "Lane") -> i64:
        """Of the first publish that is kept until `lane` opens, 0 if none is."""
        return 0

    def refused(self, messages: list[Message]) -> None:
        """`messages` will never be in the queue: it is gone or it crashed."""

    def receiver_gone(self, lane: "Lane") -> None:
        """The queue that `lane` leads to was deleted, or has failed."""

    def lost(self, sequences: list[int]) -> None:
        """The publishes with these numbers will never be in the queue: they cannot be read."""

    def written(self, messages: list[Message], publishes: WholePublishes) -> None:
        """`messages` are about to be written for one queue; whoever has a reference adds them."""

    def timed(self, queued_ns: i64, joined_ns: i64, sent_ns: i64, done_ns: i64) -> None:
        """How long what is accepted next took on its way to the disk, see AnswerTimes.synced."""


NOBODY_ASKS: Final = Answerable()
"""Of lanes between a connection and its channels."""


class Lane(Hop):
    """items: the mailbox, oldest first, from `head`; receiving: whose it is; queue_rate: the rate
    limit of the queue it leads to; commands: what a replicated queue has not applied yet, None for
    other queues; origin: who pays for what is in it; wants_answers: the sender
    confirms; taken, taken_bytes: what the receiver has taken and not repaid yet, within a turn
    only; listed_ns: since when there has been something in it; saved_bytes: see fair_take;
    has_shared: there may be messages among the items that other queues get as well; has_foreign:
    some whose origin is another one; shares_room: it is shut while a depth mark is reached."""

    __slots__ = (
        "answerable",
        "commands",
        "has_foreign",
        "has_shared",
        "head",
        "is_listed",
        "items",
        "listed_ns",
        "origin",
        "queue_rate",
        "receiving",
        "saved_bytes",
        "shares_room",
        "taken",
        "taken_bytes",
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
        self.is_listed = False
        self.wants_answers = False
        self.has_shared = False
        self.has_foreign = False
        self.shares_room = True
        self.receiving = receiving
        self.items: list[Message] = []
        self.head: i64 = 0
        self.taken: i64 = 0
        self.taken_bytes: i64 = 0
        self.listed_ns: i64 = 0
        self.saved_bytes: i64 = 0
        self.origin = origin
        self.queue_rate: QueueRate | None = None
        self.commands: Commands | None = None
        self.answerable = answerable

    def next_bytes(self) -> i64:
        return self.answerable.next_bytes(self)

    def ask(self, bytes_: i64) -> None:
        """A publish of `bytes_` has found the lane closed, and will be kept for it: if it is for
        want of room, the receiver lends it some when its turn comes."""
        room = self.room
        if isinstance(room, Room) and room.ask(self, bytes_):
            self.receiving.wake()

    def take_rest(self) -> list[Message]:
        """Take everything that is left."""
        rest = self.items[self.head :]
        self.items = []
        self.head = 0
        self.is_listed = False
        return rest


class LaneReceiver(Actor):
    """An actor with lanes: channels and queues. queue_rate: its limit, None for most; delays: what
    it takes is published again when its time has come. Nominal base."""

    __slots__ = ("delays", "queue_rate")

    def __init__(self, identity: str, line: Line) -> None:
        super().__init__(identity, line)
        self.queue_rate: QueueRate | None = None
        self.delays = False

    def offered(self, lane: Lane) -> None:
        """`lane` got its first message: see to it."""
        raise NotImplementedError

    def expects_lifetimes(self) -> None:
        """A message with a lifetime of its own is about to be handed over."""

    def stop_reason(self) -> str:
        """Why it takes nothing from its senders, "" while it does."""
        return ""

    def has_idle_consumer(self) -> bool:
        """Whether its consumers have room for more than what waits for them already."""
        return False


class MeterWaiter(RateWaiter):
    """The queue's lanes, as their meter sees them."""

    __slots__ = ("rate",)

    def __init__(self, rate: "QueueRate") -> None:
        self.rate = rate

    def rate_due(self, now_ns: int) -> None:
        self.rate.let_on()


class QueueRate:
    """The rate limit of one queue: its lanes are closed for "rate" while it is used up.

    To publishers it is a closed hop like any other, so in a parking profile publishes for other
    queues go on past the one that waits; in the others the channel keeps its grants back.

    meter: the limit; lanes: the queue's own list; is_shut: whether they are all held."""

    __slots__ = ("_first", "_waiter", "is_shut", "lanes", "meter")

    def __init__(self, meter: Meter, lanes: list[Lane]) -> None:
        self.meter = meter
        self.lanes = lanes
        self.is_shut = False
        self._first = 0
        self._waiter = MeterWaiter(self)
        for lane in lanes:
            lane.queue_rate = self

    def joined(self, lane: Lane) -> None:
        lane.queue_rate = self
        if self.is_shut:
            lane.hold(HELD_RATE, self.meter.name)

    def spend(self, size: int) -> None:
        meter = self.meter
        now_ns = meter.clock.monotonic_ns()
        meter.spend(size, now_ns)
        if self.is_shut or meter.has_room(now_ns):
            return
        self.is_shut = True
        meter.quantum_ns = max(QUANTUM_NS, LANE_NS * len(self.lanes))
        for lane in self.lanes:
            lane.hold(HELD_RATE, meter.name)
        meter.wait(self._waiter, now_ns)

    def let_on(self) -> None:
        """There are tokens: every lane opens, another one first each time, because the first to
        have its turn may use them all up."""
        self.is_shut = False
        count = len(self.lanes)
        if count == 0:
            return
        self._first = (self._first + 1) % count
        for index in range(count):
            self.lanes[(self._first + index) % count].let_on(HELD_RATE, self.meter.name)

    def end(self) -> None:
        """The limit or the queue is gone."""
        self.meter.leave(self._waiter)
        self.is_shut = False
        for lane in self.lanes:
            lane.queue_rate = None
            lane.let_on(HELD_RATE, self.meter.name)
