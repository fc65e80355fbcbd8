"""What the rules of a queue do in its turn: expiry, limits, pausing, and the end of an unused one.

A ruled turn, all at one instant `now`:
    expire   take lanes   give to consumers   drop over the limit   expire   charge   repay
What has a lifetime of 0 is therefore delivered to a consumer that is ready in this very turn, or
dropped. The head that is over the limit is dropped after consumers were asked to take it. Dropping
is done in slices: a million dead messages are a million/DROPS_PER_TURN turns, and other queues
have theirs in between.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.queue.queue_ruling import RuleDesk
from penstock.broker.queue.ruled_intake import EVERYTHING, RuledIntake
from penstock.flow.due import NEVER as NOT_DUE
from penstock.flow.due import DueLine, Timer
from penstock.protocol.content import Message
from penstock.queues.line import MessageLine
from penstock.queues.ruled import RuledQueue
from penstock.queues.rules import (
    BACKPRESSURE,
    DROP_HEAD,
    NEVER,
    NS_PER_MS,
    REASON_MAXLEN,
    QueueRules,
)

DROPS_PER_TURN: Final = 2048


@mypyc_attr(allow_interpreted_subclasses=True)
class Ruling(RuledIntake):
    """The rules of `actor`. is_keeping: messages with lifetimes of their own have come, so they
    need records whatever the rules are; used_ns: when the queue was used last, as x-expires means
    it."""

    __slots__ = ("desk", "dues", "expiry", "is_keeping", "unused_timer", "used_ns")

    def __init__(self, actor: QueueActor, dues: DueLine, desk: RuleDesk) -> None:
        super().__init__(actor)
        self.desk = desk
        self.dues = dues
        self.is_keeping = False
        self.used_ns: i64 = 0
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

    def make_records(self) -> RuledQueue:
        """The messages of a queue that begins to need records."""
        return RuledQueue(self.rules, self)

    def keep_records(self) -> None:
        """A message with a lifetime of its own comes."""
        if not self.is_keeping:
            self.is_keeping = True
            if self.records is None:
                self.change(self.rules)

    def pause(self, is_paused: bool) -> None:
        """Stop or go on giving messages away; publishes are taken either way."""
        self.is_paused = is_paused
        if not is_paused and self.lost_count > 0:
            self.lost_count = 0
            if self.actor.keeper is not None:
                self.actor.keeper.give_up()
        self.actor.wake()

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
        if actor.depth_bytes > 0:
            actor.measure_depth()
        self.measure_full()
        self._arm()
        if has_more or (len(actor.pending) > 0 and not self.is_full and actor.may_take()):
            return True
        if self.is_paused or not actor.ready or actor.messages.at_hand() == 0:
            return False
        # A dead head that the dead letters have no room for waits until they wake the queue.
        return self.records is None or self.records.find_live(self.now_ns, 0)

    def _expire(self) -> bool:
        """Drop a slice of what is dead; True if it was a whole one."""
        records = self.records
        if records is None:
            return False
        return records.expire(self.now_ns, DROPS_PER_TURN) >= DROPS_PER_TURN

    def _give(self, budget: i64) -> None:
        """Give to ready consumers, and more than `budget` while what would die now is first."""
        if self.is_paused:
            return
        actor = self.actor
        self._pump(budget)
        records = self.records
        if records is None:
            return
        while actor.ready and records.is_due(self.now_ns):
            before: i64 = records.count
            self._pump(budget)
            if records.count == before:
                return

    def held_bytes(self) -> i64:
        records = self.records
        return super().held_bytes() + (0 if records is None else records.kept_bytes())

    def give_one(self) -> None:
        if not self.is_paused:
            self._pump(1)

    def _pump(self, budget: i64) -> None:
        actor = self.actor
        records = self.records
        if records is None or records.lifetimes.uneven_count == 0:
            actor.pump(budget)
            return
        # A dead message may stand behind a living one, so each is looked at as it gets there.
        while budget > 0 and actor.ready:
            if not records.find_live(self.now_ns, DROPS_PER_TURN):
                return
            actor.pump(1)
            budget -= 1

    def _drop_over(self) -> bool:
        """overflow drop-head; True if there is more to drop."""
        rules = self.rules
        if rules.overflow != DROP_HEAD or not rules.is_limited():
            return False
        actor = self.actor
        left: i64 = DROPS_PER_TURN
        while rules.is_over(actor.messages.ready_count(), self.body_bytes()):
            if actor.messages.at_hand() == 0:
                # The first message is being read from the disk, and wakes the queue.
                return False
            if actor.ready and not self.is_paused:
                before: i64 = actor.messages.ready_count()
                self._pump(1)
                if actor.messages.ready_count() < before:
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
            share: i64 = (rules.max_length - actor.messages.ready_count()) // count
            if share < 1:
                share = 1
            if share < budget:
                budget = share
        actor.take_round(budget)
        while budget == EVERYTHING and actor.pending and not self.is_stopped:
            # Fair shares are for turns; whoever looks wants all of it.
            actor.take_round(budget)
        if self.is_stopped and len(actor.pending) > 1:
            actor.pending.append(actor.pending.pop(0))

    # -- what others do --------------------------------------------------------------------------

    def may_get(self) -> bool:
        self.used()
        if self.is_paused:
            return False
        if self.records is None:
            return True
        self.look_at_clock()
        self._expire()
        return self.records.find_live(self.now_ns, DROPS_PER_TURN)

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
            self.desk.unused(actor)

    def finished(self) -> None:
        self.dues.take_off(self.expiry)
        self.dues.take_off(self.unused_timer)
        if self.is_full:
            self.open_gate()
        if self.dead_letters is not None:
            self.dead_letters.finished()
