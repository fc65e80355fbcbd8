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

from functools import partial
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.shown_names import shown_name
from penstock.broker.actors.actor import Line
from penstock.broker.dead_letter.dead_letter_manager import DeadLetterManager
from penstock.broker.dead_letter.dead_letters import DeadLetter, DeadLetters, dead_letters_of
from penstock.broker.queue.classic_actor import ClassicActor
from penstock.broker.queue.expiry_and_limits import ExpiryAndLimits
from penstock.broker.queue.queue_actor import QueueTarget
from penstock.broker.vhost.catalogue import BY_EXCHANGE
from penstock.broker.vhost.context import Context
from penstock.broker.vhost.vhost import VirtualHost
from penstock.flow.credit import Strategy
from penstock.flow.due import DueLine
from penstock.protocol.content import Message, SharedMessage
from penstock.protocol.property_lookup import FLAG_EXPIRATION
from penstock.queues.dead_letter import Obituary
from penstock.queues.delayed import DelayedMessages, release
from penstock.queues.priorities import PriorityQueue
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.rules import BACKPRESSURE, QueueRules
from penstock.routing.deduplication import DeduplicationExchange
from penstock.routing.delayed import DelayedExchange
from penstock.routing.exchange import Exchange
from penstock.telemetry.events import ACTOR_UP

STORE_PREFIX: Final = "amq.delayed."
"""In front of the exchange's name: what begins with amq. no client can declare as a queue."""


