"""The way of dead letters from one queue into another: a lane outside hop credit.

Queues may dead-letter to each other in a ring, and a ring of hops with credit can come to a stand
with every mailbox empty (flow-semantics 2.9, law 7). So this lane has no window of its own and
keeps no grants: the source counts what it has under way, see broker/dead_letter/dead_letters. A
place is free again when the target has taken the letter and its gate is open; while it is closed,
because the target is too deep or full, the place stays taken.
"""

from mypy_extensions import i64

from penstock.broker.actors.actor import BLOCKED, IDLE, Actor, Line
from penstock.broker.actors.lane import Answerable, Lane, LaneReceiver
from penstock.broker.queue.queue_actor import DeadLetterSink
from penstock.flow.account import Account
from penstock.flow.gate import Gate
from penstock.flow.hop import LAYER_DEAD_LETTERS, LAYER_QUEUE
from penstock.flow.strategy import Strategy
from penstock.protocol.content import Message
from penstock.queues.dead_letter import Obituary
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES


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


class Letter:
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
    """box: whose letters they are; under_way: by the message in the mailbox; kept: taken by the
    target, whose gate is closed."""

    __slots__ = ("box", "is_deferred", "kept", "under_way")

    def __init__(
        self, sender: str, gate: Gate, receiving: LaneReceiver, carrier: Carrier, box: "LetterBox"
    ) -> None:
        answers = LaneAnswers()
        super().__init__(sender, LAYER_DEAD_LETTERS, gate, receiving, LAYER_QUEUE, carrier, answers)
        answers.lane = self
        self.wants_answers = True
        self.box = box
        self.under_way: dict[Message, Letter] = {}
        self.kept: list[Letter] = []
        self.is_deferred = False

    def hand_over(self, letter: Letter, message: Message, strategy: Strategy) -> None:
        """`message`, the obituary's, goes to the target; its cause is charged for both its way and
        its rest there."""
        size: i64 = len(message.raw)
        strategy.charge(self, self.origin, 1, size)
        self.under_way[message] = letter
        letter.open_count += 1
        self.items.append(message)
        message.origin.charge(1, size)
        message.origin.store(1, size + MESSAGE_OVERHEAD_BYTES)
        toll = self.toll
        if toll is not None:
            toll.spend(int(size))
        if not self.is_listed:
            self.receiving.offered(self)

    def answer(self, messages: list[Message], count: i64, is_taken: bool) -> None:
        """The target has taken the first `count` of `messages`, or never will."""
        is_in = is_taken and self.receiving.is_alive
        is_kept = is_in and not self.receiver_gate.is_open
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
                letter.confirmed.append(self.receiving.identity)
            else:
                # What waited for the disk had been in the queue, and was repaid as it emptied.
                if message.stored is None:
                    message.origin.unstore(1, size + MESSAGE_OVERHEAD_BYTES)
                letter.is_missed = True
                self.box.refused(letter)
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
        kept = self.kept
        self.kept = []
        for letter in kept:
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
            self.box.refused(letter)
            self.box.answered(letter)


class LetterBox(DeadLetterSink):
    """The dead letters of one queue as others see them. lanes: by the name of the target."""

    __slots__ = ("lanes",)

    def __init__(self) -> None:
        super().__init__()
        self.lanes: dict[str, DeadLane] = {}

    def answered(self, letter: Letter) -> None:
        """One target has answered for `letter`."""
        raise NotImplementedError

    def refused(self, letter: Letter) -> None:
        """One target will never have `letter`; `answered` comes next."""
        raise NotImplementedError

    def has_room(self) -> bool:
        """Whether a letter may be sent."""
        raise NotImplementedError

    def is_stalled(self) -> bool:
        """Whether something waits here for a place."""
        raise NotImplementedError

    def work(self, budget: i64) -> bool:
        """Send on up to `budget` letters that waited; True if there are more to send."""
        raise NotImplementedError


class LetterWorker(Actor):
    """Sends on what waits, in turns of its own; its gate is that of all lanes."""

    __slots__ = ("box",)

    def __init__(self, queue: str, line: Line, box: LetterBox) -> None:
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
