"""What a queue gives up goes to its dead-letter exchange, with a bounded window and no credit.

    at-most-once   a death is over when every target has answered, whatever it said
    at-least-once  it is over when every target has it; until then it rests in the queue where it
                   died, and is published again from time to time
While the window is used up, what only expires stays at the head of its queue. What has died for
other reasons cannot stay: it waits in a backlog, counted as the queue's and as its cause's; beyond
the backlog's bound it is lost and counted (at-most-once only). Into the backlog go those as well
for which the queue's turn has matched enough already: a worker sends them in turns of its own.

Queues that dead-letter to each other in a ring can hold each other up for ever: each too full for
the letters of the one before, each with a dead message first, which no consumer may have. Who has
waited for a whole period looks whether he waits for himself, and if so lets go what is on his
lanes: the ring holds as many messages as before. Source: flow-semantics 2.9, W14; scenarios 113,
114; RabbitMQ's rabbit_dead_letter and rabbit_fifo_dlx_worker.
"""

from collections import deque
from typing import Final

from mypy_extensions import i64

from penstock.base.errors import ConnectionFault
from penstock.broker.actors.actor import BLOCKED, IDLE, Actor, Line, Owed
from penstock.broker.actors.lane import Answerable, Lane
from penstock.broker.dead_letter.dead_letter_manager import DeadLetterManager
from penstock.broker.queue.queue_actor import (
    FORCED,
    DeadLetterSink,
    QueueActor,
    QueueLimits,
    QueueTarget,
)
from penstock.flow.account import Account
from penstock.flow.credit import Strategy
from penstock.flow.due import NEVER as NOT_DUE
from penstock.flow.due import Timer
from penstock.flow.gate import Gate
from penstock.flow.hop import LAYER_DEAD_LETTERS, LAYER_QUEUE
from penstock.protocol.content import Address, Message, SharedMessage
from penstock.queues.dead_letter import (
    LOST_CYCLE,
    LOST_DELETED,
    LOST_MALFORMED,
    LOST_NO_EXCHANGE,
    LOST_NO_ROUTE,
    LOST_OVERFLOW,
    LOST_REFUSED,
    LetterCounts,
    Obituary,
    is_cycle,
)
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, NO_BOUND
from penstock.queues.rules import DROP_HEAD, REASON_EXPIRED, REASON_REJECTED, QueueRules
from penstock.routing.search import MATCHED_AT_ONCE, WORK_OF_ONE
from penstock.telemetry.events import ESCAPE


