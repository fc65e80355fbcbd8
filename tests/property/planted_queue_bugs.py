"""Bugs that were made on purpose in the queue with rules, each where it could really be made.

Every one is a PriorityQueue or a ExpiryAndLimits with one thing wrong; the machine has to notice.
"""

from penstock.broker.actors.lane import Lane
from penstock.broker.queue.expiry_and_limits import ExpiryAndLimits
from penstock.protocol.content import Message
from penstock.queues.entry import FLAGS_AT, Entry
from penstock.queues.priorities import PriorityQueue
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, Purged
from penstock.queues.rules import (
    BACKPRESSURE,
    REASON_EXPIRED,
    REASON_MAXLEN,
    REASON_SUPERSEDED,
)


class BuggyLimits(ExpiryAndLimits):
    """Takes its messages from `messages`. Nominal base."""

    messages: type[PriorityQueue] = PriorityQueue

    def make_records(self) -> PriorityQueue:
        return self.messages(self.rules, self)


# -- messages --------------------------------------------------------------------------------------


class RequeuesToTheBack(PriorityQueue):
    def put_back(self, position: int, message: Message) -> None:
        super().put_back(position, message)
        for level in self.levels:
            line = level.line
            for entry in list(line.returned):
                if entry.position == position and isinstance(entry, Entry):
                    line.returned.remove(entry)
                    line.entries.append(entry)


class ForgetsRedelivered(PriorityQueue):
    def take(self) -> Message:
        message = super().take()
        self.redelivered = False
        return message


class RenewsTheLifetimeOfWhatComesBack(PriorityQueue):
    def put_back(self, position: int, message: Message) -> None:
        record = self.out.get(position)
        if record is not None and record.expires_ns >= 0:
            record.expires_ns = self.now_ns + 20_000_000
        super().put_back(position, message)


class ExpiresOneInstantLate(PriorityQueue):
    def expire(self, now_ns: int, budget: int) -> int:
        return super().expire(now_ns - 1, budget)


class DeliversTheDead(PriorityQueue):
    def find_live(self, now_ns: int, budget: int) -> bool:
        return super().find_live(0, budget)


class LooksAtTheTopLevelOnly(PriorityQueue):
    def expire(self, now_ns: int, budget: int) -> int:
        levels = self.levels
        kept = levels[:-1]
        if self.count == 0 or len(levels) == 1:
            return super().expire(now_ns, budget)
        self.levels = [levels[-1]]
        dropped = super().expire(now_ns, budget)
        self.levels = [*kept, levels[-1]]
        return dropped


class IgnoresPriorityOfWhatComesBack(PriorityQueue):
    def put_back(self, position: int, message: Message) -> None:
        record = self.out.get(position)
        if record is not None:
            record.level = 0
        super().put_back(position, message)


class CountsOneRedeliveryTooMany(PriorityQueue):
    def put_back(self, position: int, message: Message) -> None:
        record = self.out.get(position)
        if record is not None and record.deliveries == 0:
            record.deliveries = -1
        super().put_back(position, message)


class SupersedesAtTheBack(PriorityQueue):
    def _supersede(self, entry: Entry, message: Message, is_redelivered: bool) -> None:
        for level in self.levels:
            entries = level.line.entries
            if entry in entries[int(level.line.at) :]:
                entries.remove(entry)
                entries.append(entry)
        super()._supersede(entry, message, is_redelivered)


class SupersedesWithoutACount(PriorityQueue):
    def _supersede(self, entry: Entry, message: Message, is_redelivered: bool) -> None:
        overtaken = entry.message
        super()._supersede(entry, message, is_redelivered)
        counts = self.sink
        assert isinstance(counts, ExpiryAndLimits)
        counts.drops[REASON_SUPERSEDED] -= 1
        assert overtaken is not message


class KeepsTheOlderLastValue(PriorityQueue):
    def put_back(self, position: int, message: Message) -> None:
        record = self.out.get(position)
        if record is not None:
            record.key = ""
        super().put_back(position, message)


class PurgesWithoutRepaying(PriorityQueue):
    def purge(self) -> Purged:
        for message in self.ready_messages():
            message.origin.store(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)
        return super().purge()


# -- limits and lifetimes ------------------------------------------------------------------------


class DropsTheTail(BuggyLimits):
    def _drop_over(self) -> bool:
        messages = self.actor.messages
        while self.rules.overflow == 0 and self.rules.is_over(
            messages.ready_count(), self.body_bytes()
        ):
            if self.records is None or not self.records.levels[0].line.entries:
                return super()._drop_over()
            level = self.records.levels[0]
            line = level.line
            line.returned.insert(0, line.entries.pop())
            self.dropped(self.records._given_up(level), REASON_MAXLEN)
        return False


