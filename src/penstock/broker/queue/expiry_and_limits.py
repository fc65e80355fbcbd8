"""The rules of one queue: expiry, limits, pausing, the end of an unused one, and what is taken.

A turn with rules, all at one instant `now`:
    expire   take lanes   give to consumers   drop over the limit   expire   charge   repay
Of a quorum queue what the store has answered for is taken before the lanes, as if it came now.
What has a lifetime of 0 is therefore delivered to a consumer that is ready in this very turn, or
dropped. The head that is over the limit is dropped after consumers were asked to take it. Dropping
is done in slices: a million dead messages are a million/DROPS_PER_TURN turns, and other queues
have theirs in between. With dead letters a slice is DEATHS_PER_TURN, because each is written and
published.

What happens at a limit:
    drop-head             takes all; the turn drops what is too much
    reject-publish[-dlx]  what would break a limit is not taken: nack, or a counted loss; what waits
                          for the store of a quorum queue is counted as well
    backpressure          what would break a limit stays in its lane, the gate is closed for "full"
                          until a quarter or FULL_BAND is free again, and the message that stayed
                          fits; an empty queue takes anything
Limits count ready messages only, as RabbitMQ's do, so deliveries that come back may pass them;
those of backpressure count unanswered ones too, so that nothing that comes back passes them. What
the lanes of a channel that has ended still hold is taken past a limit of backpressure, because it
has nowhere to wait; it is at most their windows.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.cause import Cause
from penstock.broker.actors.lane import Lane
from penstock.broker.queue.classic_actor import ClassicActor
from penstock.broker.queue.queue_actor import COMMITTED, FORCED, QueueLimits
from penstock.flow.due import NEVER as NOT_DUE
from penstock.flow.due import DueLine, Timer
from penstock.protocol.content import Message, SharedMessage
from penstock.queues.applied import Applied
from penstock.queues.line import MessageLine
from penstock.queues.priorities import PriorityQueue
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.rules import (
    BACKPRESSURE,
    DROP_HEAD,
    DROP_NAMES,
    NEVER,
    NS_PER_MS,
    REASON_DELIVERY_LIMIT,
    REASON_DUPLICATE,
    REASON_MAXLEN,
    REASON_REFUSED,
    REJECT_PUBLISH_DLX,
    QueueRules,
    rules_in_words,
)

DROPS_PER_TURN: Final = 2048
DEATHS_PER_TURN: Final = 32
FULL_BAND: Final = 256
FULL_BAND_BYTES: Final = 1_048_576
EVERYTHING: Final = 1 << 30


@mypyc_attr(allow_interpreted_subclasses=True)
class ExpiryAndLimits(QueueLimits):
    """The rules of `actor`. unused: called when it has been unused for its x-expires; records: its
    messages while each has a record, else None; is_keeping: messages with lifetimes of their own
    have come, so they need records whatever the rules are; used_ns: when the queue was used last,
    as x-expires means it; is_stopped: in this turn a message was left in its lane, because it would
    break a limit; stopped: the last one of them, until the queue takes publishes again; now_ns: of
    this turn; unkept_count, unkept_bytes: of what was taken for a quorum queue, and its durability
    does not know yet."""

    __slots__ = (
        "actor",
        "dues",
        "expiry",
        "is_keeping",
        "is_stopped",
        "now_ns",
        "records",
        "stopped",
        "unkept_bytes",
        "unkept_count",
        "unused",
        "unused_timer",
        "used_ns",
    )

    def __init__(
        self, actor: ClassicActor, dues: DueLine, unused: Callable[[ClassicActor], None]
    ) -> None:
        super().__init__()
        self.actor = actor
        self.unused = unused
        self.dues = dues
        self.records: PriorityQueue | None = None
        self.is_stopped = False
        self.stopped: Message | None = None
        self.now_ns: i64 = 0
        self.is_keeping = False
        self.used_ns: i64 = 0
        self.unkept_count: i64 = 0
        self.unkept_bytes: i64 = 0
        self.expiry = Timer(self._expiry_due)
        self.unused_timer = Timer(self.look_unused)

    # -- rules -----------------------------------------------------------------------------------

    def change(self, rules: QueueRules) -> None:
        """Go by `rules` from now on; what is in the queue is moved as they need it."""
        actor = self.actor
        now_ns = actor.line.clock.monotonic_ns()
        self.rules = rules
        is_keeping = rules.keeps_records() or self.is_keeping
        may_keep = is_keeping and self._may_keep_records(rules)
        records = self.records
        if is_keeping and records is not None:
            records.change_rules(rules, now_ns)
        elif may_keep:
            self._begin_records(now_ns)
        elif is_keeping:
            # They begin when what is on the disk has been read; until then nothing is given up.
            pass
        elif records is not None and records.has_lifetimes():
            # Lifetimes that have begun go on, so the records stay.
            self.is_keeping = True
            records.change_rules(rules, now_ns)
        elif records is not None:
            actor.messages = records.to_line()
            self.records = None
        if rules.expires_ms == NEVER:
            self.dues.take_off(self.unused_timer)
        else:
            self.used()
        actor.wake()

    def _may_keep_records(self, rules: QueueRules) -> bool:
        paging = self.actor.paging
        return paging is None or paging.may_keep_records(rules)

    def _begin_records(self, now_ns: i64) -> None:
        messages = self.actor.messages
        assert isinstance(messages, MessageLine), "it has no records yet"
        records = self.make_records()
        records.adopt(messages, now_ns)
        self.actor.messages = records
        self.records = records

    def make_records(self) -> PriorityQueue:
        """The messages of a queue that begins to need records."""
        return PriorityQueue(self.rules, self)

    def keep_records(self) -> None:
        """A message with a lifetime of its own comes."""
        if not self.is_keeping:
            self.is_keeping = True
            if self.records is None:
                self.change(self.rules)

    def look_at_clock(self) -> None:
        """What follows happens now."""
        self.now_ns = self.actor.line.clock.monotonic_ns()
        if self.records is not None:
            self.records.now_ns = self.now_ns

    # -- the turn --------------------------------------------------------------------------------

    def turn(self, budget: i64) -> bool:
        return self._round(budget, budget)

    def catch_up(self) -> None:
        if self._round(EVERYTHING, EVERYTHING):
            self.actor.wake()

    def _round(self, taking: i64, giving: i64) -> bool:
        actor = self.actor
        self.look_at_clock()
        self.is_stopped = False
        has_more = self._expire()
        if actor.uncommitted is not None and actor.uncommitted.due > 0:
            actor.take_committed()
        if self.is_full:
            self.measure_full()
        pending = actor.pending
        is_taking = len(pending) > 0 and not self.is_full
        if is_taking and taking != EVERYTHING:
            is_taking = actor.may_take()
        if is_taking:
            self._take_lanes(taking)
        self._give(giving)
        if self._drop_over():
            has_more = True
        if self._expire():
            has_more = True
        actor.line.charge_outputs()
        if is_taking:
            for lane in pending:
                actor.repay_taken(lane)
        actor.keep_to_target()
        if actor.depth_bytes > 0 and actor.measure_depth():
            has_more = True
        self.measure_full()
        self._arm()
        if has_more or (len(actor.pending) > 0 and not self.is_full and actor.may_take()):
            return True
        if actor.is_paused or not actor.ready or actor.messages.at_hand() == 0:
            return False
        # A dead head that the dead letters have no room for waits until they wake the queue.
        return self.records is None or self.records.find_live(self.now_ns, 0)

    def _expire(self) -> bool:
        """Drop a slice of what is dead; True if it was a whole one."""
        records = self.records
        if records is None:
            return False
        slice_: i64 = self.slice()
        return records.expire(self.now_ns, slice_) >= slice_

    def slice(self) -> i64:
        """How many messages are dropped in one go."""
        return DROPS_PER_TURN if self.dead_letters is None else DEATHS_PER_TURN

    def _give(self, budget: i64) -> None:
        """Give to ready consumers, and more than `budget` while what would die now is first."""
        if self.actor.is_paused:
            return
        actor = self.actor
        self._pump(budget)
        records = self.records
        if records is None:
            return
        while actor.ready and records.is_due(self.now_ns):
            before: i64 = records.count
            has_others = self._pump(budget)
            if records.count == before and not has_others:
                return

    def held_bytes(self) -> i64:
        records = self.records
        return super().held_bytes() + (0 if records is None else records.kept_bytes())

    def give_one(self) -> None:
        if not self.actor.is_paused:
            while self._pump(1):
                pass

    def _pump(self, budget: i64) -> bool:
        """As the actor's."""
        actor = self.actor
        records = self.records
        if records is None or records.lifetimes.uneven_count == 0:
            return actor.pump(budget)
        # A dead message may stand behind a living one, so each is looked at as it gets there.
        while budget > 0 and actor.ready:
            if not records.find_live(self.now_ns, self.slice()):
                return False
            if actor.pump(1):
                return True
            budget -= 1
        return False

    def _drop_over(self) -> bool:
        """overflow drop-head; True if there is more to drop."""
        rules = self.rules
        if rules.overflow != DROP_HEAD or not rules.is_limited():
            return False
        actor = self.actor
        left: i64 = self.slice()
        while rules.is_over(self.ready_count(), self.body_bytes()):
            if actor.messages.at_hand() == 0:
                # The first message is being read from the disk, and wakes the queue.
                return False
            if actor.ready and not actor.is_paused:
                before: i64 = actor.messages.ready_count()
                if self._pump(1) or actor.messages.ready_count() < before:
                    continue
            if left == 0:
                return True
            left -= 1
            self.dropped(actor.messages.shed(), REASON_MAXLEN)
        return False

    # -- taking ----------------------------------------------------------------------------------

    def _take_lanes(self, budget: i64) -> None:
        """As the plain queue does; what is left of a limit is shared by the lanes that wait."""
        actor = self.actor
        rules = self.rules
        self.stopped = None
        count: i64 = len(actor.pending)
        if count > 1 and rules.overflow == BACKPRESSURE and rules.max_length != NEVER:
            share: i64 = (rules.max_length - self.held_count()) // count
            if share < 1:
                share = 1
            if share < budget:
                budget = share
        actor.take_round(budget)
        while budget == EVERYTHING and actor.pending and not self.is_stopped:
            # Fair shares are for turns; who looks wants all of it.
            actor.take_round(budget)
        if self.is_stopped and len(actor.pending) > 1:
            actor.pending.append(actor.pending.pop(0))

    def take_lane(self, lane: Lane, budget: i64) -> bool:
        items = lane.items
        count: i64 = len(items)
        if count == 0 or budget == 0:
            return count > 0
        if count > budget:
            count = budget
        rules = self.rules
        is_bounded = rules.overflow != DROP_HEAD and rules.is_limited()
        is_holding = rules.overflow == BACKPRESSURE
        if budget == COMMITTED or (is_holding and budget == FORCED):
            is_bounded = False
        is_ready = self.actor.may_show(budget)
        if self.records is not None and budget >= FORCED:
            self.look_at_clock()
        refused: list[Message] = []
        taken: list[Message] = []
        duplicates: list[Message] = []
        index: i64 = 0
        bytes_: i64 = 0
        while index < count:
            message = items[index]
            size: i64 = len(message.raw)
            if is_bounded and self._is_beyond(message, is_holding):
                if budget != FORCED:
                    self._keep(lane, taken)
                    taken = []
                    self.give_one()
                if budget == FORCED or self._is_beyond(message, is_holding):
                    if is_holding:
                        self.is_stopped = True
                        self.stopped = message
                        break
                    self._refuse(message)
                    refused.append(message)
                    bytes_ += size
                    index += 1
                    continue
            if taken and self._supersedes(message):
                self._keep(lane, taken)
                taken = []
            if self._add(lane, message, size, is_ready):
                taken.append(message)
            else:
                duplicates.append(message)
            bytes_ += size
            index += 1
        lane.items = items[index:]
        lane.taken += index
        lane.taken_bytes += bytes_
        if refused and lane.wants_answers:
            lane.answerable.refused(refused)
        if duplicates and lane.wants_answers:
            lane.answerable.accepted(duplicates, len(duplicates))
        self._keep(lane, taken)
        return len(lane.items) > 0

    def _keep(self, lane: Lane, taken: list[Message]) -> None:
        """`taken` are in the queue: before any of them may leave it, its durability knows of them,
        or it would keep what has gone."""
        if not taken:
            return
        self.unkept_count = 0
        self.unkept_bytes = 0
        if self.actor.durability is not None:
            self.actor.durability.took(lane, taken, len(taken))
        elif lane.wants_answers:
            lane.answerable.accepted(taken, len(taken))

    def _supersedes(self, message: Message) -> bool:
        records = self.records
        return records is not None and records.supersedes(message)

    def _add(self, lane: Lane, message: Message, size: i64, is_ready: bool) -> bool:
        """False for a duplicate, which is dropped and must not be kept on disk. Charged before it
        is in, because it may supersede one that is repaid at once. is_ready: it need not wait for
        the store."""
        before = self.drops[REASON_DUPLICATE]
        origin: Cause = message.origin if lane.has_foreign else lane.origin
        origin.store(1, size + MESSAGE_OVERHEAD_BYTES)
        shared = message if lane.has_shared and isinstance(message, SharedMessage) else None
        if shared is not None:
            shared.joined()
        try:
            if is_ready:
                self.actor.messages.add(message)
            else:
                self._hand_on(message)
        except Exception:
            if shared is not None:
                shared.left()
            origin.unstore(1, size + MESSAGE_OVERHEAD_BYTES)
            raise
        return self.drops[REASON_DUPLICATE] == before

    def _hand_on(self, message: Message) -> None:
        """`message` of a quorum queue waits for the store, unless it is a duplicate. What rules
        cannot read is found now, before the disk has it."""
        records = self.records
        if records is not None:
            records.supersedes(message)
            if records.is_duplicate(message):
                self.dropped(message, REASON_DUPLICATE)
                return
        self.unkept_count += 1
        self.unkept_bytes += message.body_bytes

    def _is_beyond(self, message: Message, is_holding: bool) -> bool:
        """Whether `message` would break a limit (RabbitMQ's will_overflow)."""
        count: i64 = self.held_count() if is_holding else self.taken_count()
        if is_holding and count == 0:
            return False
        bytes_: i64 = self.taken_body_bytes() + message.body_bytes
        if is_holding:
            bytes_ += self.actor.unacked_body_bytes
        if not self.rules.is_over(count + 1, bytes_):
            return False
        return not self._supersedes(message)

    def _refuse(self, message: Message) -> None:
        self.drops[REASON_REFUSED] += 1
        if self.rules.overflow == REJECT_PUBLISH_DLX and self.dead_letters is not None:
            self.dead_letters.dropped(message, REASON_MAXLEN)

    def measure_full(self) -> None:
        """Close or open the gate for overflow backpressure."""
        rules = self.rules
        actor = self.actor
        is_holding = rules.overflow == BACKPRESSURE and rules.is_limited() and actor.is_alive
        if not is_holding:
            if self.is_full:
                self.open_gate()
            return
        count: i64 = self.held_count()
        bytes_: i64 = self.taken_body_bytes() + actor.unacked_body_bytes
        limit: i64 = rules.max_length
        if limit == 0:
            limit = 1
        # Who opened for a message that does not fit would close again at once, and so for ever.
        stopped = self.stopped
        has_no_place = stopped is not None and self._is_beyond(stopped, True)
        if self.is_full:
            if has_no_place:
                return
            if (limit == NEVER or count <= limit - _band(limit, FULL_BAND)) and (
                rules.max_bytes == NEVER
                or count == 0
                or bytes_ <= rules.max_bytes - _band(rules.max_bytes, FULL_BAND_BYTES)
            ):
                self.open_gate()
        elif (
            # If it fits by now, the next turn tries again; if not, one is ready whose leaving
            # brings a turn.
            (self.is_stopped and has_no_place)
            or (limit != NEVER and count >= limit)
            or (rules.max_bytes != NEVER and count > 0 and bytes_ >= rules.max_bytes)
        ):
            self.is_full = True
            actor.gate.close(actor.consumers_id(), "full")

    def open_gate(self) -> None:
        """The queue takes publishes again."""
        self.is_full = False
        self.is_stopped = False
        self.stopped = None
        self.actor.gate.open(self.actor.consumers_id(), "full")

    def ready_count(self) -> i64:
        """Messages that a limit counts: what is dead already, and is only read for its dead letter,
        takes nobody's place."""
        return self.actor.messages.ready_count() - self.actor.messages.leaving_count()

    def held_count(self) -> i64:
        """What a limit of backpressure counts: what was taken, and unanswered deliveries."""
        return self.taken_count() + self.actor.unacked_count

    def taken_count(self) -> i64:
        """What a limit counts that refuses publishes: ready messages, and those of a quorum queue
        that wait for the store."""
        return self.ready_count() + self.actor.uncommitted_count() + self.unkept_count

    def body_bytes(self) -> i64:
        """Of the ready messages, as far as they are counted: 0 for a plain queue."""
        records = self.records
        return 0 if records is None else records.body_bytes_ready

    def taken_body_bytes(self) -> i64:
        """The same of what `taken_count` counts."""
        bytes_: i64 = self.body_bytes() + self.unkept_bytes
        uncommitted = self.actor.uncommitted
        return bytes_ if uncommitted is None else bytes_ + uncommitted.body_bytes

    # -- dropping ----------------------------------------------------------------------------------

    def dropped(self, message: Message, reason: i64) -> None:
        """A message has left the queue: count it, hand it on, repay its cause."""
        self.drops[reason] += 1
        if self.dead_letters is not None and reason <= REASON_DELIVERY_LIMIT:
            self.dead_letters.dropped(message, reason)
        if message.stored is not None:
            self.actor.forget(message)
        size: i64 = len(message.raw)
        if isinstance(message, SharedMessage):
            message.left()
        message.origin.unstore(1, size + MESSAGE_OVERHEAD_BYTES)

    def came_back(self, message: Message, count: i64) -> None:
        if self.actor.durability is not None:
            self.actor.durability.came_back(message, count)

    def returns_of(self, message: Message) -> i64:
        durability = self.actor.durability
        return 0 if durability is None else durability.returns_of(message)

    def room(self, reason: i64) -> i64:
        if self.dead_letters is None:
            return EVERYTHING
        return self.dead_letters.room(reason)

    # -- what others do --------------------------------------------------------------------------

    def may_get(self) -> bool:
        self.used()
        if self.actor.is_paused:
            return False
        if self.records is None:
            return True
        self.look_at_clock()
        self._expire()
        return self.records.find_live(self.now_ns, self.slice())

    def freed(self) -> None:
        # The new head may be dead, or have a lifetime that no timer knows of yet.
        if self.is_full or self.records is not None:
            self.actor.wake()

    def reads_rejected(self, position: i64, stub: Message) -> bool:
        if not self.actor.messages.reject(position, stub):
            return False
        self.actor.wake()
        return True

    # -- time ------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Be woken when the next message dies; an earlier waking that is set already will do."""
        records = self.records
        if records is None:
            return
        next_ns: i64 = records.next_expiry_ns()
        if next_ns <= self.now_ns:
            # None, or one that the dead letters have no room for, and they wake the queue.
            return
        due_ns: i64 = self.expiry.due_ns
        if due_ns == NOT_DUE or next_ns < due_ns:
            self.dues.put(self.expiry, int(next_ns))

    def used(self) -> None:
        expires_ms: i64 = self.rules.expires_ms
        if expires_ms == NEVER:
            return
        self.used_ns = self.actor.line.clock.monotonic_ns()
        if self.unused_timer.due_ns == NOT_DUE:
            self.dues.put(self.unused_timer, int(self.used_ns + expires_ms * NS_PER_MS))

    def _expiry_due(self, now_ns: int) -> None:
        self.actor.wake()

    def look_unused(self, now_ns: int) -> None:
        """The queue may have been unused for x-expires: it goes then."""
        actor = self.actor
        if not actor.is_alive or actor.consumers or self.rules.expires_ms == NEVER:
            # The last consumer to leave begins it anew.
            return
        due_ns: i64 = self.used_ns + self.rules.expires_ms * NS_PER_MS
        if now_ns < due_ns:
            self.dues.put(self.unused_timer, int(due_ns))
        else:
            self.unused(actor)

    def finished(self) -> None:
        self.dues.take_off(self.expiry)
        self.dues.take_off(self.unused_timer)
        if self.is_full:
            self.open_gate()
        if self.dead_letters is not None:
            self.dead_letters.finished()