class Carrier(Account):
    """In place of the account of a lane: every letter in it is charged to its own cause."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        super().__init__(name, None, None, 0)

    def charge(self, messages: i64, bytes_: i64) -> None:
        """Done where the letter is handed over."""

    def repay(self, messages: i64, bytes_: i64) -> None:
        """Done where the letter is answered."""

    def store(self, messages: i64, bytes_: i64) -> None:
        """Done where the letter is handed over."""

    def unstore(self, messages: i64, bytes_: i64) -> None:
        """Done where the letter is answered."""


class DeadLetter:
    """One death that is not over. message: which died; reason: rules.REASON_*; obituary: None until
    it is written; size: of the dead message in memory; open_count: targets that owe an answer;
    is_confirmed: every target has to have it; confirmed: the names of those that do; is_missed: one
    refused it or went; is_lost: it goes nowhere; is_held: it rests in the queue where it died."""

    __slots__ = (
        "confirmed",
        "is_confirmed",
        "is_held",
        "is_lost",
        "is_missed",
        "message",
        "obituary",
        "open_count",
        "reason",
        "size",
    )

    def __init__(self, message: Message, reason: i64) -> None:
        self.message = message
        self.reason: i64 = reason
        self.obituary: Obituary | None = None
        size: i64 = len(message.raw)
        self.size: i64 = size + MESSAGE_OVERHEAD_BYTES
        self.open_count: i64 = 0
        self.confirmed: list[str] = []
        self.is_confirmed = False
        self.is_held = False
        self.is_lost = False
        self.is_missed = False


class DeadLane(Lane):
    """The way of dead letters from one queue into another: a lane outside hop credit.

    Queues may dead-letter to each other in a ring, and a ring of hops with credit can come to a
    stand with every mailbox empty (flow-semantics 2.9, law 7). So this lane has no window of its
    own and keeps no grants: the source counts what it has under way. A place is free again when the
    target has taken the letter and its gate is open; while it is closed, because the target is too
    deep or full, the place stays taken.

    target: the queue it leads to; box: whose letters they are; under_way: by the message in the
    mailbox; kept: taken by the target, whose gate is closed; saved_room: of what that has free,
    for the first of these."""

    __slots__ = ("box", "is_deferred", "kept", "saved_room", "target", "under_way")

    def __init__(
        self, sender: str, gate: Gate, target: QueueActor, carrier: Carrier, box: "DeadLetters"
    ) -> None:
        answers = LaneAnswers()
        super().__init__(sender, LAYER_DEAD_LETTERS, gate, target, LAYER_QUEUE, carrier, answers)
        self.target = target
        answers.lane = self
        self.wants_answers = True
        self.box = box
        self.under_way: dict[Message, DeadLetter] = {}
        self.kept: list[DeadLetter] = []
        self.is_deferred = False
        self.saved_room: i64 = 0
        self.shares_room = False

    def hand_over(self, letter: DeadLetter, message: Message, strategy: Strategy) -> None:
        """`message`, the obituary's, goes to the target; its cause is charged for both its way and
        its rest there."""
        size: i64 = len(message.raw)
        strategy.charge(self, self.origin, 1, size)
        self.under_way[message] = letter
        letter.open_count += 1
        self.items.append(message)
        message.origin.charge(1, size)
        if not self.target.has_own_log:
            # What goes to a stream is on its way until the disk has it, and rests nowhere then.
            message.origin.store(1, size + MESSAGE_OVERHEAD_BYTES)
            if isinstance(message, SharedMessage):
                message.joined()
        queue_rate = self.queue_rate
        if queue_rate is not None:
            queue_rate.spend(int(size))
        if not self.is_listed:
            self.target.offered(self)

    def answer(self, messages: list[Message], count: i64, is_taken: bool) -> None:
        """The target has taken the first `count` of `messages`, or never will."""
        is_in = is_taken and self.target.is_alive
        is_kept = is_in and not self.receiver_gate.is_open
        # What waited for the disk had been in the queue, and was repaid as it emptied. A queue that
        # ends answers for its mailboxes before it forgets them.
        was_in = is_taken and not is_in and self not in self.target.lanes
        index: i64 = 0
        while index < count:
            message = messages[index]
            index += 1
            letter = self.under_way.pop(message, None)
            if letter is None:
                continue
            size: i64 = len(message.raw)
            message.origin.repay(1, size)
            if is_in:
                letter.confirmed.append(self.target.identity)
            else:
                if not was_in and not self.target.has_own_log:
                    if isinstance(message, SharedMessage):
                        message.left()
                    message.origin.unstore(1, size + MESSAGE_OVERHEAD_BYTES)
                letter.is_missed = True
                self.box.refused(letter, self.target.identity)
            if is_kept:
                self.kept.append(letter)
            else:
                self.box.answered(letter)
        # Nothing is kept when the disk answers a lane that was given up meanwhile.
        if is_kept and self.kept and not self.is_deferred:
            self.is_deferred = True
            self.receiver_gate.defer(self, self.sender, int(count))

    def taken_is_safe(self) -> None:
        """The broker stops, and everything that the target has taken is on the disk."""
        waiting = set(self.items)
        taken = [message for message in self.under_way if message not in waiting]
        self.answer(taken, len(taken), True)
        self.let_go()

    def let_go(self) -> None:
        """What the target has taken is over, although its gate is closed."""
        self.receiver_gate.drop(self)
        self.release()

    def release(self) -> None:
        """The target's gate has opened."""
        self.is_deferred = False
        self.saved_room = 0
        kept = self.kept
        self.kept = []
        for letter in kept:
            self.box.answered(letter)

    def kept_bytes(self) -> i64:
        total: i64 = 0
        for letter in self.kept:
            total += letter.size
        return total

    def release_part(self, bytes_: i64) -> None:
        """The target, which is at its depth mark, has some room for what was kept for it."""
        self.saved_room += bytes_
        while self.kept and self.kept[0].size <= self.saved_room:
            letter = self.kept.pop(0)
            self.saved_room -= letter.size
            self.box.answered(letter)

    def grant_due(self) -> None:
        """Nothing is granted: whoever hands over counts for himself."""
        self.granted += self.done
        self.balance += self.done
        self.balance_bytes += self.done_bytes
        self.done = 0
        self.done_bytes = 0

    def waits(self) -> bool:
        """Whether the target has something of ours and does not want it now."""
        if self.kept:
            return True
        return len(self.items) > 0 and not self.receiver_gate.is_open

    def abandon(self) -> None:
        """The target has failed in the middle of a turn: what it never answered for is lost."""
        self.let_go()
        under_way = self.under_way
        self.under_way = {}
        for message, letter in under_way.items():
            size: i64 = len(message.raw)
            message.origin.repay(1, size)
            letter.is_missed = True
            self.box.refused(letter, self.target.identity)
            self.box.answered(letter)