class DropsBeforeItGives(BuggyLimits):
    def _take_lanes(self, budget: int) -> None:
        super()._take_lanes(budget)
        ready = self.actor.ready
        self.actor.ready = []
        self._drop_over()
        self.actor.ready = ready


class CountsTheUnanswered(BuggyLimits):
    def _is_beyond(self, message: Message, is_holding: bool) -> bool:
        return super()._is_beyond(message, is_holding) or (
            self.rules.max_length >= 0 and self.actor.unacked_count >= self.rules.max_length
        )


class AcceptsWhatItRefuses(BuggyLimits):
    def take_lane(self, lane: Lane, budget: int) -> bool:
        before = int(self.drops[6])
        items = list(lane.items)
        answer = super().take_lane(lane, budget)
        if self.drops[6] > before:
            lane.answerable.accepted(items[-1:], 1)
        return answer


class TakesWhenItIsFull(BuggyLimits):
    def _is_beyond(self, message: Message, is_holding: bool) -> bool:
        return not is_holding and super()._is_beyond(message, is_holding)


class StaysFull(BuggyLimits):
    def freed(self) -> None:
        if self.rules.overflow != BACKPRESSURE:
            super().freed()


class OpensForWhatDoesNotFit(BuggyLimits):
    def measure_full(self) -> None:
        stopped, self.stopped = self.stopped, None
        if stopped is not None and not self.is_full:
            self.is_full = True
            self.actor.gate.close(self.actor.consumers_id(), "full")
        else:
            super().measure_full()


class ForgetsToSetTheTimer(BuggyLimits):
    def _arm(self) -> None:
        if self.records is not None and self.records.count < 2:
            super()._arm()


class RepaysTheDeadTwice(BuggyLimits):
    def dropped(self, message: Message, reason: int) -> None:
        super().dropped(message, reason)
        if reason == REASON_EXPIRED and message.origin.name and message.raw[FLAGS_AT] & 1:
            message.origin.store(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)


PLAIN: dict[str, object] = {
    "ttl": None,
    "length": None,
    "size": None,
    "priorities": 0,
    "limit": None,
}
AGED: dict[str, object] = {**PLAIN, "ttl": 5, "last_value": ""}
FIRST: dict[str, object] = {**PLAIN, "priorities": 2, "last_value": ""}
LAST: dict[str, object] = {**PLAIN, "last_value": "routing-key"}
SHORT: dict[str, object] = {**PLAIN, "length": 2, "last_value": ""}

MESSAGES: dict[type[PriorityQueue], dict[str, object]] = {
    RequeuesToTheBack: FIRST,
    ForgetsRedelivered: FIRST,
    RenewsTheLifetimeOfWhatComesBack: AGED,
    ExpiresOneInstantLate: AGED,
    DeliversTheDead: {**PLAIN, "last_value": ""},
    LooksAtTheTopLevelOnly: {**FIRST, "ttl": 5},
    IgnoresPriorityOfWhatComesBack: FIRST,
    CountsOneRedeliveryTooMany: {**PLAIN, "limit": 1},
    SupersedesAtTheBack: LAST,
    SupersedesWithoutACount: LAST,
    KeepsTheOlderLastValue: LAST,
    PurgesWithoutRepaying: AGED,
}
RULINGS: dict[type[ExpiryAndLimits], dict[str, object]] = {
    DropsTheTail: {**SHORT, "overflow": 0, "size": 30},
    DropsBeforeItGives: {**SHORT, "overflow": 0},
    CountsTheUnanswered: {**SHORT, "overflow": 1},
    AcceptsWhatItRefuses: {**SHORT, "overflow": 1},
    TakesWhenItIsFull: {**SHORT, "overflow": 3},
    StaysFull: {**SHORT, "overflow": 3},
    OpensForWhatDoesNotFit: {**PLAIN, "size": 12, "overflow": 3, "last_value": ""},
    ForgetsToSetTheTimer: AGED,
    RepaysTheDeadTwice: PLAIN,
}
"""Each bug, and the kind of rules under which it shows."""


def planted() -> list[tuple[type[ExpiryAndLimits], dict[str, object]]]:
    """Every bug as a ExpiryAndLimits, and rules to try it with."""
    made: list[tuple[type[ExpiryAndLimits], dict[str, object]]] = [
        (type(one.__name__, (BuggyLimits,), {"messages": one}), rules)
        for one, rules in MESSAGES.items()
    ]
    return [*made, *RULINGS.items()]
