"""A queue with rules and its naive twin, step by step: what both do must be the same.

The twin keeps plain lists, sorts them whenever it looks, and knows nothing of records, levels,
heaps, timers or lanes. One step of either is one turn at one instant, as
broker/queue/expiry_and_limits draws it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.base.clock import ManualClock
from penstock.broker.actors.actor import Actor, Picker, Scheduler
from penstock.broker.actors.lane import Answerable, Lane
from penstock.broker.queue.classic_actor import ClassicActor
from penstock.broker.queue.expiry_and_limits import ExpiryAndLimits
from penstock.broker.queue.queue_actor import DeadLetterSink
from penstock.flow.account import Account
from penstock.flow.due import DueLine
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import LAYER_CHANNEL, LAYER_QUEUE
from penstock.flow.profile import profile_named
from penstock.protocol.content import Address, Message, make_content
from penstock.protocol.properties import Properties, encode_header_payload
from penstock.protocol.values import Value
from penstock.queues.consumers import Consumer, Delivery, DeliverySink, Unsent
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.rules import (
    BACKPRESSURE,
    DROP_HEAD,
    DROP_NAMES,
    NEVER,
    REASON_DELIVERY_LIMIT,
    REASON_DUPLICATE,
    REASON_EXPIRED,
    REASON_MAXLEN,
    REASON_SUPERSEDED,
    QueueRules,
)
from penstock.telemetry.recorder import Recorder

MS = 1_000_000
TURN = 1024
REST_TURNS = 1000
"""Far more than the few messages of a run can need."""
MESSAGE = tuple[int, int | None, str, int]
"""(priority, lifetime in ms or None, routing key, bytes of the body)."""


Rules = dict[str, Any]
"""ttl, length, size, overflow, priorities, limit, last_value: see QueueRules; None for none."""


def number_of(message: Message) -> int:
    return int(message.body()[:6])


def number_or_never(number: int | None) -> int:
    return NEVER if number is None else number


@dataclass(order=True)
class Entry:
    """What the twin knows of a message."""

    position: int
    number: int = field(compare=False)
    level: int = field(compare=False, default=0)
    expires: int | None = field(compare=False, default=None)
    fleeting: bool = field(compare=False, default=False)
    returns: int = field(compare=False, default=0)
    key: str = field(compare=False, default="")
    once: str = field(compare=False, default="")
    size: int = field(compare=False, default=0)
    era: int = field(compare=False, default=0)


class Log(DeadLetterSink):
    """What went to the dead letters, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.dead: list[tuple[int, str]] = []

    def dropped(self, message: Message, reason: int) -> None:
        self.dead.append((number_of(message), DROP_NAMES[reason]))


class Sender(Answerable):
    """Confirms, in order."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bool]] = []

    def accepted(self, messages: list[Message], count: int) -> None:
        self.answers += [(number_of(one), True) for one in messages[: int(count)]]

    def refused(self, messages: list[Message]) -> None:
        self.answers += [(number_of(one), False) for one in messages]


class Sink(DeliverySink):
    """Deliveries, in order, to whichever consumer."""

    def __init__(self) -> None:
        super().__init__()
        self.given: list[tuple[int, bool]] = []
        self.takers: list[Consumer] = []
        self.open: list[Delivery] = []

    def deliver(
        self, consumer: Consumer, message: Message, position: int, redelivered: bool
    ) -> None:
        self.given.append((number_of(message), redelivered))
        self.takers.append(consumer)
        if not consumer.is_no_ack:
            self.open.append(Delivery(0, message, consumer.queue, consumer, position, 0))

    def cancelled_by_broker(self, consumer: Consumer) -> None:
        raise AssertionError("nobody deletes the queue")


class Patience(Picker):
    """In turn, but no more than REST_TURNS: a queue that wakes itself for ever would never end."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0

    def pick(self, ready: list[Actor]) -> int:
        self.turns += 1
        return 0 if self.turns <= REST_TURNS else -1