class DelayStore(ClassicActor):
    """exchange: whose it is; host: what has made it."""

    __slots__ = ("exchange", "host")

    def __init__(
        self,
        vhost: str,
        exchange: DelayedExchange,
        host: "DelayStores",
        line: Line,
        strategy: Strategy,
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
        self.room = None
        self.delays = True
        self.exchange = exchange
        self.host = host

    def consumers_id(self) -> str:
        """Who holds a store that is full: the exchange, which lets nothing go before its time."""
        return "exchange:" + shown_name(self.vhost, self.exchange.name)

    def lease_refusal(self) -> str:
        return "belongs to an exchange"

    def overdue_for(self) -> str:
        letters = dead_letters_of(self)
        return letters.waits_for() if letters is not None and letters.is_stalled() else ""

    def finish(self, is_crash: bool) -> None:
        count = int(self.messages.ready_count())
        for lane in self.lanes:
            count += len(lane.items) - int(lane.head)
        super().finish(is_crash)
        self.host.dropped(self, count, is_crash)
        if is_crash:
            self.host.failed(self)


@mypyc_attr(allow_interpreted_subclasses=True)
def _stay(actor: ClassicActor) -> None:
    """A store stays as long as its exchange."""


class DelayLimits(ExpiryAndLimits):
    """The turn of a store: what is due leaves first, then what comes is taken up to the bounds.
    released_count: messages that went on to the exchange."""

    __slots__ = ("released_count",)

    def __init__(self, actor: DelayStore, dues: DueLine) -> None:
        super().__init__(actor, dues, _stay)
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

    def make_records(self) -> PriorityQueue:
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
        if isinstance(message, SharedMessage):
            message.left()
        message.origin.unstore(1, len(message.raw) + MESSAGE_OVERHEAD_BYTES)


class DelayedLetters(DeadLetters):
    """Messages on their way from the store to queues, over `exchange`. What is on the disk stays
    there until the last of its queues has answered, with its copy as safe as that queue keeps it;
    it counts as resting in the store so long."""

    __slots__ = ("queue_limits",)

    def __init__(
        self, store: DelayStore, manager: DeadLetterManager, queue_limits: DelayLimits
    ) -> None:
        super().__init__(store, manager)
        self.queue_limits = queue_limits
        self.exchange = store.exchange.name
        self.window = manager.window_of(False)

    def change(self, rules: QueueRules, is_confirmed: bool) -> None:
        """They go where the exchange leads, whatever the rules of queues say."""

    def dropped(self, message: Message, reason: i64) -> None:
        if message.stored is None:
            super().dropped(message, reason)
            return
        letter = DeadLetter(message, reason)
        self._hold(letter, 1)
        self._begin(letter, False)

    def answered(self, letter: DeadLetter) -> None:
        super().answered(letter)
        if letter.is_held and letter.open_count == 0:
            self._hold(letter, -1)

    def write(self, letter: DeadLetter, exchange: str) -> Obituary:
        return release(letter.message)

    def _hand_over(self, letter: DeadLetter, written: Obituary, targets: list[QueueTarget]) -> i64:
        # Unlike a dead letter it keeps the lifetime its publisher gave it, which begins now.
        if (written.message.raw[19] & FLAG_EXPIRATION) != 0:
            for target in targets:
                target.actor.expects_lifetimes()
        return super()._hand_over(letter, written, targets)

    def finished(self) -> None:
        # What the log has goes with its store, or comes back for the next one after a crash.
        self.actor.durability = None
        super().finished()

    def numbers(self) -> dict[str, float]:
        """released: messages that went on; the rest as of dead letters."""
        found: dict[str, float] = {}
        if self.queue_limits.released_count > 0:
            found["released"] = float(int(self.queue_limits.released_count))
        for name, number in super().numbers().items():
            if not name.startswith("dead_lettered:"):
                found[name] = number
        return found


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayStores:
    """Gives exchanges what they need: a store to those that delay, taken away with the exchange; a
    clock to those that know duplicates by time.

    vhosts: of the broker, live; messages_max, bytes_max: of one store. Owner:
    the broker."""

    __slots__ = (
        "bytes_max",
        "context",
        "dues",
        "letters",
        "log",
        "messages_max",
        "scheduler",
        "vhosts",
    )

    def __init__(self, context: Context, letters: DeadLetterManager) -> None:
        self.context = context
        self.vhosts = context.vhosts
        self.scheduler = context.scheduler
        self.dues = context.dues
        self.letters = letters
        self.log = context.log
        self.messages_max = context.config.delayed_messages_max
        self.bytes_max = context.config.delayed_bytes_max
        for vhost in self.vhosts.values():
            vhost.exchange_added = self.exchange_made

    def exchange_made(self, vhost: VirtualHost, exchange: Exchange) -> None:
        if isinstance(exchange, DelayedExchange):
            self.give(vhost, exchange)
            exchange = exchange.inner
        if isinstance(exchange, DeduplicationExchange):
            exchange.clock = self.scheduler.clock

    def give(self, vhost: VirtualHost, exchange: DelayedExchange, queue_id: int = 0) -> None:
        """A new store for `exchange`, which has none. queue_id: under which one that has failed was
        kept; what that had on the disk comes back with the next start, into this one's place.

        Raises: ChannelFault 406 while it cannot be kept, and then nothing has changed."""
        store = DelayStore(vhost.name, exchange, self, self.scheduler, self.context.strategy)
        store.queue_id = queue_id or vhost.catalogue.queue_added(store)
        store.fair_bytes = self.context.profile.fair_bytes
        queue_limits = self.make_limits(store)
        queue_limits.begin(self.messages_max, self.bytes_max)
        queue_limits.dead_letters = DelayedLetters(store, self.letters, queue_limits)
        store.queue_limits = queue_limits
        vhost.add_store(store)
        exchange.store = store.target
        exchange.gone = partial(vhost.remove_queue, store)
        self.scheduler.recorder.record(ACTOR_UP, store.identity, "", "", 0)

    def make_limits(self, store: DelayStore) -> DelayLimits:
        """What a new store goes by."""
        return DelayLimits(store, self.dues)

    def failed(self, store: DelayStore) -> None:
        """A turn of the store has failed: its exchange needs another one."""
        self.give(self.vhosts[store.vhost], store.exchange, store.queue_id)

    def dropped(self, store: DelayStore, count: int, is_crash: bool) -> None:
        """The store goes with its exchange or, after a crash, alone, and `count` messages with
        it."""
        if count == 0:
            return
        end = "were dropped with it"
        if is_crash and store.queue_id > 0:
            end += "; those on the disk come back with the next start"
        self.log.warning(f"{store.consumers_id()}: {count} delayed messages {end}")

    def keep_all(self) -> None:
        """The broker has a catalogue now: stores of durable exchanges that are not in it, because a
        crash came in between or Penstock was older, are put there. Raises: ChannelFault 406."""
        for vhost in self.vhosts.values():
            for store in vhost.queues.values():
                if store.delays and store.queue_id == 0:
                    store.queue_id = vhost.catalogue.queue_added(store)