class DeadLetterWorker(Actor):
    """Sends on what waits, in turns of its own; its gate is that of all lanes."""

    __slots__ = ("box",)

    def __init__(self, queue: str, line: Line, box: "DeadLetters") -> None:
        super().__init__("dead:" + queue[6:], line)
        self.box = box

    def turn(self, budget: i64) -> bool:
        return self.box.work(budget)

    def rest_state(self) -> int:
        return IDLE if self.box.has_room() else BLOCKED


class LaneAnswers(Answerable):
    """The lane as its target answers it."""

    __slots__ = ("lane",)

    def __init__(self) -> None:
        self.lane: DeadLane | None = None

    def accepted(self, messages: list[Message], count: i64) -> None:
        if self.lane is not None:
            self.lane.answer(messages, count, True)

    def refused(self, messages: list[Message]) -> None:
        if self.lane is not None:
            self.lane.answer(messages, len(messages), False)


class Remaining(Owed):
    """The backlog of a queue that is gone, sent on piece by piece."""

    __slots__ = ("box",)

    def __init__(self, box: "DeadLetters") -> None:
        self.box = box

    def step(self) -> bool:
        return self.box.send_rest()


SENT_AT_ONCE: Final = 32
"""Letters of the backlog of a queue that is gone; fewer, where routes take long."""
NOT_STALLED: Final = ("", "")
EXPIRED: Final = "expired"
"""Reason: what has expired stays at the head of its queue, because no letter may be sent."""
LATE: Final = "late"
"""Reason: a backlog waits, of what has died for other reasons."""


