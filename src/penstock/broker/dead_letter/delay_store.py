"""The store behind a delayed message exchange: a queue whose messages go on when it is time.

    publish -> [exchange] -> lane -> store    until x-delay is over    -> [exchange] -> queues
It is a queue actor, so its publishers pay for what rests in it and wait when it is full, and an
alarm, a snapshot and `why` see it; no client can: it is locked, and no binding leads to it. What is
due leaves as dead letters do: on lanes outside hop credit, with a window, to queues that may be
full themselves. It is lost only where any publish would be: without a queue to go to, in one that
refuses it, or with the exchange. The store of a durable exchange keeps its persistent messages on
the disk, each until all of its queues have it as safe as they keep it. Source: RabbitMQ's
rabbitmq_delayed_message_exchange.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.broker.actors.actor import Line
from penstock.broker.dead_letter.dead_lane import Letter
from penstock.broker.dead_letter.dead_letters import DeadLetters
from penstock.broker.dead_letter.letter_desk import LetterDesk
from penstock.broker.queue.classic_actor import ClassicActor, RuleSource
from penstock.broker.queue.queue_actor import QueueTarget
from penstock.broker.queue.ruling import Ruling
from penstock.broker.vhost.catalogue import BY_EXCHANGE
from penstock.flow.due import DueLine
from penstock.flow.strategy import Strategy
from penstock.protocol.content import Message
from penstock.protocol.property_lookup import FLAG_EXPIRATION
from penstock.queues.dead_letter import LOST_NAMES, Obituary
from penstock.queues.delayed import DelayedMessages, release
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.ruled import RuledQueue
from penstock.queues.rules import BACKPRESSURE, QueueRules
from penstock.routing.delayed import DelayedExchange

STORE_PREFIX: Final = "amq.delayed."
"""In front of the exchange's name: what begins with amq. no client can declare as a queue."""


@mypyc_attr(allow_interpreted_subclasses=True)
class StoreHost:
    """What a store asks of whoever made it. Nominal base."""

    __slots__ = ()

    def store_failed(self, store: "DelayStore") -> None:
        """A turn of the store has failed: its exchange needs another one."""
        raise NotImplementedError

    def store_dropped(self, store: "DelayStore", count: int, is_crash: bool) -> None:
        """The store goes with its exchange or, after a crash, alone, and `count` messages with
        it."""
        raise NotImplementedError


class DelayStore(ClassicActor):
    """exchange: whose it is."""

    __slots__ = ("exchange", "host")

    def __init__(
        self, vhost: str, exchange: DelayedExchange, host: StoreHost, line: Line, strategy: Strategy
    ) -> None:
        super().__init__(
            vhost,
            STORE_PREFIX + exchange.name,
            exchange.durable,
            False,
            BY_EXCHANGE,
            {},
            line,
            strategy,
            0,
        )
        self.is_internal = True
        self.delays = True
        self.exchange = exchange
        self.host = host

    def consumers_id(self) -> str:
        """Who holds a store that is full: the exchange, which lets nothing go before its time."""
        vhost = "" if self.vhost == "/" else self.vhost
        return f"exchange:{vhost}/{self.exchange.name}"

    def lease_refusal(self) -> str:
        return "belongs to an exchange"

    def overdue_for(self) -> str:
        letters = None if self.ruling is None else self.ruling.dead_letters
        if isinstance(letters, DelayedLetters) and letters.is_stalled():
            for lane in letters.lanes.values():
                if lane.waits():
                    return lane.receiving.identity
        return ""

    def finish(self, is_crash: bool) -> None:
        count = int(self.messages.ready_count())
        for lane in self.lanes:
            count += len(lane.items) - int(lane.head)
        super().finish(is_crash)
        self.host.store_dropped(self, count, is_crash)
        if is_crash:
            self.host.store_failed(self)


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayRuling(Ruling):
    """The turn of a store: what is due leaves first, then what comes is taken up to the bounds.
    released_count: messages that went on to the exchange."""

    __slots__ = ("released_count",)

    def __init__(self, actor: DelayStore, dues: DueLine) -> None:
        super().__init__(actor, dues, RuleSource())
        self.released_count: i64 = 0
        self.is_keeping = True

    def begin(self, messages_max: int, bytes_max: int) -> None:
        """Hold at most so many messages, and so many bytes of memory with them."""
        rules = QueueRules()
        rules.max_length = messages_max
        rules.max_bytes = bytes_max
        rules.overflow = BACKPRESSURE
        super().change(rules)

    def change(self, rules: QueueRules) -> None:
        """A store has bounds of its own; policies are about queues."""

    def make_records(self) -> RuledQueue:
        return DelayedMessages(self.rules, self)

    def _expire(self) -> bool:
        return False if self.actor.is_paused else super()._expire()

    def body_bytes(self) -> i64:
        """All of what a message takes counts here, not its body alone: nobody can see to it that
        headers stay small."""
        records = self.records
        return 0 if records is None else records.bytes_ready

    def dropped(self, message: Message, reason: i64) -> None:
        """The time of `message` has come."""
        self.released_count += 1
        if self.dead_letters is not None:
            self.dead_letters.dropped(message, reason)
        if message.stored is not None:
            self.actor.forget(message)
        message.origin.unstore(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)


class DelayedLetters(DeadLetters):
    """Messages on their way from the store to queues, over `exchange`. What is on the disk stays
    there until the last of its queues has answered, with its copy as safe as that queue keeps it;
    it counts as resting in the store so long."""

    __slots__ = ("ruling",)

    def __init__(self, store: DelayStore, desk: LetterDesk, ruling: DelayRuling) -> None:
        super().__init__(store, desk)
        self.ruling = ruling
        self.exchange = store.exchange.name
        self.window = desk.window_of(False)

    def change(self, rules: QueueRules, is_confirmed: bool) -> None:
        """They go where the exchange leads, whatever the rules of queues say."""

    def dropped(self, message: Message, reason: i64) -> None:
        if message.stored is None:
            super().dropped(message, reason)
            return
        letter = Letter(message, reason)
        self._hold(letter, 1)
        self._begin(letter, False)

    def answered(self, letter: Letter) -> None:
        super().answered(letter)
        if letter.is_held and letter.open_count == 0:
            self._hold(letter, -1)

    def write(self, letter: Letter, exchange: str) -> Obituary:
        return release(letter.message)

    def _hand_over(self, letter: Letter, written: Obituary, targets: list[QueueTarget]) -> i64:
        # Unlike a dead letter it keeps the lifetime its publisher gave it, which begins now.
        if (written.message.raw[19] & FLAG_EXPIRATION) != 0:
            for target in targets:
                target.actor.expects_lifetimes()
        return super()._hand_over(letter, written, targets)

    def finished(self) -> None:
        # What the log has goes with its store, or comes back for the next one after a crash.
        self.actor.keeper = None
        super().finished()

    def numbers(self) -> dict[str, float]:
        """released: messages that went on; the rest as of dead letters."""
        found: dict[str, float] = {}
        if self.ruling.released_count > 0:
            found["released"] = float(int(self.ruling.released_count))
        for index in range(len(LOST_NAMES)):
            if self.counts.lost[index] > 0:
                found["dead_letter_dropped:" + LOST_NAMES[index]] = float(self.counts.lost[index])
        for name, count in (
            ("dead_letter_escapes", int(self.counts.escapes)),
            ("dead_letters_waiting", len(self.late)),
            ("dead_letters_under_way", int(self.count)),
        ):
            if count > 0:
                found[name] = float(count)
        return found
