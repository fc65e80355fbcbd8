"""What a queue of any type is to the rest of the broker, and what may be attached to it.

The base holds what all types share: properties, the lanes of its senders, the ring of its
consumers. A type says what becomes of a message: broker/queue/classic_actor,
broker/stream/stream_actor, broker/dead_letter/delay_store. The room of queues comes before those of
the store, of paging and of dead letters, so a queue knows what is attached by a small base each.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.shown_names import shown_name
from penstock.broker.actors.actor import BLOCKED, IDLE, WAITING, Line
from penstock.broker.actors.fair_take import affordable, allot
from penstock.broker.actors.lane import Lane, LaneReceiver
from penstock.broker.queue.uncommitted import ReadWaiter, Uncommitted
from penstock.flow.credit import Strategy
from penstock.flow.gate import GateObserver
from penstock.flow.pending import Commands
from penstock.flow.room import Room
from penstock.protocol.content import Message
from penstock.queues.applied import Applied
from penstock.queues.consumer_selection import ConsumerSelection
from penstock.queues.consumers import Consumer, ConsumerQueue, Delivery
from penstock.queues.queue import ClassicQueue, DropSink
from penstock.queues.rules import DROP_NAMES, REASON_REJECTED, QueueRules
from penstock.routing.destination import Destination

NO_PAGING: Final = 1 << 62
"""A target that no queue reaches: nothing is paged."""
ALWAYS: Final = -1
"""A mark that every queue is above: its pager is asked at the end of every turn."""
FORCED: Final = 1 << 40
"""A budget that says: take everything, whatever the limits are, because the sender is gone."""
COMMITTED: Final = FORCED + 1
"""As FORCED, and nothing is refused either: it was committed, and may be on the disk by now."""


# -- what may be attached to a queue -----------------------------------------------------------


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueDurability:
    """One durable queue's way to the disk; broker/store/durability, a later room, has it."""

    __slots__ = ()

    def has_room(self) -> bool:
        """Whether the queue may take publishes now."""
        return True

    def took(self, lane: Lane, messages: list[Message], count: i64) -> None:
        """The queue has taken the first `count` of `messages`; their senders are answered when they
        are as safe as they asked for. The list is the durability's from now on."""
        raise NotImplementedError

    def commands(self, lane: Lane) -> Commands | None:
        """What a channel has under way over `lane` is counted here; None where nothing is."""
        return None

    def policies_changed(self, actor: "QueueActor") -> None:
        """Other policies apply to its queue `actor`."""

    def left(self, message: Message) -> None:
        """`message` has left the queue for good. Only for those with a place in the log."""
        raise NotImplementedError

    def came_back(self, message: Message, count: i64) -> None:
        """`message` has come back for the `count`th time: as after a start it is to be known."""

    def returns_of(self, message: Message) -> i64:
        """How often `message` came back, as far as the log knows."""
        return 0

    def left_all(self, deliveries: list[Delivery], first: i64, end: i64) -> None:
        """What `deliveries` first..end-1 brought has left the queue for good, as far as it has a
        place in the log."""
        raise NotImplementedError

    def hold(self, message: Message) -> None:
        """Until `release`, leaving the queue is not yet leaving the log: a dead letter about it is
        under way. Only for those with a place in the log."""
        raise NotImplementedError

    def release(self, message: Message) -> None:
        """The dead letter has arrived: `message` leaves the log."""
        raise NotImplementedError

    def full_store(self) -> str:
        """The store's id while it finds the disk full, else ""."""
        return ""

    def late_mirrors(self) -> str:
        """Which mirrors lack what the queue wants confirmed, and why; "" for none."""
        return ""

    def give_up(self) -> None:
        """The operator has decided to go on without the messages that cannot be read."""

    def ended(self) -> None:
        """The queue is gone."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class QueuePaging:
    """One queue's way out of memory and back; before a queue pages for the first time, that of all
    of them together. Nominal base."""

    __slots__ = ()

    def turn_ended(self, actor: "QueueActor") -> None:
        """The queue `actor` holds more than its mark: page what is above its target, and read
        ahead."""
        raise NotImplementedError

    def aim(self, target_bytes: i64) -> None:
        """Another target for a queue that pages already. target_bytes: of memory, 0.. ."""
        raise NotImplementedError

    def is_read_awaited(self) -> bool:
        """Whether the first message rests on the disk, and will be read."""
        return False

    def wait(self, waiter: ReadWaiter) -> None:
        """Tell `waiter` when the first message was read."""
        raise NotImplementedError

    def may_keep_records(self, rules: QueueRules) -> bool:
        """Whether the queue may go by `rules`, which need records, now: what is on the disk may
        stay there, or nothing is. If not, it is told when everything is in memory."""
        return True

    def purging(self) -> None:
        """Everything that is ready is about to be dropped."""

    def ended(self) -> None:
        """The queue is gone."""


@mypyc_attr(allow_interpreted_subclasses=True)
class DeadLetterSink(DropSink):
    """Where a queue's dead letters go; broker/dead_letter/dead_letters, a later room, has it.

    held_bytes: of dead letters that still wait here, and count as the queue's."""

    __slots__ = ("held_bytes",)

    def __init__(self) -> None:
        self.held_bytes: i64 = 0

    def finished(self) -> None:
        """The queue is gone."""
        raise NotImplementedError

    def numbers(self) -> dict[str, float]:
        """Counts by name, those that are 0 left out."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueLimits(DropSink):
    """The rules of one queue as its actor sees them; broker/queue/expiry_and_limits has them, which
    knows the inside of the classic queue. A queue without rules pays one comparison a turn for it.

    rules: in force; drops: messages given up by rules.REASON_*; dead_letters: gets what is dropped
    for the reasons of RabbitMQ, None for nobody; is_full: the queue takes nothing (overflow
    backpressure)."""

    __slots__ = ("dead_letters", "drops", "is_full", "rules")

    def __init__(self) -> None:
        self.rules = QueueRules()
        self.drops: list[int] = [0] * len(DROP_NAMES)
        self.dead_letters: DeadLetterSink | None = None
        self.is_full = False

    def rejected(self, position: i64, message: Message) -> bool:
        """A consumer has rejected for good what was taken at `position`; its cause is repaid where
        it is forgotten. False if it is not gone yet, but in the queue, because its body is on the
        disk and has to be read for its dead letter; what cannot be read for that has none."""
        size: i64 = len(message.raw)
        if self.dead_letters is not None and size == 0 and self.reads_rejected(position, message):
            return False
        self.drops[REASON_REJECTED] += 1
        if self.dead_letters is not None and size > 0:
            self.dead_letters.dropped(message, REASON_REJECTED)
        return True

    def reads_rejected(self, position: i64, stub: Message) -> bool:
        """Whether the queue has `stub` read, and drops it then."""
        return False

    def held_bytes(self) -> i64:
        """Of dead letters that rest in this queue, beside its messages."""
        return 0 if self.dead_letters is None else self.dead_letters.held_bytes

    def change(self, rules: QueueRules) -> None:
        """Go by `rules` from now on; what is in the queue is moved as they need it."""
        raise NotImplementedError

    def turn(self, budget: i64) -> bool:
        """The queue's turn; True if there is more to do."""
        raise NotImplementedError

    def take_lane(self, lane: Lane, budget: i64) -> bool:
        """Take up to `budget` messages out of `lane` as the limits have it; True if it holds
        more."""
        raise NotImplementedError

    def catch_up(self) -> None:
        """The queue is about to be looked at: take what the lanes hold, drop what is dead."""
        raise NotImplementedError

    def may_get(self) -> bool:
        """basic.get: whether there is a message it may have; the first one, then."""
        raise NotImplementedError

    def freed(self) -> None:
        """Messages have left outside a turn."""
        raise NotImplementedError

    def keep_records(self) -> None:
        """A message with a lifetime of its own comes: messages need records from now on."""
        raise NotImplementedError

    def used(self) -> None:
        """The queue was declared again, asked for a message, or has lost its last consumer."""
        raise NotImplementedError

    def finished(self) -> None:
        """The queue is gone."""
        raise NotImplementedError