class DeadLetters(DeadLetterSink):
    """The dead letters of `actor`, on their way to their targets.

    exchange, key: where to, exchange None for nowhere any more; lanes: by the name of the target;
    count, bytes: of letters under way; full_since_ns: when they last used the window up; late:
    those that wait for a place, or for a turn of the worker; matched: steps that routes took since
    its last one; stuck: those to be published again, which keep their place;
    is_asked: the queue was told that there is no room; stalled_by: peer and reason of the hold that
    is on record while letters wait for a place; refused_by: the target that refused one last;
    warned: of what the log has a line already."""

    __slots__ = (
        "actor",
        "address",
        "bytes",
        "carrier",
        "count",
        "counts",
        "exchange",
        "full_since_ns",
        "is_asked",
        "is_confirmed",
        "key",
        "lanes",
        "late",
        "manager",
        "matched",
        "refused_by",
        "route_epoch",
        "stalled_by",
        "stuck",
        "timer",
        "warned",
        "window",
        "worker",
    )

    def __init__(self, actor: QueueActor, manager: DeadLetterManager) -> None:
        super().__init__()
        self.actor = actor
        self.manager = manager
        self.lanes: dict[str, DeadLane] = {}
        self.exchange: str | None = None
        self.key: str | None = None
        self.is_confirmed = False
        self.window: i64 = 0
        self.count: i64 = 0
        self.bytes: i64 = 0
        self.full_since_ns: int = 0
        self.late: deque[DeadLetter] = deque()
        self.matched: i64 = 0
        self.stuck: list[DeadLetter] = []
        self.is_asked = False
        self.warned = ""
        self.refused_by = ""
        self.stalled_by = NOT_STALLED
        self.route_epoch: i64 = -1
        self.address = Address("", "")
        self.counts = LetterCounts()
        self.worker = DeadLetterWorker(actor.identity, actor.line, self)
        self.carrier = Carrier(self.worker.identity)
        self.timer = Timer(self._look_after)

    def change(self, rules: QueueRules, is_confirmed: bool) -> None:
        """Go by `rules` from now on; what is under way stays as it is. is_confirmed: the strategy
        is at-least-once."""
        self.exchange = rules.dead_letter_exchange
        self.key = rules.dead_letter_key
        self.is_confirmed = is_confirmed
        self.window = self.manager.window_of(is_confirmed)
        self.worker.wake()

    # -- the queue's side ------------------------------------------------------------------------

    def is_stalled(self) -> bool:
        return not self.has_room() and (self.is_asked or len(self.late) > 0)

    def has_room(self) -> bool:
        """Whether a letter may be sent. The last one may pass the bound in bytes."""
        if self.window == 0:
            return True
        return (
            self.count < self.window
            and self.bytes < self.manager.window_bytes
            and self.worker.gate.is_open
        )

    def full_for_ns(self, now_ns: int) -> int:
        """How long no letter may be sent, 0 while one may."""
        if self.has_room():
            return 0
        gate = self.worker.gate
        since_ns = self.full_since_ns if gate.is_open else gate.blocked_at_ns
        return max(0, now_ns - since_ns)

    def waits_for(self) -> str:
        """The first target that has letters and does not want them now, "" if there is none."""
        for lane in self.lanes.values():
            if lane.waits():
                return lane.target.identity
        return ""

    def room(self, reason: i64) -> i64:
        if self.exchange is None or self.window == 0 or reason != REASON_EXPIRED:
            return NO_BOUND
        if self.late or not self.has_room():
            self.is_asked = True
            self._watch()
            if self.stalled_by[1] != EXPIRED:
                self._note()
            return 0
        return self.window - self.count

    def dropped(self, message: Message, reason: i64) -> None:
        if self.exchange is None:
            return
        letter = DeadLetter(message, reason)
        is_soon = self.matched < MATCHED_AT_ONCE
        if not self.late and self.has_room() and is_soon:
            if self.is_confirmed:
                self._hold(letter, 1)
            self._begin(letter, self.is_confirmed)
            return
        if not self.is_confirmed and (
            len(self.late) >= self.manager.backlog
            or self.held_bytes + letter.size > self.manager.backlog_bytes
        ):
            self.counts.lost[LOST_OVERFLOW] += 1
            return
        self._hold(letter, 1)
        self.late.append(letter)
        self._watch()
        if not is_soon:
            self.worker.wake()
        if self.stalled_by[1] == "":
            self._note()

    def _note(self) -> None:
        """Put it on record when letters begin or cease to wait for a place, and who has it."""
        by = NOT_STALLED
        # A closed gate is on record already.
        if self.is_stalled() and self.worker.gate.is_open:
            peer = self.waits_for() or self.refused_by
            by = (peer, EXPIRED if self.is_asked else LATE)
        if by == self.stalled_by:
            return
        was = self.stalled_by
        self.stalled_by = by
        now_ns = self.actor.line.clock.monotonic_ns()
        if was[1] != "":
            self.worker.note_freed(was[0], was[1], now_ns)
        if by[1] != "":
            self.worker.note_held(by[0], by[1], now_ns)

    def _hold(self, letter: DeadLetter, sign: i64) -> None:
        """`letter` rests in this queue from now on (1), or does not any more (-1)."""
        self.held_bytes += sign * letter.size
        message = letter.message
        durability = self.actor.durability
        if sign > 0:
            message.origin.store(1, letter.size)
            if isinstance(message, SharedMessage):
                message.joined()
            if message.stored is not None and durability is not None:
                durability.hold(message)
        else:
            if isinstance(message, SharedMessage):
                message.left()
            message.origin.unstore(1, letter.size)
            if message.stored is not None and durability is not None:
                durability.release(message)
        letter.is_held = sign > 0

    # -- sending ---------------------------------------------------------------------------------

    def work(self, budget: i64) -> bool:
        """Send on up to `budget` letters of the backlog; the queue is woken when it may drop
        again, or is not so deep any more."""
        self.matched = 0
        while self.late and budget > 0 and self.has_room():
            letter = self.late.popleft()
            before = self.matched
            self._begin(letter, self.is_confirmed)
            budget -= 1 + (self.matched - before) // WORK_OF_ONE
            if letter.is_held and not self.is_confirmed:
                self._hold(letter, -1)
        if self.late:
            if self.has_room():
                return True
            self._watch()
        elif self.is_asked and self.has_room():
            self.is_asked = False
            self.actor.wake()
        self.actor.left_room()
        self._note()
        return False

    def _begin(self, letter: DeadLetter, is_confirmed: bool) -> None:
        """The first time `letter` is published: it takes its place in the window."""
        self.count += 1
        self.bytes += letter.size
        if not self.has_room():
            self.full_since_ns = self.actor.line.clock.monotonic_ns()
        letter.is_confirmed = is_confirmed
        self._publish(letter)

    def _publish(self, letter: DeadLetter) -> None:
        """Hand `letter` to its targets, those that have it left out."""
        letter.open_count = 1
        letter.is_missed = False
        lost = self._send(letter)
        if lost >= 0:
            self.refused_by = ""
            if letter.is_confirmed and lost in (LOST_NO_EXCHANGE, LOST_NO_ROUTE):
                letter.is_missed = True
            else:
                self.counts.lost[lost] += 1
                letter.is_lost = True
        # The place that was counted for this very call is given back last, so that an answer from
        # within it does not end the letter before all its targets were told.
        self.answered(letter)

    def _send(self, letter: DeadLetter) -> i64:
        """-1 if some target has it or will; else why it goes nowhere, LOST_*."""
        actor = self.actor
        vhost = self.manager.vhosts[actor.vhost]
        name = self.exchange
        if name is None:
            # There was one when it died.
            return LOST_NO_EXCHANGE
        exchange = vhost.find_exchange(name)
        if exchange is None:
            self._warn(f"there is no dead-letter exchange '{name}' in vhost '{actor.vhost}'")
            return LOST_NO_EXCHANGE
        written = letter.obituary
        if written is None:
            try:
                written = self.write(letter, name)
            except ConnectionFault:
                return LOST_MALFORMED
            letter.obituary = written
        before: i64 = vhost.router.work
        targets = self.manager.route(vhost, exchange, written, letter.is_confirmed)
        self.matched += vhost.router.work - before
        if not targets:
            if letter.confirmed:
                # Whoever else was to have it has gone.
                return -1
            if letter.is_confirmed:
                self._warn(f"nothing is bound to '{name}' for key '{written.keys[0]}'")
            return LOST_NO_ROUTE
        return self._hand_over(letter, written, targets)

    def write(self, letter: DeadLetter, exchange: str) -> Obituary:
        """What to publish to `exchange` for `letter`. Raises: ConnectionFault 502."""
        written = self.manager.obituary(self.actor, letter.message, letter.reason, self.key)
        first = written.keys[0]
        if self.address.exchange != exchange or self.address.routing_key != first:
            self.address = Address(exchange, first)
        written.message.address = self.address
        return written

    def _hand_over(self, letter: DeadLetter, written: Obituary, targets: list[QueueTarget]) -> i64:
        strategy = self.actor.strategy
        is_sent = False
        for target in targets:
            if letter.reason != REASON_REJECTED and is_cycle(target.name, written.deaths):
                continue
            is_sent = True
            if target.actor.identity not in letter.confirmed:
                self._lane_of(target).hand_over(letter, written.message, strategy)
        if not is_sent:
            self._warn(f"the dead letter has been in queue '{targets[0].name}' before")
            return LOST_CYCLE
        if not letter.is_confirmed:
            self.counts.sent[letter.reason] += 1
        return -1

    def _lane_of(self, target: QueueTarget) -> DeadLane:
        epoch = self.manager.vhosts[self.actor.vhost].router.epoch
        if epoch != self.route_epoch:
            self.route_epoch = epoch
            self._forget_gone()
        lane = self.lanes.get(target.name)
        if lane is None:
            worker = self.worker
            lane = DeadLane(worker.identity, worker.gate, target.actor, self.carrier, self)
            self.lanes[target.name] = lane
            target.actor.attach(lane)
        return lane

    def _forget_gone(self) -> None:
        """Lanes to queues that have gone are dropped."""
        for name, lane in list(self.lanes.items()):
            if not lane.target.is_alive:
                del self.lanes[name]
                lane.abandon()

    def _warn(self, text: str) -> None:
        """Tell the operator why letters go nowhere: once, until it is for another reason."""
        if self.warned != text:
            self.warned = text
            end = "kept and tried again" if self.is_confirmed else "lost and counted"
            self.manager.log.warning(f"{self.actor.identity}: dead letters are {end}: {text}")

    # -- answers ---------------------------------------------------------------------------------

    def refused(self, letter: DeadLetter, target: str) -> None:
        """A target refused it or is gone; at-most-once that copy is lost."""
        self.refused_by = target
        if not letter.is_confirmed:
            self.counts.lost[LOST_REFUSED] += 1

    def answered(self, letter: DeadLetter) -> None:
        """One target more has answered; the last one ends the letter, or makes it stuck."""
        letter.open_count -= 1
        if letter.open_count > 0:
            return
        if letter.is_confirmed and letter.is_missed and not letter.is_lost:
            self.stuck.append(letter)
            self._watch()
            return
        self.count -= 1
        self.bytes -= letter.size
        if letter.is_confirmed:
            if not letter.is_lost:
                self.counts.sent[letter.reason] += 1
                self.refused_by = ""
            self._hold(letter, -1)
        if self.late or self.is_asked or self.actor.is_deep:
            self.worker.wake()

    # -- waiting ---------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Look after what waits in a while."""
        if self.timer.due_ns == NOT_DUE and self.actor.is_alive:
            now_ns = self.actor.line.clock.monotonic_ns()
            self.manager.dues.put(self.timer, now_ns + self.manager.retry_ns)

    def _look_after(self, now_ns: int) -> None:
        """A period of waiting is over: publish again what was not confirmed, break a ring."""
        if not self.actor.is_alive:
            return
        self._forget_gone()
        stuck = self.stuck
        self.stuck = []
        for letter in stuck:
            letter.is_confirmed = self.is_confirmed
            if self._goes_elsewhere(letter):
                letter.obituary = None
            self._publish(letter)
            if letter.is_held and not self.is_confirmed:
                # The strategy is another by now: this was the last time.
                self._hold(letter, -1)
        if self.is_stalled():
            if self._waits_for_itself():
                self._let_go()
            self._watch()
        else:
            self.worker.wake()
        self._note()

    def _goes_elsewhere(self, letter: DeadLetter) -> bool:
        """Whether `letter` was written for another exchange or key than is in force."""
        written = letter.obituary
        if written is None:
            return False
        key = letter.message.address.routing_key if self.key is None else self.key
        return written.keys[0] != key or written.message.address.exchange != self.exchange

    def _waits_for_itself(self) -> bool:
        """Whether these wait for targets whose letters wait, over others, for this queue."""
        pending: list[DeadLetters] = [self]
        seen = {self.actor}
        while pending:
            for lane in pending.pop().lanes.values():
                target = lane.target
                if not lane.waits():
                    continue
                if target is self.actor:
                    return True
                letters = dead_letters_of(target)
                if target not in seen and letters is not None and letters.is_stalled():
                    seen.add(target)
                    pending.append(letters)
        return False

    def publish_begun(self) -> None:
        """The broker stops: what some targets have and others refused goes to those once more."""
        begun = [letter for letter in self.stuck if letter.confirmed]
        self.stuck = [letter for letter in self.stuck if not letter.confirmed]
        for letter in begun:
            self._publish(letter)

    def _let_go(self) -> None:
        """What is on the lanes goes into targets that do not want it."""
        count: i64 = 0
        for lane in list(self.lanes.values()):
            receiving = lane.target
            if not lane.waits():
                continue
            count += len(lane.items) + len(lane.kept)
            receiving.take_lane(lane, FORCED)
            receiving.repay_taken(lane)
            receiving.wake()
            lane.let_go()
        self.counts.escapes += count
        self.worker.line.recorder.record(ESCAPE, self.worker.identity, "", "", int(count))

    # -- life ------------------------------------------------------------------------------------

    def finished(self) -> None:
        """The queue is gone. What was to be confirmed goes with it, as in RabbitMQ; the rest of the
        backlog is sent, past the window, and targets take what they were handed."""
        self._leave_lanes()
        for letter in self.stuck:
            self.counts.lost[LOST_DELETED] += 1
            letter.is_lost = True
            letter.is_missed = False
            letter.open_count = 1
            self.answered(letter)
        self.stuck = []
        self.manager.dues.take_off(self.timer)
        self.worker.is_alive = False
        self.is_asked = False
        self._note()
        self.actor.line.errands.begin(Remaining(self))

    def send_rest(self) -> bool:
        """Some of the backlog goes on, whose queue is gone; True if there is more of it."""
        self.matched = 0
        has_vhost = self.actor.vhost in self.manager.vhosts
        left: i64 = SENT_AT_ONCE
        while self.late and left > 0 and self.matched < MATCHED_AT_ONCE:
            left -= 1
            letter = self.late.popleft()
            if self.is_confirmed:
                self.counts.lost[LOST_DELETED] += 1
            elif has_vhost:
                self._begin(letter, False)
            self._hold(letter, -1)
        self._leave_lanes()
        return len(self.late) > 0

    def _leave_lanes(self) -> None:
        """Targets take what they were handed, whatever their limits are."""
        for lane in list(self.lanes.values()):
            if lane.target.is_alive:
                lane.target.detach(lane)
            lane.abandon()
        self.lanes.clear()

    def numbers(self) -> dict[str, float]:
        found = self.counts.numbers()
        if self.late:
            found["dead_letters_waiting"] = float(len(self.late))
        if self.count > 0:
            found["dead_letters_under_way"] = float(int(self.count))
        return found


def dead_letters_of(queue: QueueActor) -> DeadLetters | None:
    """What `queue` has for its dead letters, None if they go nowhere."""
    found = None if queue.queue_limits is None else queue.queue_limits.dead_letters
    return found if isinstance(found, DeadLetters) else None


def address_dead_letters(
    manager: DeadLetterManager, actor: QueueActor, queue_limits: QueueLimits, rules: QueueRules
) -> None:
    """Dead letters of `actor`, which goes by `rules` from now on, go where they say."""
    letters = dead_letters_of(actor)
    if letters is None:
        if rules.dead_letter_exchange is None:
            return
        letters = DeadLetters(actor, manager)
        queue_limits.dead_letters = letters
    is_confirmed = rules.is_at_least_once
    if is_confirmed and rules.overflow == DROP_HEAD:
        is_confirmed = False
        manager.log.warning(
            f"{actor.identity}: x-dead-letter-strategy at-least-once needs x-overflow "
            "reject-publish; at-most-once is in force until it is set"
        )
    letters.change(rules, is_confirmed)