class QueueMachine(RuleBasedStateMachine):
    """The machine, with parameters for the kinds of queues that are tried.

    kind: of ExpiryAndLimits, planted bugs bring their own; fixed: rules that are not drawn;
    prefetch: of a consumer that is there from the beginning, 0 for none; is_deduplicated: of
    messages with the same key and size only one is taken; has_limits, has_lifetimes: whether such
    rules are drawn; shortest_ms: lifetimes are no shorter; overflows: what a limit may do;
    is_padded: messages have hundreds of bytes, some of them fewer."""

    kind: type[ExpiryAndLimits] = ExpiryAndLimits
    fixed: Mapping[str, object] = MappingProxyType({})
    prefetch = 0
    is_deduplicated = False
    has_limits = True
    has_lifetimes = True
    shortest_ms = 0
    overflows: tuple[int, ...] = (0, 1, 2, 3)
    is_padded = False

    @initialize(
        drawn=st.fixed_dictionaries(
            {
                "ttl": st.sampled_from((None, None, 0, 5, 20)),
                "length": st.sampled_from((None, None, 1, 2, 4)),
                "size": st.sampled_from((None, None, None, 12, 30)),
                "overflow": st.integers(0, 3),
                "priorities": st.sampled_from((0, 0, 2, 5)),
                "limit": st.sampled_from((None, None, 0, 1)),
                "last_value": st.sampled_from(("", "", "routing-key")),
            }
        )
    )
    def begin(self, drawn: Rules) -> None:
        self.clock = ManualClock()
        self.dues = DueLine()
        self.line = Scheduler(self.clock, Recorder(self.clock, 0), TURN)
        self.line.is_exploring = True
        strategy = profile_named("penstock").strategy()
        self.actor = ClassicActor("/", "q", False, False, "", {}, self.line, strategy, 0)
        self.account = Account("conn:a", None, None, 0)
        self.sender = Sender()
        gate = Gate("chan:a/1", self.clock, GateObserver())
        self.lane = Lane(
            "chan:a/1", LAYER_CHANNEL, gate, self.actor, LAYER_QUEUE, self.account, self.sender
        )
        self.lane.wants_answers = True
        self.strategy = strategy
        strategy.wire(self.lane)
        self.actor.attach(self.lane)
        self.sink = Sink()
        self.log = Log()
        self.queue_limits = self.kind(self.actor, self.dues, lambda actor: None)
        self.queue_limits.dead_letters = self.log
        self.actor.queue_limits = self.queue_limits
        self._keep()
        # The twin.
        self.ready: list[Entry] = []
        self.out: dict[int, Entry] = {}
        self.mailbox: list[tuple[int, MESSAGE]] = []
        self.given: list[tuple[int, bool]] = []
        self.dead: list[tuple[int, str]] = []
        self.answers: list[tuple[int, bool]] = []
        self.drops = [0] * len(DROP_NAMES)
        self.counts: dict[Consumer, int] = {}
        self.published = 0
        self.position = 0
        self.era = 0
        self.is_full = self.is_paused = False
        self.stopped: tuple[str, int] | None = None
        self._rules({**drawn, "ttl": self._lifetime(drawn["ttl"]), **self.fixed})
        if self.prefetch > 0:
            self._consume(self.prefetch, False)

    def _keep(self) -> None:
        """Where the queue has a disk it gets it here."""

    def _lifetime(self, ms: int | None) -> int | None:
        return max(ms, self.shortest_ms) if ms is not None and self.has_lifetimes else None

    def _properties(
        self, number: int, priority: int, lifetime: int | None, once: str
    ) -> Properties:
        headers: dict[str, Value] = {}
        if self.is_padded:
            headers["pad"] = "x" * (100 if number % 4 == 3 else 500)
        if self.is_deduplicated:
            headers["x-deduplication-header"] = once
        return Properties(
            delivery_mode=1 if number % 3 == 0 else 2,
            priority=priority or None,
            expiration=None if lifetime is None else str(lifetime),
            headers=headers or None,
        )

    def _rules(self, drawn: Rules) -> None:
        if not self.has_limits:
            drawn = {**drawn, "length": None, "size": None}
        self.drawn = drawn
        rules = QueueRules()
        rules.ttl_ms = number_or_never(drawn["ttl"])
        rules.max_length = number_or_never(drawn["length"])
        rules.max_bytes = number_or_never(drawn["size"])
        rules.overflow = drawn["overflow"] if drawn["overflow"] in self.overflows else DROP_HEAD
        rules.max_priority = drawn["priorities"]
        rules.delivery_limit = number_or_never(drawn["limit"])
        rules.last_value_key = drawn["last_value"]
        rules.is_deduplicated = self.is_deduplicated
        self.goal = rules
        had_entries = self.actor.messages.has_entries
        self.queue_limits.change(rules)
        self.era += self.actor.messages.has_entries and not had_entries
        self._turn()

    # -- what happens ----------------------------------------------------------------------------

    @rule(
        batch=st.lists(
            st.tuples(
                st.integers(0, 6),
                st.sampled_from((None, None, None, 0, 3, 10)),
                st.sampled_from(("a", "b", "c")),
                st.integers(6, 14),
            ),
            min_size=1,
            max_size=6,
        )
    )
    def publish(self, batch: list[MESSAGE]) -> None:
        for priority, drawn, key, size in batch:
            lifetime = self._lifetime(drawn)
            number = self.published
            self.published += 1
            properties = self._properties(number, priority, lifetime, f"{key}{size}")
            body = (b"%06d" % number).ljust(size, b".")
            header = encode_header_payload(len(body), properties)
            message = make_content(1, b"", header, body, 131_072)
            message.address = Address("", key)
            message.origin = self.account
            if lifetime is not None and not self.actor.messages.has_entries:
                self.queue_limits.keep_records()
                self.era += 1
            self.lane.items.append(message)
            self.strategy.charge(self.lane, self.account, 1, len(message.raw))
            if not self.lane.is_listed:
                self.actor.offered(self.lane)
            self.mailbox.append((number, (priority, lifetime, key, size)))
        self._turn()

    @precondition(lambda self: len(self.counts) < 2)
    @rule(prefetch=st.integers(1, 3), is_no_ack=st.booleans())
    def consume(self, prefetch: int, is_no_ack: bool) -> None:
        self._consume(prefetch, is_no_ack)

    def _consume(self, prefetch: int, is_no_ack: bool) -> None:
        unsent = Unsent(1 << 30)
        consumer = Consumer(
            f"t{self.published}", self.actor.client, self.sink, unsent, is_no_ack, False,
            prefetch, {},
        )  # fmt: skip
        self.counts[consumer] = 0
        self.actor.add_consumer(consumer)
        self._turn()

    @precondition(lambda self: self.counts)
    @rule()
    def cancel(self) -> None:
        consumer = next(iter(self.counts))
        del self.counts[consumer]
        self.actor.remove_consumer(consumer)
        self._turn()

    @precondition(lambda self: self.sink.open)
    @rule(which=st.integers(0, 5))
    def acknowledge(self, which: int) -> None:
        delivery = self._answered(which)
        self.out.pop(self._number(delivery))
        delivery.queue.settle(delivery)
        self._turn()

    @precondition(lambda self: self.sink.open)
    @rule(which=st.lists(st.integers(0, 5), min_size=1, max_size=3))
    def requeue(self, which: list[int]) -> None:
        back = [self._answered(at) for at in which if self.sink.open]
        for delivery in back:
            entry = self.out.pop(self._number(delivery))
            entry.returns += 1
            if self.actor.messages.has_entries and entry.era != self.era and self.goal.ttl_ms >= 0:
                entry.expires = self.clock.monotonic_ns() + int(self.goal.ttl_ms) * MS
                entry.fleeting = self.goal.ttl_ms == 0
            limit = int(self.goal.delivery_limit)
            if limit != NEVER and entry.returns > limit:
                self._drop(entry, REASON_DELIVERY_LIMIT)
            else:
                self._come_back(entry)
        self.actor.requeue(back)
        self._turn()

    def _come_back(self, entry: Entry) -> None:
        """The newest value of a key stays, in the place of the one that was ready."""
        known = next((one for one in self.ready if one.key == entry.key != ""), None)
        if known is None:
            self.ready.append(entry)
        elif known.number > entry.number:
            self._drop(entry, REASON_SUPERSEDED)
        else:
            entry.position, entry.level = known.position, known.level
            self.ready.remove(known)
            self._drop(known, REASON_SUPERSEDED)
            self.ready.append(entry)

    def _number(self, delivery: Delivery) -> int:
        return number_of(delivery.message)

    def _answered(self, which: int) -> Delivery:
        delivery = self.sink.open.pop(which % len(self.sink.open))
        consumer = delivery.consumer
        assert consumer is not None
        if consumer in self.counts:
            self.counts[consumer] -= 1
        return delivery

    @rule()
    def get(self) -> None:
        message = self._get()
        expected = None
        if not self.is_paused:
            self._expire()
            expected = self._live()
        assert (message is None) == (expected is None)
        if message is not None and expected is not None:
            self.ready.remove(expected)
            assert number_of(message) == expected.number
            assert self.actor.messages.redelivered == (expected.returns > 0)
            self.actor.get_done(message)
        self._turn()

    def _get(self) -> Message | None:
        return self.actor.get()

    @rule()
    def purge(self) -> None:
        assert self.actor.purge() == len(self.ready)
        self.ready.clear()
        self._turn()

    @rule(ms=st.sampled_from((1, 2, 3, 5, 20)))
    def wait(self, ms: int) -> None:
        """Timers alone wake the queue."""
        self.clock.advance(ms * MS)
        self.dues.fire(self.clock.monotonic_ns())
        self._turn()

    @rule()
    def pause_or_resume(self) -> None:
        self.is_paused = not self.is_paused
        self.actor.pause(self.is_paused)
        self._turn()

    @rule(
        ttl=st.sampled_from((None, 0, 4)),
        length=st.sampled_from((None, 1, 3)),
        overflow=st.integers(0, 3),
    )
    def change_rules(self, ttl: int | None, length: int | None, overflow: int) -> None:
        """As a policy would."""
        now = self.clock.monotonic_ns()
        ttl = self._lifetime(ttl)
        if ttl is not None:
            for entry in self.ready:
                if entry.expires is None:
                    entry.expires, entry.fleeting = now + ttl * MS, ttl == 0
        self._rules({**self.drawn, "ttl": ttl, "length": length, "overflow": overflow})

    # -- the twin's turn -------------------------------------------------------------------------

    def _turn(self) -> None:
        """Both do all there is to do now."""
        self._rest()
        before = None
        while before != (self.mailbox, self.is_full, len(self.ready)):
            before = (list(self.mailbox), self.is_full, len(self.ready))
            self._twin_turn()

    def _rest(self) -> None:
        patience = Patience()
        self.line.picker = patience
        # What the disk is given at the end of a run may wake the queue again.
        while self.line.run(0):
            assert patience.turns <= REST_TURNS, "the queue never comes to rest"

    def _twin_turn(self) -> None:
        self._expire()
        if self.is_full:
            self._note_full(False)
        if not self.is_full:
            self._take()
        else:
            self._give()
            self._expire()
            self._note_full(False)

    def _take(self) -> None:
        self.stopped = None
        is_stopped = False
        while self.mailbox:
            number, (priority, lifetime, key, size) = self.mailbox[0]
            if self._is_beyond(key, size):
                self._give(1)
            if self._is_beyond(key, size):
                if self.goal.overflow == BACKPRESSURE:
                    self.stopped, is_stopped = (key, size), True
                    break
                self.drops[DROP_NAMES.index("refused")] += 1
                if self.goal.overflow == 2:
                    self.dead.append((number, "maxlen"))
                self.answers.append((number, False))
            else:
                self._add(number, priority, lifetime, key, size)
                self.answers.append((number, True))
            self.mailbox.pop(0)
        self._give()
        if self.goal.overflow == DROP_HEAD:
            while self._is_over(0, 0):
                first = self._first()
                assert first is not None
                self.ready.remove(first)
                self._drop(first, REASON_MAXLEN)
        self._expire()
        self._note_full(is_stopped)

    def _add(self, number: int, priority: int, lifetime: int | None, key: str, size: int) -> None:
        now = self.clock.monotonic_ns()
        entry = Entry(self.position, number, size=size)
        if self.is_deduplicated:
            entry.once = f"{key}{size}"
            if any(one.once == entry.once for one in (*self.ready, *self.out.values())):
                self._drop(entry, REASON_DUPLICATE)
                return
        entry.level = min(priority, int(self.goal.max_priority))
        lives = [one for one in (int(self.goal.ttl_ms), lifetime) if one not in (None, NEVER)]
        if lives:
            shortest = min(one for one in lives if one is not None)
            entry.expires, entry.fleeting = now + shortest * MS, shortest == 0
        if self.goal.last_value_key != "":
            entry.key = key
            for old in self.ready:
                if old.key == key:
                    entry.position, entry.level = old.position, old.level
                    self.ready.remove(old)
                    self._drop(old, REASON_SUPERSEDED)
                    self.ready.append(entry)
                    return
        self.position += 1
        self.ready.append(entry)

    def _drop(self, entry: Entry, reason: int) -> None:
        self.drops[reason] += 1
        if reason <= REASON_DELIVERY_LIMIT:
            self.dead.append((entry.number, DROP_NAMES[reason]))

    def _first(self) -> Entry | None:
        return min(self.ready, key=lambda one: (-one.level, one.position), default=None)

    def _live(self) -> Entry | None:
        """The first that may be delivered; dead ones before it go."""
        now = self.clock.monotonic_ns()
        while (first := self._first()) is not None:
            is_dead = first.expires is not None and first.expires <= now
            if not is_dead or (first.fleeting and first.expires == now):
                return first
            self.ready.remove(first)
            self._drop(first, REASON_EXPIRED)
        return None

    def _room(self) -> int:
        return sum(
            1 << 20 if one.is_no_ack else int(one.prefetch) - out
            for one, out in self.counts.items()
        )

    def _give(self, most: int = 1 << 20) -> None:
        while most > 0 and not self.is_paused and self._room() > 0:
            first = self._live()
            if first is None:
                return
            most -= 1
            self.ready.remove(first)
            self.given.append((first.number, first.returns > 0))
            # Which consumer gets it is the affair of the rotation, so the queue is asked that.
            assert len(self.sink.takers) >= len(self.given), "the queue has given less"
            consumer = self.sink.takers[len(self.given) - 1]
            if not consumer.is_no_ack:
                self.counts[consumer] += 1
                first.era = self._era()
                self.out[first.number] = first

    def _era(self) -> int:
        """A queue that becomes plain forgets what is out."""
        return self.era if self.actor.messages.has_entries else -1

    def _expire(self) -> None:
        """The heads of each level."""
        now = self.clock.monotonic_ns()
        for level in range(int(self.goal.max_priority) + 1):
            while True:
                here = [one for one in self.ready if one.level == level]
                first = min(here, default=None)
                if first is None or first.expires is None or first.expires > now:
                    break
                self.ready.remove(first)
                self._drop(first, REASON_EXPIRED)

    # -- limits ----------------------------------------------------------------------------------

    def _is_over(self, more: int, size: int) -> bool:
        rules = self.goal
        bytes_ = sum(one.size for one in self.ready) + size
        is_long = rules.max_length != NEVER and len(self.ready) + more > rules.max_length
        return is_long or (rules.max_bytes != NEVER and bytes_ > rules.max_bytes)

    def _is_beyond(self, key: str, size: int) -> bool:
        if self.goal.overflow == DROP_HEAD:
            return False
        if self.goal.overflow == BACKPRESSURE and not self.ready:
            return False
        if self.goal.last_value_key != "" and any(one.key == key for one in self.ready):
            return False
        return self._is_over(1, size)

    def _note_full(self, is_stopped: bool) -> None:
        rules = self.goal
        length, size = int(rules.max_length), int(rules.max_bytes)
        bytes_ = sum(one.size for one in self.ready)
        has_no_place = self.stopped is not None and self._is_beyond(*self.stopped)
        if rules.overflow != BACKPRESSURE or not rules.is_limited():
            self.is_full = False
        elif self.is_full:
            has_places = length == NEVER or len(self.ready) <= length - max(1, length // 4)
            has_bytes = size == NEVER or not self.ready or bytes_ <= size - max(1, size // 4)
            self.is_full = has_no_place or not (has_places and has_bytes)
        else:
            self.is_full = (
                (is_stopped and has_no_place)
                or (length != NEVER and len(self.ready) >= length)
                or (size != NEVER and bool(self.ready) and bytes_ >= size)
            )

    # -- what must agree -------------------------------------------------------------------------

    @invariant()
    def both_agree(self) -> None:
        if not hasattr(self, "actor"):
            return
        actor = self.actor
        messages = actor.messages
        assert self.sink.given == self.given
        self._check_deaths()
        assert sorted(self.sender.answers) == sorted(self.answers)
        assert messages.ready_count() == len(self.ready)
        assert [number_of(one) for one in self.lane.items] == [n for n, _ in self.mailbox]
        assert self.queue_limits.is_full == self.is_full
        assert self.queue_limits.is_full == (("consumers:/q", "full") in actor.gate.reasons)
        self._check_what_rests()

    def _check_deaths(self) -> None:
        assert self.log.dead == self.dead
        assert self.queue_limits.drops == self.drops

    def _check_what_rests(self) -> None:
        messages = self.actor.messages
        found = sorted(number_of(one) for one in messages.ready_messages())
        assert found == sorted(one.number for one in self.ready)
        # The ledger: what rests here and what is unanswered, and nothing else.
        rests = [*messages.ready_messages(), *(one.message for one in self.sink.open)]
        raw = sum(len(one.raw) + MESSAGE_OVERHEAD_BYTES for one in messages.ready_messages())
        assert messages.bytes_ready == raw
        assert self.account.stored_messages == len(rests)
        assert self.account.stored_bytes == sum(
            len(one.raw) + MESSAGE_OVERHEAD_BYTES for one in rests
        )