# -- the queue ---------------------------------------------------------------------------------


NOBODY: Final = GateObserver()


class QueueTarget(Destination):
    """The queue as bindings see it."""

    __slots__ = ("actor",)

    def __init__(self, name: str, actor: "QueueActor") -> None:
        super().__init__(name)
        self.actor = actor


class QueueClient(ConsumerQueue):
    """The queue as consumers and settles see it; apart from the actor, which has another base."""

    __slots__ = ("actor",)

    def __init__(self, actor: "QueueActor") -> None:
        self.actor = actor

    def consumer_changed(self, consumer: Consumer) -> None:
        self.actor.offer(consumer)

    def serve(self, consumer: Consumer, most: i64) -> i64:
        actor = self.actor
        return actor.serve(consumer, most) if actor.is_alive else 0

    def shown(self, message: Message) -> Message:
        return self.actor.shown(message)

    def settle(self, delivery: Delivery) -> None:
        self.actor.settled(delivery)

    def settle_run(self, deliveries: list[Delivery], first: i64) -> i64:
        return self.actor.settled_run(deliveries, first)

    def check_verb(self, what: str, class_id: int, method_id: int) -> None:
        self.actor.check_verb(what, class_id, method_id)

    def discard(self, delivery: Delivery) -> None:
        self.actor.discarded(delivery)

    def requeue(self, deliveries: list[Delivery]) -> None:
        self.actor.requeue(deliveries)