def _band(limit: i64, most: i64) -> i64:
    """How far below `limit` a full queue takes publishes again, 1.. ."""
    band: i64 = limit // 4
    if band > most:
        band = most
    return band if band > 0 else 1


# -- in its snapshot ---------------------------------------------------------------------------


def note_limits(
    queue_limits: QueueLimits, numbers: dict[str, float], labels: dict[str, str]
) -> None:
    """Add `dropped:<reason>` to `numbers`, counts since the queue was declared; to `labels` its
    `rules` in words. What its dead letters count goes to `numbers`."""
    for name, count in zip(DROP_NAMES, queue_limits.drops, strict=True):
        if count > 0:
            numbers[f"dropped:{name}"] = float(count)
    if queue_limits.dead_letters is not None:
        numbers.update(queue_limits.dead_letters.numbers())
    said = rules_in_words(queue_limits.rules)
    if said:
        labels["rules"] = ", ".join(f"{name} {text}" for name, text in said.items())


def note_limit(rules: QueueRules, applied: Applied | None, labels: dict[str, str]) -> None:
    """Add to `labels` what bounds the queue as its `limit`, with the policy that says so."""
    found = []
    for key, value in (("max-length", rules.max_length), ("max-length-bytes", rules.max_bytes)):
        if value == NEVER:
            continue
        source = ""
        # An argument may be smaller than the policy, and then it is not the policy's.
        if applied is not None and applied.definition.get(key) == value:
            source = applied.source_of(key)
        found.append(f"{key} {int(value)}" + (f" ({source})" if source else ""))
    if found:
        labels["limit"] = ", ".join(found)
