"""The rules of one queue as its actor sees them: what happens in a turn instead of the plain thing.

A queue without rules has none, and pays one comparison a turn for it. See broker/queue/ruling.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.broker.actors.lane import Lane
from penstock.protocol.content import Message
from penstock.queues.queue import DropSink
from penstock.queues.rules import DROP_NAMES, REASON_REJECTED, QueueRules

FORCED: Final = 1 << 40
"""A budget that says: take everything, whatever the limits are, because the sender is gone."""
COMMITTED: Final = FORCED + 1
"""As FORCED, and nothing is refused either: it was committed, and may be on the disk by now."""


@mypyc_attr(allow_interpreted_subclasses=True)
class LetterSink(DropSink):
    """Where a queue's dead letters go; see broker/dead_letter/dead_letters. Nominal base.

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
class QueueRuling(DropSink):
    """Nominal base. rules: in force; drops: messages given up by rules.REASON_*; dead_letters: who
    gets what is dropped for the reasons of RabbitMQ, None for nobody; is_paused: consumers are
    given nothing; is_full: the queue takes nothing (overflow backpressure); lost_count: messages
    that could not be read, for which it was paused, 0 once somebody has resumed it."""

    __slots__ = ("dead_letters", "drops", "is_full", "is_paused", "lost_count", "rules")

    def __init__(self) -> None:
        self.rules = QueueRules()
        self.drops: list[int] = [0] * len(DROP_NAMES)
        self.dead_letters: LetterSink | None = None
        self.is_paused = False
        self.is_full = False
        self.lost_count = 0

    def rejected(self, position: i64, message: Message) -> bool:
        """A consumer has rejected for good what was taken at `position`; its cause is repaid by
        whoever forgets it. False if it is not gone yet, but in the queue, because its body is on
        the disk and has to be read for its letter; what cannot be read for that has none."""
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

    def turn(self, budget: i64) -> bool:
        """The queue's turn; True if there is more to do."""
        raise NotImplementedError

    def take_lane(self, lane: Lane, budget: i64) -> bool:
        """Take up to `budget` messages out of `lane` as the limits have it; True if it holds
        more."""
        raise NotImplementedError

    def catch_up(self) -> None:
        """Somebody is about to look: take what the lanes hold, drop what is dead."""
        raise NotImplementedError

    def may_get(self) -> bool:
        """basic.get: whether there is a message it may have; the first one, then."""
        raise NotImplementedError

    def freed(self) -> None:
        """Messages have left outside a turn."""
        raise NotImplementedError

    def used(self) -> None:
        """Somebody has declared the queue, asked it for a message, or stopped consuming."""
        raise NotImplementedError

    def finished(self) -> None:
        """The queue is gone."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class RuleDesk:
    """Who gives queues their rules; see broker/policy/rulebook. Nominal base."""

    __slots__ = ()

    def keep_records(self, receiver: object) -> None:
        """A message with a lifetime of its own is about to come into the queue actor `receiver`,
        which has no records."""

    def unused(self, receiver: object) -> None:
        """The queue actor `receiver` has been unused for its x-expires: it goes."""