class QueueActor(LaneReceiver):
    """A queue of any type: what virtual hosts, channels, leases and views ask of it. Nominal base.

    messages: what is ready, or counts of it; lanes: of every channel that publishes here; pending:
    those with messages in them; fair_bytes: the quantum of fair shares between them, 0 for as many
    messages each (fair_take); consumers: in order of arrival; ready: those that can be given a
    message, served in rotation; cursor: whose turn it is among them; choice: which of them are,
    None for all; unacked_count, unacked_bytes: deliveries without an answer, unacked_body_bytes: of
    their bodies; applied: the
    policies it goes by; queue_id: under which it is kept, else 0; takes_policies: those change
    what it does; has_rules: this type knows limits, lifetimes and dead letters; has_own_log: its
    messages lie in files of its own and not in the message store of its virtual host; is_internal:
    it belongs to an exchange or to the broker, and clients neither publish to it by name nor lease
    of it; is_paused: consumers are given nothing; damaged_count: messages that could not be read,
    for which it was paused, 0 once it was resumed; auto_delivered: deliveries to consumers that
    have gone and did not acknowledge; got_count, auto_got_count, got_empty_count: answers to
    basic.get that must be acknowledged, that need not, and that were empty.

    Attached, None for a type or a queue that has none: queue_limits (limits, lifetimes, pausing),
    durability (its way to the disk), paging (its way out of memory; page_above:
    bytes held in memory above which it is asked at the end of a turn), room (what its depth mark
    leaves for its senders), uncommitted (what waits for the store, of a quorum queue).
    depth_bytes: that mark, 0 for none; is_deep: that is reached;
    depth_source: who has said it, "" for the node.

    A replicated queue is a type as well. The contract leaves room for what sets it apart:
      - `take_lane` takes responsibility for a publish, and does not answer it: the answer
        (Answerable.accepted) comes at the commit point, any time later, as it does here for what
        goes to the disk. What is not committed yet is not in `messages`.
      - `gate` is closed in the name of what it waits for: a majority that is away, a follower that
        lags, as a reader group does here. What has been granted is still taken.
      - `settled`, `requeue` and `discarded` may be entries of its log too, which take effect when
        they are committed; the books of the consumer change at once.
      - Where the leader is elsewhere, an actor of the same kind stands here for it: `take_lane`
        and settles go over a hop, `serve` gives what the leader has assigned, and `messages` counts
        what was last heard. `finish` with `is_crash` is what members do when the leader's fails.
    """

    __deletable__ = ("client", "target")
    __slots__ = (
        "applied",
        "arguments",
        "auto_delete",
        "auto_delivered",
        "auto_got_count",
        "choice",
        "client",
        "consumers",
        "cursor",
        "damaged_count",
        "depth_bytes",
        "depth_source",
        "durability",
        "durable",
        "exclusive_consumer",
        "fair_bytes",
        "got_count",
        "got_empty_count",
        "had_consumers",
        "has_own_log",
        "has_rules",
        "is_internal",
        "is_paused",
        "lanes",
        "messages",
        "name",
        "owner",
        "page_above",
        "paging",
        "pending",
        "queue_id",
        "queue_limits",
        "ready",
        "room",
        "strategy",
        "takes_policies",
        "target",
        "unacked_body_bytes",
        "unacked_bytes",
        "unacked_count",
        "uncommitted",
        "vhost",
    )

    def __init__(
        self,
        vhost: str,
        name: str,
        durable: bool,
        auto_delete: bool,
        owner: str,
        arguments: dict[str, object],
        line: Line,
        strategy: Strategy,
        messages: ClassicQueue,
    ) -> None:
        super().__init__("queue:" + shown_name(vhost, name), line)
        self.vhost = vhost
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner
        self.arguments = arguments
        self.applied: Applied | None = None
        self.takes_policies = False
        self.queue_id = 0
        self.strategy = strategy
        self.messages = messages
        self.lanes: list[Lane] = []
        self.pending: list[Lane] = []
        self.fair_bytes: i64 = 0
        self.consumers: dict[Consumer, None] = {}
        self.ready: list[Consumer] = []
        self.cursor: i64 = 0
        self.choice: ConsumerSelection | None = None
        self.exclusive_consumer: Consumer | None = None
        self.auto_delivered: i64 = 0
        self.got_count: i64 = 0
        self.auto_got_count: i64 = 0
        self.got_empty_count: i64 = 0
        self.had_consumers = False
        self.has_rules = False
        self.has_own_log = False
        self.is_internal = False
        self.unacked_count: i64 = 0
        self.unacked_bytes: i64 = 0
        self.unacked_body_bytes: i64 = 0
        self.depth_bytes: i64 = 0
        self.depth_source = ""
        self.room: Room | None = None
        self.is_paused = False
        self.damaged_count = 0
        self.page_above: i64 = NO_PAGING
        self.paging: QueuePaging | None = None
        self.durability: QueueDurability | None = None
        self.queue_limits: QueueLimits | None = None
        self.uncommitted: Uncommitted | None = None
        self.target = QueueTarget(name, self)
        self.client = QueueClient(self)

    @property
    def is_deep(self) -> bool:
        """Whether it is at its depth mark, and waits for its consumers."""
        return self.room is not None and self.room.is_deep

    def left_room(self) -> None:
        """Something has left it: look whether senders can be lent more."""
        if self.room is not None and self.room.is_tight:
            self.wake()

    # -- publishing ------------------------------------------------------------------------------

    def attach(self, lane: Lane) -> None:
        """A channel begins to publish here."""
        self.lanes.append(lane)
        if self.room is not None and self.fair_bytes > 0 and lane.shares_room:
            self.room.join(lane)
        if self.queue_rate is not None:
            self.queue_rate.joined(lane)

    def offered(self, lane: Lane) -> None:
        """`lane` got its first message: see to it."""
        lane.is_listed = True
        lane.listed_ns = self.line.turn_ns
        self.pending.append(lane)
        self.wake()

    def take_round(self, budget: i64) -> None:
        """Take from every lane that has messages, up to `budget` each, in fair shares of bytes."""
        pending = self.pending
        self.pending = []
        is_shared = self.fair_bytes > 0 and len(pending) > 1
        if is_shared:
            allot(pending, self.fair_bytes)
        for index in range(len(pending)):
            lane = pending[index]
            if self.take_lane(lane, affordable(lane, budget) if is_shared else budget):
                self.pending.append(lane)
            else:
                lane.is_listed = False

    def take_lane(self, lane: Lane, budget: i64) -> bool:
        """Take responsibility for up to `budget` messages out of `lane`; True if it holds more.
        Its sender is answered when they are as safe as this type of queue makes them."""
        raise NotImplementedError

    def repay_taken(self, lane: Lane) -> None:
        """Repay what `take_lane` has taken: the sender may hand over more. Apart from taking,
        because what the queue does with a message is charged to its cause before that."""
        taken: i64 = lane.taken
        if taken > 0:
            bytes_: i64 = lane.taken_bytes
            lane.taken = 0
            lane.taken_bytes = 0
            self.line.accepted_bytes += bytes_
            self.strategy.repay(lane, lane.origin, taken, bytes_)
            if lane.commands is not None:
                lane.commands.settled()

    def detach(self, lane: Lane) -> None:
        """The sender of `lane` is gone: what it had handed over is still taken."""
        while self.take_lane(lane, FORCED):
            pass
        self.repay_taken(lane)
        if lane in self.pending:
            self.pending.remove(lane)
        self.lanes.remove(lane)
        # A grant that is kept until the queue is less deep has nobody left to go to.
        self.gate.drop(lane)
        self.strategy.forget(lane, lane.origin)
        if lane.commands is not None:
            lane.commands.ended()
        if self.room is not None:
            self.room.leave(lane)
        self.wake()

    def may_take(self) -> bool:
        """Whether what it keeps has room on its way to the disk; it is woken when it has."""
        return True

    def catch_up(self) -> None:
        """The queue is about to be looked at: take everything out of the lanes, at most their
        windows, and give away what a consumer can have."""
        raise NotImplementedError

    # -- deliveries ------------------------------------------------------------------------------

    def serve(self, consumer: Consumer, most: i64) -> i64:
        """Its channel has room, and it is the turn of `consumer`: give it up to `most` messages;
        how many. If there are more for it, it waits again."""
        raise NotImplementedError

    def shown(self, message: Message) -> Message:
        """What a client is to see of `message`, which was delivered before or is an answer to
        basic.get."""
        return message

    def settled(self, delivery: Delivery) -> None:
        """The client acknowledged or rejected for good."""
        raise NotImplementedError

    def discarded(self, delivery: Delivery) -> None:
        """The client rejected for good: there may be a dead-letter exchange for it."""
        self.settled(delivery)

    def requeue(self, deliveries: list[Delivery]) -> None:
        """Deliveries come back to their places."""
        raise NotImplementedError

    def settled_run(self, deliveries: list[Delivery], first: i64) -> i64:
        """Acknowledge the delivery at `first`, which is of this queue, and what follows it as far
        as that is cheaper together; the place behind."""
        self.settled(deliveries[first])
        return first + 1

    def get(self) -> Message | None:
        """The first ready message for basic.get; see `messages.position`, `.redelivered`."""
        return None

    def get_unacked(self, message: Message) -> None:
        """The message just got must be answered."""
        raise NotImplementedError

    def get_done(self, message: Message) -> None:
        """The message just got needs no answer."""
        raise NotImplementedError

    def ready_behind(self) -> i64:
        """How many are ready behind the message just got, after `get_unacked` or `get_done`."""
        return self.messages.ready_count()

    def check_verb(self, what: str, class_id: int, method_id: int) -> None:
        """Raise ConnectionFault 540 if this type of queue does not know the verb `what`."""

    # -- consumers -------------------------------------------------------------------------------

    def offer(self, consumer: Consumer) -> None:
        """`consumer` may have room again: put it back into the ring if so."""
        if consumer.is_ready or consumer not in self.consumers:
            return
        if consumer.room() == 0:
            consumer.hold(self.line.clock)
            return
        if consumer.is_held:
            line, has_messages = self.line, self.messages.ready_count() > 0
            now_ns = line.clock.monotonic_ns()
            consumer.free(now_ns, line.heard_ns, line.flushed_ns, has_messages)
        if self.choice is not None and not self._is_next(self.choice, consumer):
            return
        consumer.is_ready = True
        self.ready.append(consumer)
        if self.messages.ready_count() > 0:
            self.wake()

    def _is_next(self, choice: ConsumerSelection, consumer: Consumer) -> bool:
        """Whether `consumer`, which has room, is served from now on; if not, it stands by. If it is
        of a higher priority than those that were, these stand by."""
        if choice.is_single:
            return choice.admits(consumer)
        ready = self.ready
        if not ready or ready[0].priority == consumer.priority:
            return True
        if ready[0].priority > consumer.priority:
            consumer.is_ready = True
            choice.stand_by(consumer)
            return False
        choice.step_back(ready, self.cursor)
        self.ready = []
        self.cursor = 0
        return True

    def is_served(self, consumer: Consumer) -> bool:
        """Whether `consumer` has a place in the ring that is served, and does not stand by."""
        if not consumer.is_ready:
            return False
        choice = self.choice
        if choice is None or choice.is_single:
            return True
        return self.ready[0].priority == consumer.priority

    def _hold(self, consumer: Consumer) -> None:
        """Take `consumer` out of the ready ring, because its room is 0."""
        self._leave_ring(consumer)
        consumer.hold(self.line.clock)
        if self.choice is not None and not self.ready:
            self._promote(self.choice)

    def _leave_ring(self, consumer: Consumer) -> None:
        """Whose turn it is, and who came last, are found at once."""
        consumer.is_ready = False
        ready = self.ready
        choice = self.choice
        if choice is not None and not choice.is_single and ready[0].priority != consumer.priority:
            choice.forget(consumer)
            return
        at: i64 = self.cursor
        if at >= len(ready) or ready[at] is not consumer:
            at = len(ready) - 1
            if ready[at] is not consumer:
                at = ready.index(consumer)
        del ready[int(at)]

    def _promote(self, choice: ConsumerSelection) -> None:
        """If the ring is empty, those of the highest priority that stand by are served."""
        if self.ready:
            return
        ring = choice.next_up()
        if ring is None:
            return
        self.ready = ring.consumers
        self.cursor = ring.cursor
        if self.messages.ready_count() > 0:
            self.wake()

    def add_consumer(self, consumer: Consumer) -> None:
        """`consumer` has been told that it is one, and is given messages from now on."""
        self.consumers[consumer] = None
        consumer.unsent.consumers[consumer] = None
        self.had_consumers = True
        if consumer.is_exclusive:
            self.exclusive_consumer = consumer
        if self.choice is None and consumer.priority != 0:
            self.choice = ConsumerSelection(False)
        if self.choice is not None:
            self.choice.joined(consumer)
        self.offer(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        """`consumer` is cancelled; what it has not answered stays with its channel."""
        del self.consumers[consumer]
        if consumer.is_no_ack:
            self.auto_delivered += consumer.delivered
        consumer.sink.leave(consumer)
        consumer.unsent.consumers.pop(consumer, None)
        if consumer.is_ready:
            self._leave_ring(consumer)
        if self.exclusive_consumer is consumer:
            self.exclusive_consumer = None
        if self.choice is not None:
            heir = self.choice.left(consumer, self.consumers)
            if heir is not None:
                self.offer(heir)
            self._promote(self.choice)
        if not self.consumers:
            self.used()

    def has_more_for(self, consumer: Consumer) -> bool:
        """Whether there is anything that `consumer` could be given, if it has room."""
        return self.messages.ready_count() > 0

    def has_idle_consumer(self) -> bool:
        if not self.ready or self.stop_reason() != "":
            return False
        left: i64 = self.messages.ready_count()
        if self.uncommitted is not None:
            left += self.uncommitted.count
        for lane in self.pending:
            left += len(lane.items) - lane.head
        for consumer in self.ready:
            left -= consumer.room()
            if left < 0:
                return True
        return False

    def uncommitted_count(self) -> i64:
        """Messages that it has taken, and that are not ready before its store answers."""
        return 0 if self.uncommitted is None else self.uncommitted.count

    def uncommitted_bytes(self) -> i64:
        """What these take in memory."""
        return 0 if self.uncommitted is None else self.uncommitted.bytes

    def consumers_id(self) -> str:
        """What holds a queue that has too much in it: all its consumers together."""
        return "consumers:" + self.identity[6:]

    # -- life ------------------------------------------------------------------------------------

    def policies_changed(self) -> None:
        """Other policies apply to it now, see `applied`."""

    def go_by(self, rules: QueueRules) -> None:
        """Go by `rules` from now on, whatever they were before. Only if `has_rules`."""
        raise NotImplementedError

    def used(self) -> None:
        """The queue was declared again, asked for a message, or has lost its last consumer."""

    def pause(self, is_paused: bool) -> None:
        """Stop or go on giving messages away; publishes are taken either way."""
        self.is_paused = is_paused
        self.wake()

    def lease_refusal(self) -> str:
        """Why its messages cannot be leased, "" if they can."""
        return ""

    def overdue_for(self) -> str:
        """The first queue that messages wait for which should have gone on; "" for none."""
        return ""

    def full_store(self) -> str:
        """What it waits for while the disk has no room for its messages, else ""."""
        return "" if self.durability is None else self.durability.full_store()

    def check_ending(self, what: str, method_id: int) -> None:
        """Raise ChannelFault 403 if clients may not do this. what: deletion or purge."""

    def purge(self) -> int:
        """Drop what is ready; how many there were."""
        return 0

    def finish(self, is_crash: bool) -> None:
        """The queue is deleted, or has failed: lanes are forgotten, consumers cancelled, senders
        told. As in RabbitMQ what was on its way counts as taken, unless the queue has failed."""
        self.is_alive = False
        if self.queue_rate is not None:
            self.queue_rate.end()
        for lane in self.lanes:
            items = lane.items
            lane.items = []
            self.strategy.forget(lane, lane.origin)
            if self.room is not None:
                self.room.leave(lane)
            lane.sender_gate.forget(self.identity)
            if lane.commands is not None:
                lane.commands.ended()
            if items and lane.wants_answers:
                if is_crash:
                    lane.answerable.refused(items)
                else:
                    lane.answerable.accepted(items, len(items))
        self.lanes.clear()
        self.pending.clear()
        self.ready.clear()
        for consumer in list(self.consumers):
            consumer.unsent.consumers.pop(consumer, None)
            consumer.sink.leave(consumer)
            consumer.sink.cancelled_by_broker(consumer)
        self.consumers.clear()
        self.exclusive_consumer = None

    def unlink(self) -> None:
        """Everybody has been told that the queue is gone: nothing of its own keeps it in memory, so
        that it needs no collector, which would look at all others to find it. One that still has
        deliveries to be settled, or a gate that is shut, is left to the collector."""
        if self.unacked_count == 0 and self.gate.is_open:
            del self.target
            del self.client
            self.gate.observer = NOBODY

    def failing_queue(self) -> tuple[str, str]:
        return self.vhost, self.name

    def rest_state(self) -> int:
        """Blocked while held; else waiting while messages rest that no consumer can take."""
        if not self.gate.is_open:
            return BLOCKED
        return WAITING if self.messages.ready_count() > 0 else IDLE
